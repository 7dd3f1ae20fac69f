"""What a lease still has to tell its driver of a lane: only what changed, so that quiet partitions never travel."""

from __future__ import annotations

from dataclasses import replace

from mirror.lanes import LaneProgress, PartitionProgress


class Untold:
    """What of a lane's snapshots the driver has not been told yet. ``everything``: tell all of the next one."""

    def __init__(self) -> None:
        self.everything = False
        self._snapshot: LaneProgress | None = None
        self._rows: dict[tuple[str, int], PartitionProgress] = {}
        self._lane: LaneProgress | None = None

    def of(self, now: LaneProgress) -> LaneProgress | None:
        if now is self._snapshot and not self.everything:
            return None
        self._snapshot = now
        if self.everything or len(self._rows) > len(now.partitions):
            self.everything, self._rows = False, {}
        rows = tuple(p for p in now.partitions if self._differs(p))
        lane = replace(now, partitions=())
        if not rows and lane == self._lane:
            return None
        self._lane = lane
        return replace(now, partitions=rows)

    def _differs(self, row: PartitionProgress) -> bool:
        key = (row.topic, row.partition)
        known = self._rows.get(key)
        if known is row:
            return False
        self._rows[key] = row
        return known != row
