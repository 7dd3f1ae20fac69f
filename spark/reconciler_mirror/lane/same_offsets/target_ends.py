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
from reconciler_mirror.lane.same_offsets.copy import Copies
from reconciler_mirror.lane.state import Lane

LOOK_S = 3.0
MOST_AT_ONCE = 1_000
"""Partitions a look; of more, those that were asked for longest ago."""
ANSWER_WITHIN = 10.0


class TargetEnds:
    """Of one session. One whose end is another one is looked at as at a start: perhaps it is another holder's work."""

    def __init__(self, lane: Lane, same: Copies) -> None:
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
        quiet = [p for p in self._lane.partitions.values() if self._is_quiet(p) and self._asked_at(p) < due]
        if len(quiet) > MOST_AT_ONCE:
            quiet = sorted(quiet, key=self._asked_at)[:MOST_AT_ONCE]
        places = {p: same.place for p in quiet if (same := self._same.state_of(p)) is not None}
        ends = await self._same.leaders.ends([p.target for p in quiet]) if quiet else {}
        for partition, place in places.items():
            end, same = ends[partition.target], self._same.state_of(partition)
            if isinstance(end, BrokerError) or same is None or same.place is not place or not self._is_quiet(partition):
                continue
            same.end_at = time.monotonic()
            if place is not None and end != place.look.end:
                self._lane.routes.look_again(partition, "its copy ends elsewhere than the lane left it")

    def _is_quiet(self, partition: Partition) -> bool:
        same = self._same.state_of(partition)
        known = same is not None and same.place is not None and same.place.level
        return known and partition.hold.phase is Phase.COPYING and partition.outbox.idle

    def _asked_at(self, partition: Partition) -> float:
        same = self._same.state_of(partition)
        return 0.0 if same is None else max(same.at, same.end_at)
