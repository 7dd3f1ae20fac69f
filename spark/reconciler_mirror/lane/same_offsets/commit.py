"""Writes down how far a lane has come that keeps offsets: for people and tools, and for the next holder to check.

The target's log end is the position, so nothing waits for a commit and a commit waits for nothing.
"""

from __future__ import annotations

import time

from reconciler.kafka.client.errors import UNSTABLE, BrokerError
from reconciler_mirror.conditions.lane import SupersededError
from reconciler_mirror.lane import positions
from reconciler_mirror.lane.commit import due
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.same_offsets.copy import Copies
from reconciler_mirror.lane.state import Lane

EVERY_S = 1.0


class PositionWriter:
    """Commits what has moved, every second."""

    def __init__(self, lane: Lane, same: Copies) -> None:
        self._lane = lane
        self._same = same
        self._last = 0.0

    async def run(self) -> None:
        """Until cancelled, or until the last commit after ``lane.stopping`` is done."""
        lane = self._lane
        while True:
            await due(lane, self._delay)
            if lane.stopping:
                await lane.drained.wait()
                await self._same.filled.wait()
            await self._commit()
            if lane.stopping and not lane.dirty and not lane.unacked:
                return

    def _delay(self, now: float) -> float | None:
        lane = self._lane
        if lane.stopping or lane.urgent:
            return 0.0
        return self._last + EVERY_S - now if lane.dirty or lane.touched else None

    async def _commit(self) -> None:
        lane = self._lane
        lane.urgent = False
        moved = {p: p.log.reached for p in lane.dirty | lane.touched if p.log.reached >= 0}
        lane.dirty -= {p for p in lane.dirty if p.log.reached < 0}
        self._last = time.monotonic()
        if moved:
            written = {p.target: positions.to_commit(p.target, self._position(p)) for p in moved}
            try:
                committed = await lane.target.positions(lane.spec.group, written)
            except BrokerError as error:
                if error.code != UNSTABLE:
                    raise
                return  # somebody is taking the flow over just now
            if (later := positions.superseding(committed, lane.spec.claim)) is not None:
                raise SupersededError(lane.spec.flow, later)
            await lane.identity.commit_positions(written)
        for partition, offset in moved.items():
            if partition.log.reached >= offset:  # else the target's log has lost some of it meanwhile
                partition.copied.committed(offset)
            self._same.committed(partition)
            if partition.log.reached == offset:
                lane.dirty.discard(partition)
        lane.touched = {partition for partition in lane.touched if partition.outbox.unacked}
        lane.changed.update(moved)
        lane.open_bytes, lane.opened_at, lane.dirty_since = 0, 0.0, time.monotonic()
        lane.counts.transactions += bool(moved)

    def _position(self, partition: Partition) -> positions.LanePosition:
        spec, offset = self._lane.spec, partition.log.reached
        return positions.LanePosition(
            offset,
            partition.position_id,
            partition.epoch_at(offset),
            spec.claim,
            positions.hour_now(),
            same=self._same.position(partition),
        )
