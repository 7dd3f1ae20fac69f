"""Commits the transaction of a lane: when, and how; retried until all data is acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from reconciler.kafka.client.cluster import Key
from reconciler.kafka.protocol.commit_offsets import OffsetToCommit
from reconciler_mirror.conditions.lane import SupersededError
from reconciler_mirror.lane import positions
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.state import Lane, RestartError

# A commit that takes long (many partitions, a slow target) pays off over more data: seconds, and a factor.
LONGEST_PAUSE, LONGEST_AGE, AMORTISED = 0.2, 5.0, 8.0
LONG_COMMIT, LARGER = 0.1, 4  # a round trip or more: then also over more bytes
LOOK_EVERY = 0.2  # seconds: until then two applications may both write, which repeats records
PAUSE_SHARE = 0.5  # of what the last commit took: slow brokers are left alone in between


async def due(lane: Lane, delay: Callable[[float], float | None]) -> None:
    """Returns when a commit is due: ``delay`` gives the seconds until then at a time, None while nothing is to commit.
    It is asked again whenever the lane has made progress."""
    while True:
        lane.progress.clear()
        seconds = delay(time.monotonic())
        if seconds is not None and seconds <= 0:
            return
        try:
            async with asyncio.timeout(seconds):
                await lane.progress.wait()
        except TimeoutError:
            return


class Committer:
    """Commits when caught up, else by age or size, so that a trickle is quick and a backlog has big transactions."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._last = 0.0
        self._took = 0.0
        self._looked = 0.0

    async def run(self) -> None:
        """Until cancelled, or until the last commit after ``lane.stopping`` is done."""
        lane = self._lane
        while True:
            await due(lane, self._delay)
            if lane.dirty or lane.touched:
                async with lane.boundary:
                    await self.commit()
                self._resume()
            if lane.stopping and not lane.dirty and not lane.touched:
                return

    def _delay(self, now: float) -> float | None:
        """Seconds until a commit is due; None while there is nothing to commit."""
        lane, tuning = self._lane, self._lane.tuning
        if lane.stopping:
            return 0.0
        if not lane.dirty and not lane.touched:
            return None
        if lane.urgent:
            return 0.0
        if not lane.touched:
            return lane.dirty_since + tuning.idle_commit - now
        if lane.open_bytes >= tuning.transaction_bytes * (LARGER if self._took > LONG_COMMIT else 1):
            return 0.0
        if all(partition.caught_up for partition in lane.touched):
            return self._last + max(tuning.commit_interval, min(self._took * PAUSE_SHARE, LONGEST_PAUSE)) - now
        return lane.opened_at + max(tuning.transaction_age, min(AMORTISED * self._took, LONGEST_AGE)) - now

    async def commit(self) -> None:
        """Raises what makes the session begin again: until EndTxn is answered nothing counts as copied."""
        lane = self._lane
        began = time.monotonic()
        lane.closing = True
        lane.urgent = False
        moved = {p: p.planned() for p in lane.dirty | lane.touched}
        if lane.identity.transactional:
            await self._in_transaction(moved)
        else:
            await lane.drained.wait()
            moved = {p: p.log.reached for p in moved}
            await self._look_for_successor(moved)
            await lane.identity.commit_positions(self._positions(moved.items()))
            self._finish(moved, restarted=False)
        lane.counts.transactions += 1
        self._last = time.monotonic()
        self._took = self._last - began
        if lane.identity.disturbed:
            raise RestartError("the coordinator went away while a transaction was ended")
        if lane.identity.version_2 and not lane.stopping:
            await lane.identity.complete()
        lane.closing = lane.stopping

    async def _look_for_successor(self, moved: Iterable[Partition]) -> None:
        """Nothing fences an idempotent producer: a later application is known by the claim it wrote into positions."""
        lane, now = self._lane, time.monotonic()
        if now - self._looked < LOOK_EVERY:
            return
        self._looked = now
        committed_positions = await lane.target.positions(lane.spec.group, [partition.target for partition in moved])
        if (later := positions.superseding(committed_positions, lane.spec.claim)) is not None:
            raise SupersededError(lane.spec.flow, later)

    def _resume(self) -> None:
        """What waited for the end of the transaction goes into the next one."""
        lane = self._lane
        blocked, lane.blocked = lane.blocked, set()
        for partition in blocked:
            lane.routes.offer(partition)

    async def _in_transaction(self, moved: dict[Partition, int]) -> None:
        """The positions travel while the last batches are still unacknowledged: if one fails, all are void."""
        lane = self._lane
        sending = asyncio.ensure_future(self._send_positions(moved))
        try:
            await asyncio.gather(lane.drained.wait(), sending)
        finally:
            sending.cancel()
        corrected = {p: p.log.reached for p, planned in moved.items() if p.log.reached != planned}
        await lane.identity.commit_positions(self._positions(corrected.items()))
        restarted = await lane.identity.end(committed=True)
        self._finish({**moved, **corrected}, restarted=restarted)

    async def _send_positions(self, moved: Mapping[Partition, int]) -> None:
        """The group joins the transaction like a partition, in its turn."""
        await self._lane.joined.wait()
        await self._lane.identity.commit_positions(self._positions(moved.items()))

    def _positions(self, moved: Iterable[tuple[Partition, int]]) -> dict[Key, OffsetToCommit]:
        claim, hour = self._lane.spec.claim, positions.hour_now()
        written = (
            (p, positions.LanePosition(offset, p.position_id, p.epoch_at(offset), claim, hour, p.marked))
            for p, offset in moved
        )
        return {p.target: positions.to_commit(p.target, at) for p, at in written}

    def _finish(self, moved: dict[Partition, int], *, restarted: bool) -> None:
        lane = self._lane
        lane.changed.update(moved)
        for partition, offset in moved.items():
            partition.log.commit(offset)
            lane.know(partition, offset)
            partition.copied.committed(offset)
            if partition.figures.open_records:
                lane.counts.latency.committed(partition.figures.waiting_since)
            partition.figures.committed(offset, partition.outbox.oldest_ms)
            if restarted:
                partition.outbox.begin_sequence(0)
            if partition.log.reached == offset:
                lane.dirty.discard(partition)
        lane.touched.clear()
        lane.added.clear()
        lane.open_bytes, lane.opened_at = 0, 0.0
        lane.dirty_since = time.monotonic()
