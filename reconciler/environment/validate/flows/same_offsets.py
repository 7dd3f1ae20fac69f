"""Validates flows that keep offsets (``offsets: same``): what would move an offset is refused, with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from reconciler.environment.yaml.locations import Places, Step
from reconciler.errors import Problem
from reconciler.model.environment.topology import Delivery, Flow, Isolation, Topology
from reconciler.resources.flows.names.automata import Language, UndecidedError, both, shortest
from reconciler.resources.flows.names.carried import FlowNaming

TRUNCATED = "source_truncated"


def check_same_offsets(topology: Topology, travels: Mapping[str, FlowNaming], places: Places) -> Iterator[Problem]:
    """Two flows into one topic are refused for every flow (``remote-name-collision``), or need provenance, which is
    record work."""
    for flow in topology.flows.values():
        yield from _own(flow, places) if flow.keeps_offsets else _unused(flow, places)
    keeping = [travel for travel in travels.values() if travel.flow.keeps_offsets]
    for travel, other in product(keeping, travels.values()):
        if travel.flow.target == other.flow.source and other.flow.target == travel.flow.source:
            yield from _two_way(travel, other, places)
    for travel, other in product(travels.values(), travels.values()):
        mixed = travel.flow.keeps_offsets != other.flow.keeps_offsets
        if mixed and travel.flow.target == other.flow.source and other.flow.target != travel.flow.source:
            yield from _chain(travel, other, places)


def _own(flow: Flow, places: Places) -> Iterator[Problem]:
    name = f"flow {flow.name}"
    for work in flow.record_work:
        problem, todo = f"{name}: offsets: same beside {work}", f"Remove {work}, or write offsets: translated"
        yield Problem("same-offsets-record-work", places.of(flow, work), problem, _WORK[work], todo)
    if flow.delivery is Delivery.AT_LEAST_ONCE:
        problem = f"{name}: offsets: same with delivery: at_least_once"
        why = "A record that came twice would move the offset of every later one"
        todo = "Remove delivery: such a flow is exactly once without transactions on its data"
        yield Problem("same-offsets-delivery", places.of(flow, "delivery"), problem, why, todo)
    if flow.isolation is Isolation.READ_UNCOMMITTED:
        problem = f"{name}: offsets: same with isolation: read_uncommitted"
        why = (
            "What a transaction has not decided yet would be copied as decided, and readers of both sides would differ"
        )
        todo = "Remove isolation, or write offsets: translated"
        yield Problem("same-offsets-isolation", places.of(flow, "isolation"), problem, why, todo)
    if TRUNCATED in flow.on_condition:
        problem = f"{name}: offsets: same with on_condition {TRUNCATED}: continue"
        why = "What the source lost lies on the target, which cannot be cut back: every later offset would differ"
        todo = "Name the conditions to continue after, without this one; the way on is a new target topic"
        yield Problem("same-offsets-condition", places.of(flow, "on_condition"), problem, why, todo)


_WORK = {
    "where": "A record that is left out would leave a hole where the source has a record",
    "headers": "Batches would be made anew, where they are sent on as they are",
    "provenance": "It is for several flows into one topic, which has one record at each offset",
}


def _unused(flow: Flow, places: Places) -> Iterator[Problem]:
    """Keys that nothing reads in other flows; they would look as if they held."""
    asked: dict[tuple[Step, ...], bool] = {
        ("filler_limit",): flow.filler_limit is not None,
        ("groups", "both_ways"): flow.groups.both_ways,
    }
    for path in (path for path, written in asked.items() if written):
        name = ".".join(map(str, path))
        problem = f"flow {flow.name}: {name} without offsets: same"
        why = "Copies of this flow have the target's own offsets, and nothing reads it"
        yield Problem("same-offsets-unused", places.of(flow, *path), problem, why, "Remove it, or write offsets: same")


def _two_way(travel: FlowNaming, back: FlowNaming, places: Places) -> Iterator[Problem]:
    flow = travel.flow
    if flow.naming.policy != "identity" or back.flow.naming.policy != "identity":
        return
    topic = _common(travel.arriving, back.leaving)
    if topic is None:
        return
    yield Problem(
        "same-offsets-two-way",
        places.of(flow, "offsets"),
        f"flow {flow.name}: offsets: same, while {back.flow.name} carries {_of(topic)} back under the same name",
        f"Both sides would get records of their own at one offset, and {flow.target} may be written by the mirror "
        "alone",
        "Remove one of the two flows; after a failover reconciler failback fills the old source",
    )


def _chain(travel: FlowNaming, following: FlowNaming, places: Places) -> Iterator[Problem]:
    """Of a custom policy nobody knows which names meet: the plan looks at the topics that are there."""
    first, second = travel.flow, following.flow
    topic = None if travel.custom or following.custom else _common(travel.arriving, following.leaving)
    if topic is None:
        return
    keeping, other = (first, second) if first.keeps_offsets else (second, first)
    yield Problem(
        "same-offsets-chain",
        places.of(second, "offsets"),
        f"flow {keeping.name} keeps offsets and {other.name} does not, and {_of(topic)} goes over both of them",
        f"One position would mean the same record on {keeping.source} and {keeping.target}, and another one on "
        f"{second.target if second is other else first.source}",
        f"Write offsets: same on both or on none, or exclude the topic from {second.name}",
    )


def _common(arriving: Language, leaving: Language) -> str | None:
    """A name in both; empty where they are too large to find one."""
    try:
        return shortest(both(arriving, leaving))
    except UndecidedError:
        return ""


def _of(topic: str) -> str:
    return topic or "a topic (their expressions are too large to name one)"
