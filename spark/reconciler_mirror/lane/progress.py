"""Progress of a lane, one row for each partition; unchanged rows stay the same objects.

Rows are made anew for the partitions in ``Lane.changed`` only, so that thousands that have nothing to do cost nothing;
who compares rows by identity sees which are new.
"""

from __future__ import annotations

from reconciler.kafka.client.cluster import Key
from reconciler_mirror.conditions.lane import WITHOUT_LAG, quota_throttled
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.state import Lane
from reconciler_mirror.model.lane import Condition, LaneProgress, PartitionProgress

_REPORT_EVERY = 0.25


def report_pause(changed: int, partitions: int) -> float:
    """Seconds between two reports of a lane: longer with more rows, so that its driver keeps up with all lanes."""
    return _REPORT_EVERY + changed / 1000 + partitions / 20_000


class ProgressReports:
    """Of one session."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._rows: dict[Key, PartitionProgress] = {}
        self._conditions: dict[Key, Condition] = {}

    def progress(self) -> LaneProgress:
        """A snapshot of the whole lane."""
        self._look()
        lane = self._lane
        conditions = tuple(self._conditions.values())
        if lane.trouble is not None:
            conditions += (lane.trouble,)
        for cluster in (lane.source, lane.target):
            seconds = cluster.throttled()
            if seconds > 0:
                conditions += (quota_throttled(cluster.name, seconds),)
        return LaneProgress(
            lane.spec.flow,
            lane.spec.lane,
            tuple(self._rows.values()),
            conditions,
            lane.counts.transactions,
            "batch",
            latency=lane.counts.latency.snapshot(),
            held_back=sum(1 for p in lane.partitions.values() if p.outbox.queue) if lane.throttle.delay() > 0 else 0,
            holes=lane.delivery.holes(),
        )

    def _look(self) -> None:
        lane = self._lane
        for partition in lane.changed.take():
            key = partition.source
            now = lane.partitions.get(key)
            if now is None:
                self._rows.pop(key, None)
                self._conditions.pop(key, None)
            elif now is partition:
                self._rows[key] = row(lane, partition)
                if partition.hold.condition is not None:
                    self._conditions[key] = partition.hold.condition
                else:
                    self._conditions.pop(key, None)


def row(lane: Lane, partition: Partition) -> PartitionProgress:
    p = partition
    of_this_log = p.hold.condition is None or p.hold.condition.code not in WITHOUT_LAG
    return PartitionProgress(
        *p.source,
        p.log.committed if p.log.committed >= 0 and of_this_log else None,
        p.log.end if p.log.end >= 0 else None,
        p.figures.records,
        p.figures.bytes,
        p.hold.left_waiting if p.hold.pausing else p.figures.waiting_since or p.hold.left_waiting,
        "record level" if p.reworked else "",
        p.reworked,
        p.figures.passed.filtered,
        p.figures.passed.returning,
        lane.is_paused(p),
        p.figures.lost.counted,
        p.log.silent_since_ms,
    )
