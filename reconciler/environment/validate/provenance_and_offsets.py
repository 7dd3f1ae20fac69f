"""Validates flows with ``provenance`` (identity naming, no record on two paths) and flows that keep offsets (``offsets:
same``; settings that would shift offsets are refused)."""

from collections.abc import Iterator, Mapping
from itertools import product

from reconciler.environment.yaml.locations import Places, Step
from reconciler.errors import Problem
from reconciler.model.environment.flow_settings import Delivery, Isolation
from reconciler.model.environment.topology import Flow, Topology
from reconciler.replication.policy import policy_word
from reconciler.resources.flows.names.automata import Language, UndecidedError, both, shortest
from reconciler.resources.flows.names.carried import FlowNaming
from reconciler.resources.flows.provenance_proof import Unproved, find_doubled

TRUNCATED = "source_truncated"
_RECORD_WORK = {
    "where": "A record that is left out would leave a hole where the source has a record",
    "headers": "Batches would be encoded again, where they are sent on as they are",
    "provenance": "It is for several flows into one topic, which has one record at each offset",
}


def check_provenance(topology: Topology, travels: Mapping[str, FlowNaming], places: Places) -> Iterator[Problem]:
    """Flows with provenance whose header would say nothing, whose groups could skip records of a third cluster, or over
    which a record would still arrive twice."""
    carrying = [travel for travel in travels.values() if travel.flow.provenance is not None]
    for flow in topology.flows.values():
        if flow.provenance is not None and flow.naming.policy != "identity":
            problem = f"flow {flow.name}: provenance with naming policy {policy_word(flow.naming.policy)}"
            why = "It is for names that stay; default names already say where records have been"
            todo = "Write naming: {policy: identity}, or remove provenance"
            yield Problem("provenance-naming", places.of(flow, "provenance"), problem, why, todo)

    # Offsets are translated over records of two clusters; a third cluster's records would be skipped silently.
    for travel, other in product((travel for travel in carrying if travel.flow.groups.sync_offsets), carrying):
        flow, third = travel.flow, other.flow
        pair = (flow.source, flow.target)
        if third.target not in pair or third.source in pair:
            continue
        if not (travel.custom or other.custom) and common(travel.arriving, other.arriving) is None:
            continue
        yield Problem(
            "offsets-of-three-clusters",
            places.of(flow, "groups", "sync_offsets"),
            f"flow {flow.name}: sync_offsets, but {third.source} writes to the same topics by {third.name}",
            f"A group's offset says what it has read of {flow.source} and {flow.target}; records of {third.source} "
            "could be skipped",
            "Write sync_offsets: false and move groups with reconciler failover ENV FLOW, which warns, or make their "
            "topics disjoint",
        )

    for doubled in find_doubled(travels.values()):
        if isinstance(doubled, Unproved):
            problem = f"no proof that no record arrives twice over the flows {', '.join(doubled.flows)}"
            why = (
                "The paths or expressions are too many to follow all of them, or a custom naming policy is among the "
                "flows"
            )
            todo = "Use provenance: local on all of them, or simpler expressions"
            where = places.of(topology.flows[min(doubled.flows)], "provenance")
            yield Problem("records-doubled-unproved", where, problem, why, todo)
            continue
        name, way = (", then ".join(way) for way in doubled.ways)
        said, doubt = f"records of {doubled.origin}/{doubled.topic} would", ""
        if doubled.doubtful:  # the name is of a wider rule, on which the expressions were not tried
            said, doubt = f"records of {doubled.origin} may", f" (no proof covers {', '.join(doubled.doubtful)})"
        yield Problem(
            "records-doubled",
            places.of(topology.flows[doubled.ways[1][-1]], "provenance"),
            f"{said} arrive on {doubled.target} twice: by {name}, and by {way}{doubt}",
            "Provenance keeps a record from coming back, not from coming on two ways",
            "Use provenance: local, so that each record travels straight from where it was written, or remove a flow",
        )


def check_same_offsets(topology: Topology, travels: Mapping[str, FlowNaming], places: Places) -> Iterator[Problem]:
    """Two flows into one topic are refused for every flow (``remote-name-collision``), or need provenance, which is
    record work."""
    for flow in topology.flows.values():
        if flow.keeps_offsets:
            yield from _own(flow, places)
            continue
        # Keys that other flows ignore would seem to take effect.
        paths: list[tuple[Step, ...]] = [("filler_limit",)] if flow.filler_limit is not None else []
        paths += [("groups", "both_ways")] if flow.groups.both_ways else []
        for path in paths:
            problem = f"flow {flow.name}: {'.'.join(map(str, path))} without offsets: same"
            why, todo = "Copies of this flow have the target's own offsets, and nothing reads it", "Remove it, or write"
            yield Problem("same-offsets-unused", places.of(flow, *path), problem, why, f"{todo} offsets: same")
    for travel, other in product(travels.values(), travels.values()):
        if travel.flow.target == other.flow.source:
            yield from _joined(travel, other, places)


def _own(flow: Flow, places: Places) -> Iterator[Problem]:
    """Settings that a flow with same offsets cannot have: leaving records out, adding or repeating some would shift all
    later offsets."""
    name = f"flow {flow.name}"
    for work in flow.record_work:
        problem, todo = f"{name}: offsets: same beside {work}", f"Remove {work}, or write offsets: translated"
        yield Problem("same-offsets-record-work", places.of(flow, work), problem, _RECORD_WORK[work], todo)
    if flow.delivery is Delivery.AT_LEAST_ONCE:
        problem = f"{name}: offsets: same with delivery: at_least_once"
        why = "A record that came twice would move the offset of every later one"
        todo = "Remove delivery: such a flow is exactly once without transactions on its data"
        yield Problem("same-offsets-delivery", places.of(flow, "delivery"), problem, why, todo)
    # Each of these alone would let the first copies look right, and shift offsets only once a record is left out,
    # doubled or undecided.
    if flow.isolation is Isolation.READ_UNCOMMITTED:
        problem = f"{name}: offsets: same with isolation: read_uncommitted"
        why = (
            "What a transaction has not decided yet would be copied as decided, and readers of both sides would differ"
        )
        todo = "Remove isolation, or write offsets: translated"
        yield Problem("same-offsets-isolation", places.of(flow, "isolation"), problem, why, todo)
    if TRUNCATED in flow.on_condition:
        problem = f"{name}: offsets: same with on_condition {TRUNCATED}: continue"
        why = "What the source lost is on the target, which cannot be truncated: every later offset would differ"
        todo = "Name the conditions to continue after, without this one; the way on is a new target topic"
        yield Problem("same-offsets-condition", places.of(flow, "on_condition"), problem, why, todo)


def _joined(travel: FlowNaming, other: FlowNaming, places: Places) -> Iterator[Problem]:
    """``other`` continues from the target of ``travel``: back to its source, or to a third cluster."""
    first, second = travel.flow, other.flow
    if second.target == first.source:
        stays = first.naming.policy == second.naming.policy == "identity"
        topic = common(travel.arriving, other.leaving) if first.keeps_offsets and stays else None
        if topic is not None:
            yield Problem(
                "same-offsets-two-way",
                places.of(first, "offsets"),
                f"flow {first.name}: offsets: same, while {second.name} carries {_of(topic)} back under the same name",
                f"Both sides would get records of their own at one offset, and {first.target} may be written by the "
                "mirror alone",
                "Remove one of the two flows; after a failover reconciler failback ENV FLOW fills the old source",
            )
        return
    # Under a custom policy it is unknown which names meet: there the plan looks at the live topics.
    mixed = first.keeps_offsets != second.keeps_offsets and not travel.custom and not other.custom
    topic = common(travel.arriving, other.leaving) if mixed else None
    if topic is not None:
        keeping, counting = (first, second) if first.keeps_offsets else (second, first)
        yield Problem(
            "same-offsets-chain",
            places.of(second, "offsets"),
            f"flow {keeping.name} keeps offsets and {counting.name} does not, and {_of(topic)} goes over both of them",
            f"One position would mean the same record on {keeping.source} and {keeping.target}, and another one on "
            f"{second.target if second is counting else first.source}",
            f"Write offsets: same on both or on none, or exclude the topic from {second.name}",
        )


def common(arriving: Language, leaving: Language) -> str | None:
    """A name in both; empty if they are too large to find one, None if none exists."""
    try:
        return shortest(both(arriving, leaving))
    except UndecidedError:
        return ""


def _of(topic: str) -> str:
    return topic or "a topic (their expressions are too large to name one)"
