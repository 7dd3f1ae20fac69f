"""Flows that keep offsets: refuses impossible ones in a plan, and reports their needs and costs.

Belongs here: checks of topics and flows, and words of ``doctor`` and ``plan`` about the right to write transaction
markers (decision 163). Checks that need an answer of brokers are in ``engine.plan.same_offsets``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.errors import Unknown
from reconciler.model.changes import About, Refused, Subject, Why, of_topic
from reconciler.model.environment.services import ServiceOffer, offer_of, service_words
from reconciler.model.environment.topology import Flow, TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.model.plan import Findings, MarkerRight
from reconciler.replication.handover import SAME, TRANSLATED
from reconciler.resources.flows.renames import called_now, state_of
from reconciler.resources.flows.routes import Route, Routing
from reconciler.text import BRIEF, counted, first_of

Previous = Mapping[str, Mapping[str, Any]]


def compare_same_offsets(topology: Topology, live: LiveState, routing: Routing, previous: Previous) -> Findings:
    """``previous``: mirror -> the hand-over of its running job, where it is still known."""
    names = called_now(topology)
    earlier = [entry for handover in previous.values() for entry in handover.get("flows", ())]
    before = {names.get(state_of(entry), entry["name"]): entry for entry in earlier}
    keeping = {flow.name: flow for flow in topology.flows.values() if flow.keeps_offsets}
    routes = [route for route in routing.routes if route.flow in keeping]
    notes = [line for flow in keeping.values() for line in _needs(live, flow, routes)]
    for name, was in sorted(before.items()):
        flow = topology.flows.get(name)
        if flow is not None and not flow.keeps_offsets and kept_before(was):
            notes.append(
                f"flow {name} no longer keeps offsets: its topics stay, and what is copied from now on has offsets of "
                f"{flow.target}; groups are translated from there on"
            )
    return Findings(refused=tuple(_refusals(topology, live, routing, routes, before)), notes=tuple(notes))


def kept_before(before: Mapping[str, Any]) -> bool:
    """Whether a flow of a hand-over keeps offsets. ``before``: an entry of its ``flows``."""
    return bool(before.get("offsets", TRANSLATED) == SAME)


def _refusals(
    topology: Topology,
    live: LiveState,
    routing: Routing,
    routes: Sequence[Route],
    before: Mapping[str, Mapping[str, Any]],
) -> Iterator[Refused]:
    """``routes``: of flows that keep offsets."""
    # A copy with more partitions than its source; fewer are refused for every flow.
    for route in routes:
        prospect, topic = routing.prospects.get(route.remote), live.topic(route.remote)
        there = max(prospect.partitions or 0 if prospect else 0, len(topic.partitions) if topic else 0)
        if route.partitions is None or there <= route.partitions:
            continue
        text = (
            f"{route.remote} has {counted(there, 'partition')}, and its source {route.source} {route.partitions}; flow "
            f"{route.flow} keeps offsets, so a position of one side must have its partition on the other"
        )
        todo = f"Give {route.source} {counted(there, 'partition')}, or let the flow make a new topic"
        yield Refused.of(of_topic(route.remote, "partitions"), Why.SAME_OFFSETS_PARTITIONS, text, todo)
    # Chains in which one flow keeps offsets and the other does not. `validate` refuses them by their expressions; this
    # is for names that only a custom policy knows.
    made_by = {route.remote: route for route in routing.routes}
    for route in made_by.values():
        first = made_by.get(route.source)
        if first is None or topology.flows[first.flow].keeps_offsets == topology.flows[route.flow].keeps_offsets:
            continue
        text = (
            f"flow {first.flow} makes {route.source} and flow {route.flow} carries it on to {route.remote}, but only "
            "one of the two keeps offsets: one position would mean three records"
        )
        todo = "Write offsets: same on both or on none, or exclude the topic from one of them"
        yield Refused.of(of_topic(route.remote), Why.SAME_OFFSETS_CHAIN, text, todo)
    # Copies from before the flow was changed to keep offsets.
    for route in routes:
        was = before.get(route.flow)
        if was is not None and not kept_before(was) and live.topic(route.remote) is not None:
            yield not_new(route.flow, route.remote)


def not_new(flow: str, remote: TopicRef) -> Refused:
    """Refuses an existing copy: a log cannot shift its offsets, so it cannot get those of its source."""
    text = (
        f"{remote} holds copies with offsets of its own, which flow {flow} made before it was to keep the source's; "
        "what lies there cannot be moved"
    )
    todo = (
        "Let the flow make new topics (a flow of another name with other naming), or delete this one with a tombstone "
        "first; until then write offsets: translated"
    )
    return Refused.of(of_topic(remote), Why.SAME_OFFSETS_NOT_NEW, text, todo)


def _needs(live: LiveState, flow: Flow, routes: Iterable[Route]) -> Iterator[str]:
    """Needs of copies that do not exist yet."""
    new = [route for route in routes if route.flow == flow.name and live.topic(route.remote) is None]
    if not new:
        return
    topics = f"{counted(len(new), 'topic')} on {flow.target}: {_listed(route.remote for route in new)}"
    yield (
        f"flow {flow.name} keeps offsets: record 4711 of the source will be record 4711 of the copy, in {topics}. "
        "The mirror alone writes them, and they keep as many partitions as their sources; it needs Read, Write and "
        "Delete on them"
    )
    # Only a warning: until its log is read, nothing shows how many of a topic's offsets hold a record.
    policies = {
        ref: topic.config("cleanup.policy") for ref in (route.source for route in new) if (topic := live.topic(ref))
    }
    compacted = [route.source for route in new if "compact" in (policies.get(route.source) or "")]
    if compacted:
        yield (
            f"flow {flow.name}: offsets that compaction has removed are holes in the copy, each filled by an aborted "
            f"record or a marker, of {counted(len(compacted), 'compacted topic')}: {_listed(compacted)}"
        )
    yield (
        f"flow {flow.name}: no topic shows whether its source has transactions; each leaves a hole of one offset "
        "or more, filled the same way, which readers without read_committed see as empty records"
    )


def _listed(refs: Iterable[TopicRef]) -> str:
    return first_of(sorted(map(str, refs)), BRIEF)


def too_old(flow: Flow, offer: ServiceOffer) -> Refused:
    """Refuses a flow: its target's brokers lack DescribeProducers or DescribeTransactions (API keys 61 and 65,
    KIP-664)."""
    text = (
        f"flow {flow.name} keeps offsets, and brokers of {flow.target} do not report what a producer has written last "
        "(DescribeProducers, DescribeTransactions: Kafka 3.0), so a mirror that starts again could not know where it is"
    )
    todo = f"Write offsets: translated. {offer.upgrades}" if offer.upgrades else ""
    todo = todo or f"Upgrade {flow.target}, or write offsets: translated"
    return Refused.of(Subject(About.FLOW, name=flow.name), Why.SAME_OFFSETS_TARGET_TOO_OLD, text, todo)


MARKERS_ALLOWED = "may write transaction markers (ClusterAction or Alter)"
MARKERS_NOT_ALLOWED = "may not write transaction markers: it has neither ClusterAction nor Alter on the cluster"
MARKER_LIMIT = (
    "where sources write in transactions or are compacted, a leader that dies or moves, as in each rolling restart, "
    "can get a marker twice from Kafka's coordinator; the partition then stops for good with offsets_diverged"
)


def keeping_flows(topology: Topology, cluster: str) -> tuple[str, ...]:
    """Flows into ``cluster`` that keep offsets."""
    return tuple(flow.name for flow in topology.flows.values() if flow.keeps_offsets and flow.target == cluster)


def flows_into(topology: Topology, cluster: str) -> str:
    """``flow a``, ``flows a and b``."""
    names = keeping_flows(topology, cluster)
    return f"flow{'s' if len(names) > 1 else ''} {' and '.join(names)}"


def marker_todo(topology: Topology, cluster: str, principal: str, command: str) -> str:
    """``command``: the kafka-acls.sh command that grants the right; if git declares access, a rule there instead."""
    if offer_of(topology.clusters[cluster]).cluster_action is False:
        who = service_words(topology.clusters[cluster])
        return f"No principal can be given it on {cluster} ({who}); offsets: translated does not need it"
    give = f"Give it where that matters more than what the right opens (every topic can be read with it): {command}"
    if not topology.access_declared or principal.startswith("User:<"):
        return give
    rule = f'{{principal: "{principal}", clusters: [{cluster}], resource: cluster, operations: [cluster_action]}}'
    return f"{give}; or, under access: - {rule}"


def marker_note(topology: Topology, cluster: str, right: MarkerRight) -> str:
    """A plan's note about one target."""
    flows = flows_into(topology, cluster)
    verb = "keep" if len(keeping_flows(topology, cluster)) > 1 else "keeps"
    way = marker_todo(topology, cluster, right.principal, right.command)
    if isinstance(right.held, Unknown):
        text = f"{right.held.error}. If it may not, {MARKER_LIMIT}. {right.held.todo}. {way}"
    elif right.held:
        text = f"{right.principal} {MARKERS_ALLOWED}, so a restart of brokers of {cluster} cannot make a copy diverge"
    else:
        text = f"{right.principal} {MARKERS_NOT_ALLOWED}: {MARKER_LIMIT}. {way}"
    return f"{flows} {verb} offsets on {cluster}: {text}"
