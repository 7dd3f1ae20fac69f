"""Progress of a lane, one row for each partition; unchanged rows stay the same objects.

Only partitions in ``Lane.changed`` get a new row, so that thousands of idle ones cost nothing; readers find new rows by
identity.

Lag is the distance from the position to the source's end. Each Fetch answer brings the end of a fetched partition;
ListOffsets brings it for stopped and paused partitions and those that wait for memory. After ``SILENT_S`` without an
answer the end is no longer reported as such: producers may have appended records.
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence

from reconciler.kafka.client.cluster import LATEST, NO_LEADER, Key
from reconciler.kafka.client.errors import BrokerError, ConnectionLostError
from reconciler_mirror.conditions.lane import WITHOUT_LAG, quota_throttled
from reconciler_mirror.lane.partition import Partition, Phase
from reconciler_mirror.lane.state import Lane
from reconciler_mirror.model.lane import Condition, LaneProgress, PartitionProgress

_REPORT_EVERY = 0.25


def report_pause(changed: int, partitions: int) -> float:
    """Seconds between two reports of a lane: longer with more rows, so that its driver keeps up with all lanes."""
    return _REPORT_EVERY + changed / 1000 + partitions / 20_000


class ProgressReports:
    """Makes the reports of one session."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._rows: dict[Key, PartitionProgress] = {}
        self._conditions: dict[Key, Condition] = {}

    def progress(self) -> LaneProgress:
        """A snapshot of the whole lane."""
        lane = self._lane
        # A lane may have thousands of idle partitions: they keep the rows of earlier snapshots.
        for partition in lane.changed.take():
            key = partition.source
            now = lane.partitions.get(key)
            if now is None:
                self._rows.pop(key, None)
                self._conditions.pop(key, None)
            elif now is partition:  # not a former object of a partition that left and came back
                self._rows[key] = row(lane, partition)
                if partition.hold.condition is not None:
                    self._conditions[key] = partition.hold.condition
                else:
                    self._conditions.pop(key, None)
        conditions = tuple(self._conditions.values())
        conditions += tuple(each for each in (lane.trouble, lane.unmapped) if each is not None)
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
            latency=lane.counts.latency.snapshot(),
            held_back=sum(1 for p in lane.partitions.values() if p.outbox.queue) if lane.throttle.delay() > 0 else 0,
            holes=lane.delivery.holes(),
        )


def row(lane: Lane, partition: Partition) -> PartitionProgress:
    """The report's row of a partition. It has no position while a condition says that the position is of another log:
    its lag would be meaningless. The oldest unread record is the oldest fetched one, or the one that a stop or pause
    left at the source."""
    p = partition
    of_this_log = p.hold.condition is None or p.hold.condition.code not in WITHOUT_LAG
    return PartitionProgress(
        *p.source,
        p.log.committed if p.log.committed >= 0 and of_this_log else None,
        p.log.end if p.log.end >= 0 else None,
        p.figures.records,
        p.figures.bytes,
        p.hold.left_waiting if p.hold.pausing else p.figures.waiting_since or p.hold.left_waiting,
        "record level" if p.reworked else "batch",
        p.reworked,
        p.figures.filtered,
        p.figures.returning,
        lane.is_paused(p),
        p.figures.losses,
        p.log.silent_since_ms,
    )


POLL_S = 3.0
SILENT_S = 10.0
"""Several fetches: each waits half a second for data, and a distant broker may take a few seconds to answer."""


class SourceEnds:
    """Keeps the source's ends of one session up to date."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def mark_silent(self, now: float) -> None:
        """Marks partitions if the source has not confirmed their end for ``SILENT_S``. ``now``: monotonic."""
        for partition in self._lane.partitions.values():
            silent_s = now - partition.end_known_at
            if (silent_s > SILENT_S) is (partition.log.silent_since_ms is None) and partition.log.end >= 0:
                since_ms = int((time.time() - silent_s) * 1000)
                partition.log.silent_since_ms = since_ms if silent_s > SILENT_S else None
                self._lane.changed.add(partition)

    async def run(self) -> None:
        """Until cancelled, asks the leaders for ends that no fetch session confirms (stopped, paused or silent
        partitions), so that their lag is known as well. The pause grows with the number of partitions, because asking
        for 10,000 takes a while."""
        lane = self._lane
        while True:
            await asyncio.sleep(POLL_S + len(lane.partitions) / 2_000)
            due = time.monotonic() - POLL_S
            wanted = [p.source for p in lane.partitions.values() if p.log.end >= 0 and p.end_known_at < due]
            by_leader = lane.source.by_leader(wanted)
            lost = by_leader.pop(NO_LEADER, [])
            moved = await asyncio.gather(*map(self._ask, by_leader.values()))
            if topics := {topic for keys in (lost, *moved) for topic, _ in keys}:
                with contextlib.suppress(ConnectionLostError, BrokerError):
                    await lane.source.refresh(topics)

    async def _ask(self, keys: Sequence[Key]) -> list[Key]:
        """Asks one broker. Returns the partitions that it refuses; without an answer, nothing changes."""
        lane = self._lane
        try:
            async with asyncio.timeout(SILENT_S / 2):
                ends = await lane.source.list_offsets(dict.fromkeys(keys, LATEST), committed=lane.committed_only)
        except (ConnectionLostError, BrokerError, TimeoutError):
            return []
        for key, end in ends.items():
            partition = lane.partitions.get(key)
            if partition is None or isinstance(end, BrokerError):
                continue
            moved = end > partition.log.end or (end < partition.log.end and partition.hold.phase is not Phase.COPYING)
            partition.log.ends_at(end if moved else partition.log.end, time.monotonic())
            if moved:
                lane.changed.add(partition)
        return [key for key, end in ends.items() if isinstance(end, BrokerError)]
