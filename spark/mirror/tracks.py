"""What a running lane remembers of its partitions: positions, what is open, what is stopped and why."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from confluent_kafka import Message, TopicPartition

from mirror.decoded_work import DecodedWorker, Left
from mirror.lanes import Condition, LaneProgress, LaneSpec, PartitionProgress, PartitionSpec
from mirror.latency import LatencyCounter
from mirror.losses import Losses, added
from mirror.throttle import Throttle


@dataclass(slots=True, eq=False)
class Track:
    """One source partition on its way. ``committed`` is None until the target holds a position; ``limit`` is the offset
    of a record that the target refused. ``left``: how many records were not copied, open as ``records`` is.

    ``end`` is where the source said it ends; ``oldest_ms`` the timestamp of the oldest record read but not committed.
    """

    spec: PartitionSpec
    target: str
    number: int
    source: TopicPartition
    position: int
    committed: int | None
    leader_epoch: int = -1
    limit: int = sys.maxsize
    dirty: bool = False
    last: Message | None = None
    oldest_ms: int | None = None
    end: int | None = None
    records: int = 0
    bytes: int = 0
    paused: bool = False
    lost: Losses = ()
    left: Counter[Left] = field(default_factory=Counter)
    marked: tuple[int, int] | None = None
    worker: DecodedWorker | None = None

    @classmethod
    def of(cls, spec: PartitionSpec, position: int, committed: int | None, leader_epoch: int = -1) -> Track:
        here = TopicPartition(spec.topic, spec.partition)
        return cls(spec, spec.target_topic, spec.partition, here, position, committed, leader_epoch)


@dataclass(frozen=True, slots=True)
class Stopped:
    """``position`` and ``end`` as far as they were known when it was stopped."""

    spec: PartitionSpec
    condition: Condition
    position: int | None = None
    end: int | None = None


@dataclass(slots=True)
class Tally:
    """What outlives one attempt of the lane: partitions that are stopped, or will be at a limit, and why; counts.
    ``refused``: records to leave out, where the flow goes on."""

    lane: LaneSpec
    stopped: dict[tuple[str, int], Stopped] = field(default_factory=dict)
    limits: dict[tuple[str, int], tuple[int, Condition]] = field(default_factory=dict)
    counts: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    left: dict[tuple[str, int], Counter[Left]] = field(default_factory=dict)
    transactions: int = 0
    latency: LatencyCounter = field(default_factory=LatencyCounter)
    losses: dict[tuple[str, int], Losses] = field(default_factory=dict)
    refused: dict[tuple[str, int], dict[int, Condition]] = field(default_factory=dict)
    throttle: Throttle | None = None
    progress: LaneProgress = field(init=False)

    def __post_init__(self) -> None:
        self.progress = LaneProgress(self.lane.flow, self.lane.lane, ())

    def limit(self, key: tuple[str, int], position: int) -> int:
        """The first offset at or after ``position`` that the target is known to refuse."""
        offsets = [offset for offset in self.refused.get(key, ()) if offset >= position]
        return min(offsets, default=self.limits.get(key, (sys.maxsize, None))[0])

    def committed(self, track: Track) -> None:
        """What the track had open stands at the target now."""
        key = (track.spec.topic, track.spec.partition)
        records, size = self.counts.get(key, (0, 0))
        self.counts[key] = (records + track.records, size + track.bytes)
        self.left[key] = self.left.get(key, Counter()) + track.left
        self.latency.committed(track.oldest_ms)
        if key in self.refused:
            self.refused[key] = {at: why for at, why in self.refused[key].items() if at >= track.position}
        if track.lost:
            self.losses[key] = added(self.losses.get(key, ()), track.lost)
            track.lost = ()
        track.committed, track.records, track.bytes = track.position, 0, 0
        track.dirty, track.last, track.oldest_ms = False, None, None
        track.left.clear()

    def snapshot(self, tracks: Iterable[tuple[Track, int | None]], more: tuple[Condition, ...] = ()) -> LaneProgress:
        """``tracks`` come with the end of their source."""
        running = [
            replace(
                self._progress(track.spec, track.committed, end, track.oldest_ms),
                paused=track.paused and not track.dirty,
            )
            for track, end in tracks
        ]
        held = self.throttle is not None and self.throttle.delay() > 0
        behind = sum(not p.paused and (p.end or 0) > (p.position or 0) for p in running)
        stopped = (self._progress(stop.spec, stop.position, stop.end, None) for stop in self.stopped.values())
        self.progress = LaneProgress(
            self.lane.flow,
            self.lane.lane,
            (*running, *stopped),
            (*(stop.condition for stop in self.stopped.values()), *more),
            self.transactions,
            path_reason=self.lane.work.reason if self.lane.work else "",
            latency=self.latency.snapshot(),
            throttled_ms=int(self.throttle.waited_s * 1000) if self.throttle else 0,
            held_back=behind if held else 0,
        )
        return self.progress

    def _progress(
        self, spec: PartitionSpec, position: int | None, end: int | None, oldest_ms: int | None
    ) -> PartitionProgress:
        key = (spec.topic, spec.partition)
        left = self.left.get(key, Counter())
        found = PartitionProgress(*key, position, end, *self.counts.get(key, (0, 0)), oldest_ms)
        filtered, returning = left[Left.FILTERED], left[Left.RETURNING]
        return replace(found, filtered=filtered, returning=returning, losses=self.losses.get(key, ()))
