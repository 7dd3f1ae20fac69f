"""Which offsets are compared on each side, so that the answer holds while the mirror runs.

In this order: the committed positions; the end of the target; wait until everything below that end is decided; the end
of the source. Then every committed source record below its position must be at the target, and whatever the target
holds below its end must come from the source below its end.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from mirror import clients, positions
from mirror.discovery import Discovered, LiveCluster, discover
from mirror.faults import error_of, is_moving
from mirror.lanes import Condition, Endpoint, PartitionSpec
from mirror.positions import Position
from mirror.provenance_ground import ids_of
from mirror.record_work import NO_GROUND
from mirror.settings import FlowSettings
from mirror.verify.judging import Offsets, Place, Seen, TopicTraits, judge
from mirror.verify.ranges import PartitionRange, Unread, Window
from replication.names import position_group

COMMITTED, WRITTEN = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
_AT_ONCE = 500
_ANSWER_S = 20.0
_MOVING_S = 10.0  # how long a leader may be unknown
_DECIDED_S = 75.0  # a transaction of the mirror lives 60 s at most


@dataclass(frozen=True, slots=True)
class Bounds:
    ranges: tuple[PartitionRange, ...]
    unread: tuple[Unread, ...]


def bounds_of(flow: FlowSettings, window: Window, traits: Mapping[str, TopicTraits], first_index: int = 0) -> Bounds:
    """Never raises for a cluster that does not answer: the flow is then unread, with the reason."""
    try:
        found = discover(flow, flow.selector(), LiveCluster(flow.source), LiveCluster(flow.target), Discovered())
        unread = [_unread_of(flow, condition) for condition in found.conditions]
        if found.complete and not found.topics:
            unread.append(_nothing(flow))
        seen = observe(flow, found.specs, window) if found.specs else None
    except (KafkaException, LookupError) as error:
        return Bounds((), (_failed(flow, error),))
    judged = [judge(flow, spec, seen, window, traits) for spec in found.specs if seen is not None]
    ranges = [one for one in judged if isinstance(one, PartitionRange)]
    unread += [one for one in judged if isinstance(one, Unread)]
    return Bounds(tuple(replace(one, index=first_index + number) for number, one in enumerate(ranges)), tuple(unread))


def observe(flow: FlowSettings, specs: Sequence[PartitionSpec], window: Window) -> Seen:
    """The order of the reads is what makes the answer hold. Raises KafkaException or LookupError."""
    sources = [(spec.topic, spec.partition) for spec in specs]
    targets = [(spec.target_topic, spec.partition) for spec in specs]
    ours, theirs = OffsetReader(flow.source), OffsetReader(flow.target)
    position: dict[Place, Position] = {}
    with closing(clients.position_consumer(flow.target, position_group(flow.name))) as group:
        for some in _portions(targets):
            position |= positions.read(group, some)
    target_end = theirs.read(targets, OffsetSpec.latest(), WRITTEN)
    undecided = theirs.undecided(target_end)
    isolation = COMMITTED if flow.isolation == "read_committed" else WRITTEN
    from_time = None if window.from_ms is None else OffsetSpec.for_timestamp(window.from_ms)
    to_time = None if window.to_ms is None else OffsetSpec.for_timestamp(window.to_ms)
    return Seen(
        position=position,
        target_end=target_end,
        undecided=undecided,
        source_end=ours.read(sources, OffsetSpec.latest(), isolation),
        source_low=ours.read(sources, OffsetSpec.earliest(), isolation),
        target_low=theirs.read(targets, OffsetSpec.earliest(), COMMITTED),
        from_source=ours.read(sources, from_time, isolation) if from_time else {},
        from_target=theirs.read(targets, from_time, COMMITTED) if from_time else {},
        to_source=ours.read(sources, to_time, isolation) if to_time else {},
        failed={**ours.failed, **theirs.failed},
        ground=ids_of(flow) if flow.work.provenance else NO_GROUND,
    )


class OffsetReader:
    """ListOffsets on one cluster. ``failed``: partitions that did not answer, and why; they are not in the answers."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._admin = clients.admin(endpoint)
        self.failed: dict[tuple[str, Place], str] = {}

    def read(self, places: Iterable[Place], spec: OffsetSpec, isolation: IsolationLevel) -> Offsets:
        """A leader that moves is asked again for a while."""
        found: dict[Place, int] = {}
        until = time.monotonic() + _MOVING_S
        refused = self._ask(list(places), spec, isolation, found)
        while (moving := [place for place, error in refused.items() if is_moving(error)]) and time.monotonic() < until:
            time.sleep(0.1)
            refused = {
                **{place: error for place, error in refused.items() if place not in moving},
                **self._ask(moving, spec, isolation, found),
            }
        for place, error in refused.items():
            name = f"{place[0]}-{place[1]} at {self._endpoint.cluster}"
            self.failed[self._endpoint.cluster, place] = f"the offsets of {name} cannot be read: {error.str()}"
        return found

    def _ask(
        self, places: Sequence[Place], spec: OffsetSpec, isolation: IsolationLevel, found: dict[Place, int]
    ) -> dict[Place, KafkaError]:
        """Fills ``found``. What was refused, and why."""
        refused: dict[Place, KafkaError] = {}
        for some in _portions(places):
            asked = {TopicPartition(*place): spec for place in some}
            answers = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=_ANSWER_S)
            for partition, answer in answers.items():
                place = (partition.topic, partition.partition)
                try:
                    found[place] = answer.result(_ANSWER_S).offset
                except KafkaException as error:
                    refused[place] = error_of(error)
        return refused

    def undecided(self, ends: Offsets, patience_s: float = _DECIDED_S) -> frozenset[Place]:
        """Partitions with a transaction that began below their end and is neither committed nor aborted in time."""
        give_up = time.monotonic() + patience_s
        waiting = dict(ends)
        while waiting:
            stable = self.read(waiting, OffsetSpec.latest(), COMMITTED)
            waiting = {place: end for place, end in waiting.items() if stable.get(place, end) < end}
            if time.monotonic() > give_up:
                break
            time.sleep(0.1 if waiting else 0)
        return frozenset(waiting)


def _portions(places: Sequence[Place]) -> Iterable[Sequence[Place]]:
    return (places[first : first + _AT_ONCE] for first in range(0, len(places), _AT_ONCE))


def _failed(flow: FlowSettings, error: Exception) -> Unread:
    why = error.args[0].str() if isinstance(error, KafkaException) else str(error)
    todo = "Check that both clusters answer and that the mirror's principal may read there, then verify again."
    return Unread(flow.name, "", "", -1, f"flow {flow.name}: {why}", todo)


def _nothing(flow: FlowSettings) -> Unread:
    why = f"flow {flow.name} matches no topic at {flow.source.cluster}, so there is nothing to compare"
    return Unread(flow.name, "", "", -1, why, "Check the flow's topics, or create one.")


def _unread_of(flow: FlowSettings, condition: Condition) -> Unread:
    topic = condition.topic or ""
    remote = flow.selector().remote_name(topic) if topic else ""
    return Unread(flow.name, topic, remote, -1, condition.text, condition.todo)
