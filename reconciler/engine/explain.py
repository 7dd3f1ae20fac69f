"""Where each value comes from, which flows carry a topic and why, and what it is called on each cluster.

Border: works from the topology alone; what clusters and jobs answered is added where it is known.
"""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches

from reconciler.comparing.fields import leaves, words
from reconciler.comparing.travelling import blank
from reconciler.diffing.wishes import wishes
from reconciler.errors import ReconcilerError, Unknown, Where
from reconciler.explaining.access import access_wishes, rules_about_principal, rules_about_topic
from reconciler.explaining.matching import flow_answer
from reconciler.explaining.quotas import quotas_about
from reconciler.explaining.topics import NO_PLACES, Ground, topic_answer
from reconciler.explaining.users import credentials_of
from reconciler.explanation import Explanation, FlowAnswer, FlowDetails, MirrorDetails
from reconciler.handover import flow_handover, mirror_handover
from reconciler.live import LiveCluster, LiveMirror, LiveState, LiveUsers
from reconciler.places import Places
from reconciler.routing import find_routes
from reconciler.topology import Flow, Mirror, TopicRef, Topology


def explain(topology: Topology, subject: str, live: LiveState | None = None, places: Places = NO_PLACES) -> Explanation:
    """``subject``: ``cluster/topic``, ``topic``, either with ``:config.key``, the name of a flow or mirror, or a
    principal such as ``User:orders-app`` that rules, quotas or SCRAM users are about; also ``client-id:x``, ``ip:x``.

    ``live`` None: no cluster was asked. ``places``: of the texts, for the lines of values.
    Raises ReconcilerError for a subject that is nowhere.
    """
    ground = replace(_ground(topology, live), places=places)
    rules = access_wishes(ground)
    about = rules_about_principal(ground, rules, subject) if rules is not None else ()
    quotas, users = quotas_about(ground, subject), credentials_of(ground, subject)
    if about or quotas or users:
        asked, unknown = live is not None, _unknown(live)
        return Explanation(topology.environment, subject, (), (), (), asked, unknown, about, quotas, users)
    name, _, key = subject.partition(":")
    topics = tuple(topic_answer(ground, ref, key) for ref in _topics(ground, name))
    if rules is not None and not key:
        topics = tuple(replace(one, access=rules_about_topic(ground, rules, one.ref)) for one in topics)
    flows = tuple(_flow(ground, topology.flows[name]) for name in (name,) if name in topology.flows and not key)
    mirrors = tuple(_mirror(ground, topology.mirrors[name]) for name in (name,) if name in topology.mirrors and not key)
    unknown = _unknown(live)
    if not (topics or flows or mirrors):
        raise _nowhere(ground, subject, unknown)
    return Explanation(topology.environment, subject, topics, flows, mirrors, live is not None, unknown)


def _ground(topology: Topology, live: LiveState | None) -> Ground:
    """A cluster that did not answer is taken as git has it, so that the offline part is always there."""
    empty = blank(topology)
    clusters: dict[str, LiveCluster | Unknown] = {
        name: (live.known(name) if live else None) or empty.clusters[name] for name in topology.clusters
    }
    state = LiveState(clusters, live.mirrors if live else {})
    routing = find_routes(topology, state)
    answered = frozenset(name for name in topology.clusters if live and live.known(name))
    return Ground(topology, state, routing, wishes(topology, state, routing), answered)


def _topics(ground: Ground, name: str) -> tuple[TopicRef, ...]:
    cluster, slash, topic = name.partition("/")
    if slash:
        if cluster not in ground.topology.clusters:
            raise ReconcilerError(
                f"environment {ground.topology.environment} has no cluster {cluster}",
                f"{name} is read as topic {topic} on cluster {cluster}.",
                f"Its clusters: {', '.join(ground.topology.clusters) or 'none'}.",
            )
        return (TopicRef(cluster, topic),)
    return tuple(sorted(ref for ref in ground.present if ref.name == name))


def _flow(ground: Ground, flow: Flow) -> FlowDetails:
    answers: list[FlowAnswer] = [flow_answer(flow, ref) for ref in sorted(ground.present) if ref.cluster == flow.source]
    told = flow_handover(ground.topology, flow)
    mirror = next((m.name for m in ground.topology.mirrors.values() if flow.name in m.flows), "")
    return FlowDetails(
        flow.name,
        _place(flow.where),
        mirror,
        str(told["fingerprint"]),
        _settings(flow),
        tuple(one for one in answers if one.remote),
        tuple(one for one in answers if not one.remote),
    )


def _mirror(ground: Ground, mirror: Mirror) -> MirrorDetails:
    found = ground.live.mirrors.get(mirror.name)
    state = ""
    if isinstance(found, LiveMirror):
        state = f"{found.state}, fingerprint {found.fingerprint or 'none'}"
    return MirrorDetails(
        mirror.name,
        _place(mirror.where),
        mirror.flows,
        ground.topology.status_cluster(mirror) if mirror.flows else "",
        str(mirror_handover(ground.topology, mirror)["fingerprint"]) if mirror.flows else "",
        _settings(mirror),
        state,
    )


def _settings(noun: Flow | Mirror) -> tuple[tuple[str, str], ...]:
    return tuple((".".join(path), words(path, value)) for path, value in leaves(noun) if value not in ((), ""))


def _place(where: Where) -> str:
    return f"{where.file}:{where.line}" if where.line else ""


def _unknown(live: LiveState | None) -> tuple[Unknown, ...]:
    found = (*live.clusters.values(), *live.mirrors.values()) if live else ()
    rules = [one.acls for one in found if isinstance(one, LiveCluster) and one.access is not None]
    quotas = [one.quotas for one in found if isinstance(one, LiveCluster)]
    users = [part for one in found if isinstance(one, LiveCluster) and one.users for part in _parts(one.users)]
    return tuple(one for one in (*found, *rules, *quotas, *users) if isinstance(one, Unknown))


def _parts(users: LiveUsers) -> tuple[object, object]:
    return users.credentials, users.recorded


def _nowhere(ground: Ground, subject: str, unknown: tuple[Unknown, ...]) -> ReconcilerError:
    known = {ref.name for ref in ground.present} | ground.topology.flows.keys() | ground.topology.mirrors.keys()
    near = get_close_matches(subject.partition(":")[0], sorted(known), 3)
    silent = f"; {', '.join(one.subject for one in unknown)} did not answer" if unknown else ""
    kinds = "topic, flow, mirror or principal with rules" if ground.topology.access else "topic, flow or mirror"
    return ReconcilerError(
        f"environment {ground.topology.environment} has no {kinds} {subject}",
        f"It is neither declared nor made by a flow, nor seen on a cluster that was asked{silent}.",
        f"Perhaps {' or '.join(near)}?" if near else "Write cluster/topic to ask about a topic that is not there yet.",
    )
