"""Asks the target where copies end to which nothing is being written: a record of somebody else shows there at once.

A copy that is written to tells with each answer that it is the next record. One that is idle would be found out only
with the source's next record, which has no place any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from reconciler.kafka.client.errors import BrokerError, WireError
from reconciler_mirror.lane.partition import Partition, Phase
from reconciler_mirror.lane.same_offsets.copy import SameOffsets
from reconciler_mirror.lane.state import Lane

LOOK_S = 3.0
MOST_AT_ONCE = 1_000
"""Partitions a look; of more, those that were asked for longest ago."""
ANSWER_WITHIN = 10.0


class TargetEnds:
    """Of one session. One whose end is another one is looked at as at a start: perhaps it is another holder's work."""

    def __init__(self, lane: Lane, same: SameOffsets) -> None:
        self._lane = lane
        self._same = same

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            with contextlib.suppress(WireError, TimeoutError):  # who writes there says what is wrong
                async with asyncio.timeout(ANSWER_WITHIN):
                    await self._look(time.monotonic() - LOOK_S)

    async def _look(self, due: float) -> None:
        quiet = [p for p in self._lane.partitions.values() if _is_quiet(p) and _asked_at(p) < due]
        if len(quiet) > MOST_AT_ONCE:
            quiet = sorted(quiet, key=_asked_at)[:MOST_AT_ONCE]
        places = {p: p.same.place for p in quiet if p.same is not None}
        ends = await self._same.leaders.ends([p.target for p in quiet]) if quiet else {}
        for partition, place in places.items():
            end, same = ends[partition.target], partition.same
            if isinstance(end, BrokerError) or same is None or same.place is not place or not _is_quiet(partition):
                continue
            same.end_at = time.monotonic()
            if place is not None and end != place.look.end:
                self._lane.routes.look_again(partition, "its copy ends elsewhere than the lane left it")


def _is_quiet(partition: Partition) -> bool:
    same = partition.same
    known = same is not None and same.place is not None and same.place.level
    return known and partition.phase is Phase.COPYING and partition.idle


def _asked_at(partition: Partition) -> float:
    return 0.0 if partition.same is None else max(partition.same.at, partition.same.end_at)
