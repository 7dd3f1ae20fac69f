"""Explains where each value comes from, which flows carry a topic, and its names on each cluster."""

from dataclasses import replace
from difflib import get_close_matches

from reconciler.engine.edits.fields import leaves, words
from reconciler.engine.edits.flows import blank
from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.environment.topology import Flow, Mirror, TopicRef, Topology
from reconciler.model.live import LiveCluster, LiveMirror, LiveState
from reconciler.model.reports.explain import Explanation, FlowDetails, MirrorDetails
from reconciler.replication.policy import NO_MATCH
from reconciler.resources.acls.kind import desired_access, rules_about_principal, rules_about_topic
from reconciler.resources.flows.explain import flow_answer
from reconciler.resources.flows.renames import called_now
from reconciler.resources.flows.routes import find_routes, selector_of
from reconciler.resources.mirrors.handover import flow_handover, mirror_handover
from reconciler.resources.quotas.kind import quotas_about
from reconciler.resources.topics.desired import desired_topics
from reconciler.resources.topics.explain import NO_PLACES, ExplainBasis, FieldLocations, topic_answer
from reconciler.resources.users.kind import credentials_of


def explain(
    topology: Topology, subject: str, live: LiveState | None = None, places: FieldLocations = NO_PLACES
) -> Explanation:
    """``subject``: ``cluster/topic``, ``topic``, either with ``:config.key``, the name of a flow or mirror, or a
    principal of rules, quotas or SCRAM users, such as ``User:orders-app``; also ``client-id:x``, ``ip:x``.

    ``live``: None if no cluster was asked. ``places``: line numbers of values in the texts. Raises ReconcilerError for
    an unknown subject.
    """
    # A silent cluster is taken as declared in git, so that the offline part is always complete.
    empty = blank(topology)
    clusters: dict[str, LiveCluster | Unknown] = {
        name: (live.known(name) if live else None) or empty.clusters[name] for name in topology.clusters
    }
    state = LiveState(clusters, live.mirrors if live else {})
    routing = find_routes(topology, state)
    answered = frozenset(name for name in topology.clusters if live and live.known(name))
    basis = ExplainBasis(topology, state, routing, desired_topics(topology, state, routing), answered, places)

    # Names of principals, quotas and users contain characters that no topic, flow or mirror name can have.
    rules = desired_access(basis)
    about = rules_about_principal(basis, rules, subject) if rules is not None else ()
    quotas, users = quotas_about(basis, subject), credentials_of(basis, subject)
    asked, unread = live is not None, live.unread if live is not None else ()
    if about or quotas or users:
        return Explanation(topology.environment, subject, (), (), (), asked, unread, about, quotas, users)

    name, _, key = subject.partition(":")
    cluster, slash, topic = name.partition("/")
    if slash and cluster not in topology.clusters:
        raise ReconcilerError(
            f"environment {topology.environment} has no cluster {cluster}",
            f"{name} is read as topic {topic} on cluster {cluster}.",
            f"Its clusters: {', '.join(topology.clusters) or 'none'}.",
        )
    refs = [TopicRef(cluster, topic)] if slash else sorted(ref for ref in basis.present if ref.name == name)
    topics = tuple(topic_answer(basis, ref, key) for ref in refs)
    if rules is not None and not key:
        topics = tuple(replace(answer, access=rules_about_topic(basis, rules, answer.ref)) for answer in topics)
    flows = (_flow(basis, topology.flows[name]),) if name in topology.flows and not key else ()
    mirrors = (_mirror(basis, topology.mirrors[name]),) if name in topology.mirrors and not key else ()
    shown = [there for answer in topics if (there := state.topic(answer.ref)) is not None]
    unknown = (
        *unread,
        *(why for answer in topics if (why := basis.hidden(answer.ref)) is not None),
        *(there.configs for there in shown if isinstance(there.configs, Unknown)),
    )
    if not (topics or flows or mirrors):
        raise _nowhere(basis, subject, unknown)
    return Explanation(topology.environment, subject, topics, flows, mirrors, asked, unknown)


def _flow(basis: ExplainBasis, flow: Flow) -> FlowDetails:
    """A flow with its settings, and each live or declared topic of its source."""
    selector = selector_of(flow)
    here = [ref for ref in sorted(basis.present) if ref.cluster == flow.source]
    answers = [flow_answer(flow, selector, ref) for ref in here]
    # what the expressions match comes first: that it is left is the news
    answers.sort(key=lambda answer: selector.why_not(answer.topic.name) == NO_MATCH)
    fields = flow_handover(basis.topology, flow)
    mirror = next((m.name for m in basis.topology.mirrors.values() if flow.name in m.flows), "")
    return FlowDetails(
        flow.name,
        flow.where.line_words,
        mirror,
        str(fields["fingerprint"]),
        _settings(flow),
        tuple(answer for answer in answers if answer.remote),
        tuple(answer for answer in answers if not answer.remote),
    )


def _mirror(basis: ExplainBasis, mirror: Mirror) -> MirrorDetails:
    """Explains a mirror: the place of its status, its settings, and its fingerprints, running and declared."""
    live_mirror = basis.live.mirrors.get(mirror.name)
    state = ""
    if isinstance(live_mirror, LiveMirror):
        state = f"{live_mirror.state}, fingerprint {live_mirror.fingerprint or 'none'}"
    return MirrorDetails(
        mirror.name,
        mirror.where.line_words,
        mirror.flows,
        basis.topology.status_cluster(mirror),
        str(mirror_handover(basis.topology, mirror)["fingerprint"]),
        _settings(mirror),
        state,
    )


def _settings(noun: Flow | Mirror) -> tuple[tuple[str, str], ...]:
    return tuple((".".join(path), words(path, value)) for path, value in leaves(noun) if value not in ((), ""))


def _nowhere(basis: ExplainBasis, subject: str, unknown: tuple[Unknown, ...]) -> ReconcilerError:
    """The error for an unknown subject: a flow's former name, similar names, or how to ask about a planned topic."""
    if name := called_now(basis.topology).get(subject):
        why = f"It was renamed: moved says that {name} was {subject}, and its state continues under that name."
        return ReconcilerError(f"flow {subject} is called {name} now", why, f"Ask for {name}.")
    known = {ref.name for ref in basis.present} | basis.topology.flows.keys() | basis.topology.mirrors.keys()
    near = get_close_matches(subject.partition(":")[0], sorted(known), 3)
    silent = f"; {', '.join(each.subject for each in unknown)} did not answer" if unknown else ""
    kinds = "topic, flow, mirror or principal with rules" if basis.topology.access else "topic, flow or mirror"
    return ReconcilerError(
        f"environment {basis.topology.environment} has no {kinds} {subject}",
        f"It is neither declared nor made by a flow, nor seen on a cluster that was asked{silent}.",
        f"Perhaps {' or '.join(near)}?" if near else "Write cluster/topic to ask about a topic to come.",
    )
