"""Changes of replicas in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.model.changes import FinishReassignment, ReassignReplicas, ReplicaChange
from reconciler.model.replicas import Placement
from reconciler.render.plan.kinds.words import FieldValues, Words
from reconciler.text import counted, size_words, time_words

SHOWN = 3


def _headline(change: ReplicaChange, why: str) -> str:
    if isinstance(change, FinishReassignment):
        return f"finish and clear its throttles{why}"
    return f"replication factor {change.before or 'mixed'} -> {change.after}{why}"


def _signature(change: ReplicaChange) -> object:
    if isinstance(change, FinishReassignment):
        return change
    return "replicas", change.before, change.after, change.pace, change.in_flight > 0, change.reason.code


def _lines(changes: Sequence[ReplicaChange]) -> Iterator[str]:
    if isinstance(changes[0], FinishReassignment):
        yield from _finished(changes[0])
    else:
        yield from _reassigned([change for change in changes if isinstance(change, ReassignReplicas)])


def _reassigned(changes: Sequence[ReassignReplicas]) -> Iterator[str]:
    """Lines for one topic, or for several that change alike."""
    moved = [placement for change in changes for placement in change.placements]
    if len(changes) == 1:
        yield from map(_placement, moved[:SHOWN])
        if len(moved) > SHOWN:
            yield f"and {counted(len(moved) - SHOWN, 'partition')} more"
        later = changes[0].partitions - len(moved)
        if changes[0].before is not None and later > 0:
            yield f"partitions that come in this plan follow: {changes[0].partitions} in all"
    else:
        yield counted(len(moved), "partition")
    if begun := sum(change.in_flight for change in changes):
        yield f"goes on with {counted(begun, 'partition')} that an earlier run began"
    if size := sum(change.bytes_to_copy for change in changes):
        pace, together = changes[0].pace, time_words(sum(change.seconds for change in changes))
        at_once = f"{size_words(pace.bytes_in_flight)} or {counted(pace.partitions_in_flight, 'partition')}"
        throttled = f"throttled to {size_words(pace.throttle)}/s a broker"
        yield f"{size_words(size)} to copy, {throttled}, about {together}; at most {at_once} at a time"


def _finished(change: FinishReassignment) -> Iterator[str]:
    if change.in_flight:
        yield f"waits for {counted(change.in_flight, 'partition')} on the way"
    if change.brokers:
        yield f"clears our throttle rates on broker {', '.join(map(str, change.brokers))}"
    if change.topics:
        more = len(change.topics) - SHOWN
        others = f" and {counted(more, 'topic')} more" if more > 0 else ""
        yield f"clears our throttled replicas of {', '.join(change.topics[:SHOWN])}{others}"


def _placement(placement: Placement) -> str:
    before, after = (", ".join(map(str, brokers)) for brokers in (placement.before, placement.after))
    return f"partition {placement.partition}: {before} -> {after}"


def _subject(change: ReplicaChange) -> str:
    return change.ref.name if isinstance(change, ReassignReplicas) else "reassignment"


def _fields(change: ReplicaChange) -> Iterator[FieldValues]:
    if isinstance(change, FinishReassignment):
        yield FieldValues("reassignment", "on the way", "finished")
    else:
        yield FieldValues("replication factor", str(change.before or "mixed"), str(change.after))
        if change.bytes_to_copy:
            yield FieldValues(
                "to copy", None, f"{size_words(change.bytes_to_copy)}, about {time_words(change.seconds)}"
            )


REPLICAS: Words[ReplicaChange] = Words("topic", _subject, _headline, _signature, _lines, _fields)
