"""Delivery at the source's own offsets: the tasks of a session, and the state that sessions share."""

import asyncio
import time
from collections.abc import Coroutine, Iterable
from typing import Any

from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.client.errors import UNSTABLE, BrokerError, WireError
from reconciler.kafka.client.transactions import Aborted, Identity
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from reconciler.replication.names import data_producer, marker_producer
from reconciler_mirror.conditions.lane import SupersededError
from reconciler_mirror.lane import positions
from reconciler_mirror.lane.partition import Partition, Phase, Tuning
from reconciler_mirror.lane.same_offsets.copy import Copies
from reconciler_mirror.lane.same_offsets.place import DATA_EPOCH
from reconciler_mirror.lane.same_offsets.start import SameStarter
from reconciler_mirror.lane.state import Lane
from reconciler_mirror.lane.transactional import Sessions, due
from reconciler_mirror.model.lane import LaneSpec

COMMIT_EVERY_S = 1.0
"""Commits are rare, because the position is only a hint: the copy's log end shows its progress."""
POLL_S = 3.0
MOST_AT_ONCE = 1_000
"""Partitions per check: the ones asked for longest ago."""
ANSWER_WITHIN = 10.0


class SameOffsets(Copies):
    """A ``LaneDelivery``. The position is the target's log end, where only the very next record fits."""

    def __init__(self, lane: Lane, identity: Identity, producer: int, marker_producer: int) -> None:
        super().__init__(lane, identity, producer, marker_producer)
        self._starter = SameStarter(lane, self)
        self._writer = PositionWriter(lane, self)
        self._ends = TargetEnds(lane, self)
        self.begin = self._starter.add
        self.commit = self._writer.run

    def work(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (self._starter.run(), self.fill_holes())

    def reads(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (self._ends.run(),)


class PositionWriter:
    """Commits moved positions every second, for people, tools and the next holder's checks. The true position is the
    target's log end, so nothing waits for a commit, and a commit waits for nothing."""

    def __init__(self, lane: Lane, same: Copies) -> None:
        self._lane = lane
        self._same = same
        self._last = 0.0

    async def run(self) -> None:
        """Runs until cancelled, or until the last commit after ``lane.stopping``."""
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
        return self._last + COMMIT_EVERY_S - now if lane.dirty or lane.touched else None

    async def _commit(self) -> None:
        """Commits the positions of moved partitions, after a check that this application still owns the flow."""
        lane = self._lane
        lane.urgent = False
        moved = {p: p.log.reached for p in lane.dirty | lane.touched if p.log.reached >= 0}
        lane.dirty -= {p for p in lane.dirty if p.log.reached < 0}
        self._last = time.monotonic()
        if moved:
            claim, hour = lane.spec.claim, positions.hour_now()
            written: dict[Key, CommittedOffset] = {}
            for p, offset in moved.items():
                figures = (offset, p.position_id, p.epoch_at(offset), claim, hour)
                same, last = self._same.position(p), p.last_at(offset)
                at = positions.LanePosition(*figures, same=same, remote_id=p.remote_id, last=last)
                written[p.target] = positions.to_commit(p.target, at)
            # No transaction fences an older holder here, so each commit first reads the group: a later claim means that
            # another application owns the flow.
            try:
                committed = await lane.target.positions(lane.spec.group, written)
            except BrokerError as error:
                if error.code != UNSTABLE:
                    raise
                return  # another application is taking over the flow right now
            if (later := positions.superseding(committed, lane.spec.claim)) is not None:
                raise SupersededError(lane.spec.flow, later)
            await lane.identity.commit_positions(written)
        # Copying continued meanwhile: a partition that has moved since stays dirty for the next commit.
        for partition, offset in moved.items():
            if partition.log.reached >= offset:  # otherwise the target's log has lost records meanwhile
                partition.copied.committed(offset)
            self._same.committed(partition)
            if partition.log.reached == offset:
                lane.dirty.discard(partition)
        lane.touched = {partition for partition in lane.touched if partition.outbox.unacked}
        lane.changed.update(moved)
        lane.open_bytes, lane.opened_at, lane.dirty_since = 0, 0.0, time.monotonic()
        lane.counts.transactions += bool(moved)


class TargetEnds:
    """Asks the target for the ends of idle copies. A busy copy notices another writer by the refusal of its next batch;
    an idle one would notice it only when the source's next record has no place any more. A copy that ends elsewhere
    goes back to the start, since another holder of the lane may have continued it."""

    def __init__(self, lane: Lane, same: Copies) -> None:
        self._lane = lane
        self._same = same

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(POLL_S)
            due = time.monotonic() - POLL_S
            quiet = [p for p in self._lane.partitions.values() if self._is_quiet(p) and self._asked_at(p) < due]
            if len(quiet) > MOST_AT_ONCE:
                quiet = sorted(quiet, key=self._asked_at)[:MOST_AT_ONCE]
            places = {p: same.place for p in quiet if (same := self._same.state_of(p)) is not None}
            try:
                async with asyncio.timeout(ANSWER_WITHIN):
                    ends = await self._same.leaders.ends([p.target for p in quiet]) if quiet else {}
            except (WireError, TimeoutError):
                continue  # the sender reports the failure
            for partition, place in places.items():
                end, same = ends[partition.target], self._same.state_of(partition)
                moved = same is None or same.place is not place or not self._is_quiet(partition)
                if isinstance(end, BrokerError) or same is None or moved:
                    continue
                same.end_at = time.monotonic()
                if place is not None and end != place.look.end:
                    self._lane.routes.recheck(partition, "its copy ends elsewhere than the lane left it")

    def _is_quiet(self, partition: Partition) -> bool:
        same = self._same.state_of(partition)
        known = same is not None and same.place is not None and same.place.level
        return known and partition.hold.phase is Phase.COPYING and partition.outbox.idle

    def _asked_at(self, partition: Partition) -> float:
        same = self._same.state_of(partition)
        return 0.0 if same is None else max(same.at, same.end_at)


class SameOffsetsSessions(Sessions):
    """Sessions with the producer ids of the flow's data and markers, which all sessions and holders share. The fenced,
    transactional producer writes no data, only fillers, which it aborts."""

    def __init__(self, tuning: Tuning) -> None:
        super().__init__(tuning)
        self._endings, self._classic = Aborted(), True
        self._producer = self._marker_producer = -1

    async def started(self, spec: LaneSpec, target: ClusterClient) -> None:
        if self._producer < 0:
            self._producer = await producer_id_of(target, data_producer(spec.state))
            self._marker_producer = await producer_id_of(target, marker_producer(spec.state))

    def lane(self, spec: LaneSpec, clusters: tuple[ClusterClient, ClusterClient], identity: Identity) -> Lane:
        data = Identity(clusters[1], None, spec.group)
        data.producer_id, data.epoch = self._producer, DATA_EPOCH
        lane = Lane(spec, clusters, data, self._tuning)
        lane.delivery = SameOffsets(lane, identity, self._producer, self._marker_producer)
        return lane


async def producer_id_of(target: ClusterClient, transactional_id: str) -> int:
    """The producer id of all lanes and holders: the coordinator keeps it with a transactional.id without transactions.

    It deletes an unused one after a week (transactional.id.expiration.ms), so each position names the producer, too.
    """
    identity = Identity(target, transactional_id, "", purpose="data producer")
    state = await identity.state()
    if state is not None and state.producer_id >= 0:
        return state.producer_id
    await identity.start()
    return identity.producer_id
