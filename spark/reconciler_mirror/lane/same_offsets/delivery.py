"""Delivery at the source's own offsets: the tasks of a session, the state that sessions share, and the start of each
partition, whose copying continues at the target's log end.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from reconciler.kafka.client.cluster import EARLIEST, ClusterClient, Key
from reconciler.kafka.client.errors import UNSTABLE, BrokerError, PartitionsDeniedError, WireError
from reconciler.kafka.client.transactions import Aborted, Identity
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from reconciler.replication.names import data_producer, marker_producer
from reconciler.replication.offsets.close_gaps import Log, NotPairedError
from reconciler.replication.offsets.parting import Parting, count_from, parting_of
from reconciler.replication.offsets.same import above_limit
from reconciler_mirror.conditions import lane as conditions
from reconciler_mirror.conditions import positions as faults
from reconciler_mirror.conditions.lane import SupersededError
from reconciler_mirror.lane import positions
from reconciler_mirror.lane.partition import Partition, Phase, Tuning
from reconciler_mirror.lane.positions import SameOffsetsPosition
from reconciler_mirror.lane.produce.outbox import Piece
from reconciler_mirror.lane.same_offsets.copy import Copies
from reconciler_mirror.lane.same_offsets.place import DATA_EPOCH, CopyPlace, Look, SamePartition, look
from reconciler_mirror.lane.start import WAIT, Starter
from reconciler_mirror.lane.state import Lane
from reconciler_mirror.lane.transactional import Sessions, due
from reconciler_mirror.model.counters import Loss
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
            try:
                await lane.identity.commit_positions(written)
            except PartitionsDeniedError as error:
                denied = lane.deny(moved, error)
                lane.dirty -= denied
                moved = {partition: offset for partition, offset in moved.items() if partition not in denied}
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


_MOVED = 6


class SameStarter(Starter):
    """A ``Starter`` that takes the flow's owner and earlier facts from the group, but the progress from the target's
    leaders."""

    _fetched_uncommitted = True

    def __init__(self, lane: Lane, same: Copies) -> None:
        super().__init__(lane)
        self._same = same

    async def _with_positions(self, partitions: Sequence[Partition]) -> list[Partition]:
        await self._known([p for p in partitions if p.log.covered < 0])
        idle = [
            p
            for p in partitions
            if p.hold.phase is Phase.STARTING and self._same.state_of(p) is not None and p.outbox.idle
        ]
        looks = await look(self._same.leaders, [p.target for p in idle])
        # Only copies without a position need the offset map, to tell an earlier copy of this flow from foreign records.
        least, _ = await self._least([p for p in idle if self._state(p).place is None and p.log.committed < 0])
        unplaced: set[Partition] = set()
        for partition in idle:
            seen = looks[partition.target]
            try:
                if isinstance(seen, Look):
                    await self._compared(partition, seen, least.get(partition.source))
                    if partition.hold.phase is Phase.STARTING:
                        self._placed(partition, seen)
                elif seen.retriable:
                    raise seen
                else:
                    self._lane.stop(partition, conditions.refused(partition.spec, seen.code, "", partition.log.reached))
            except BrokerError as error:
                if not error.retriable:
                    raise
                unplaced.add(partition)  # without a leader, or another producer appends to it just now
                self._waits(partition, str(error), side="target")
        # A process may have died between filling the offsets before the start and deleting these fillers.
        placed = [p for p in idle if p.hold.phase is Phase.STARTING and p not in unplaced]
        due = {p.target: start for p in placed if 0 < (start := self._state(p).start) <= p.log.reached}
        begins = await self._lane.target.list_offsets(dict.fromkeys(due, EARLIEST), committed=False) if due else {}
        for key, begin in begins.items():
            if isinstance(begin, int) and begin < due[key]:
                await self._same.delete_fillers(key, due[key])
        known = (p for p in partitions if p.hold.phase is Phase.STARTING and p.log.covered >= 0)
        return [p for p in known if p not in unplaced]

    def _state(self, partition: Partition) -> SamePartition:
        same = self._same.state_of(partition)
        assert same is not None, "its start is known"
        return same

    async def _known(self, unknown: Sequence[Partition]) -> None:
        """Reads the unknown positions; a partition without one begins at the flow's ``start``."""
        lane = self._lane
        committed = await lane.target.positions(lane.spec.group, [p.target for p in unknown]) if unknown else {}
        fresh: list[Partition] = []
        for partition in unknown:
            known, is_of_copy = self._committed_of(partition, committed)
            if not is_of_copy:
                fresh.append(partition)
            elif not positions.is_of_topic(known, partition.spec.topic_id):
                lane.stop(partition, faults.topic_recreated(partition.spec, known.topic_id, same=True))
            elif known.proved:
                self._goes_on(partition, known)
            else:
                fresh.append(partition)
        await self._begin_fresh(fresh)

    def _goes_on(self, partition: Partition, known: positions.LanePosition) -> None:
        """Continues from a position. One without a producer comes from the takeover, which chose the flow's start."""
        lane, of = self._lane, known.same
        was = SameOffsetsPosition(self._same.producer, start=known.offset) if of is None else of
        last = None if of is None else was.last
        same = SamePartition(was.producer, was.start, begun=of is not None, diverged=was.diverged, trusted_last=last)
        self._same.joins(partition, same)
        partition.log.resume(known.offset if of is not None else -1, known.leader_epoch, known.last)
        lane.changed.add(partition)
        if was.diverged is not None:
            why = "a lane has found that before"
            lane.stop(partition, faults.offsets_diverged(partition.spec, was.diverged, why))
        elif of is None or self._is_due(known):
            self._write_soon(partition)

    async def _never_copied(self, fresh: Sequence[Partition]) -> Sequence[Partition]:
        """Stops none: the target's log end shows the copied part."""
        return fresh

    def _begin_first(self, partition: Partition, offset: int) -> None:
        self._same.joins(partition, SamePartition(self._same.producer, offset))
        partition.log.place(-1)
        self._write_soon(partition)

    async def _compared(self, partition: Partition, seen: Look, known: int | None) -> None:
        """Stops the partition if another client has written to the target, unless the target's log still equals the
        source's beginning. ``known``: the end of a copy without a position, from the offset map. A continued copy has
        no start, so that no offsets before it are filled or deleted."""
        same = self._state(partition)
        # A shorter log has lost copies: the cluster elected a replica without them. Another client may have appended
        # before the lane noticed, so both logs are compared before anything is copied again.
        shorter = seen.end < (partition.log.reached if same.place is None else same.place.reached)
        if same.displaced or shorter:
            # Fillers that lost their marker with the leader keep a transaction open, but they lie in their own hole.
            if await self._beginning(partition, seen, stable=same.displaced) is not None:
                same.displaced = False
                same.place = CopyPlace(seen.end, seen).settled()
            else:
                self._same.diverged(partition, partition.log.reached, "it has other records before it than the source")
        elif same.place is None and not same.begun and partition.log.reached < 0 < seen.end:
            if known is not None and known <= seen.end:  # later records are compared once the source has sent them
                partition.log.reach(known)
                same.start = 0
            elif (parting := await self._beginning(partition, seen)) is None:
                why = f"it has {seen.end} offsets that this flow did not write and the source does not have alike"
                self._same.diverged(partition, 0, why)
            elif seen.end >= parting.source.begin:
                same.start = 0

    async def _beginning(self, partition: Partition, seen: Look, *, stable: bool = True) -> Parting | None:
        """Not None if the target's log equals the beginning of the source's, as after a failover and failback: then the
        copy may continue. Records before the source's first one cannot be compared, and would be deleted along with the
        fillers after them, so there must be none. ``stable``: nor an open transaction."""
        lane = self._lane
        source = Log(lane.source, partition.source, committed=lane.committed_only)
        target = Log(lane.target, partition.target, committed=True)
        try:
            parting = await parting_of(source, target)
        except NotPairedError as error:  # retention deleted records meanwhile: another comparison follows
            raise BrokerError(_MOVED, str(error)) from error
        if parting.target.end > seen.end:
            raise BrokerError(_MOVED, f"another producer appends to {partition.target[0]}-{partition.target[1]}")
        if not parting.proved or parting.target_goes_on or (stable and parting.target.end != seen.end):
            return None
        begin, end = parting.target.begin, parting.target.end
        unlike = end < parting.source.begin and await count_from(target, begin, end, enough=1) > 0
        return None if unlike else parting

    def _placed(self, partition: Partition, seen: Look) -> None:
        """Places the partition at the target's log end, and queues a hole up to the flow's start where necessary."""
        lane, same = self._lane, self._state(partition)
        # At first ``reached`` is the committed position, -1 for a fresh partition. Its sequence is proof only if the
        # position names the last one.
        place, reached, last = same.place, partition.log.reached, same.trusted_last
        if place is None and reached < 0:
            place = CopyPlace(seen.end, seen)
        elif place is None:
            place = CopyPlace(reached, seen, None if last is None or last < 0 else last, trusted=last is not None)
        place = place.looked(seen)
        if place.reached < reached:
            partition.log.forget_epochs()  # the last copied batch lies after this place, so it proves nothing here
        if place.reached < same.start:
            reached = min(seen.end, same.start)
            place = CopyPlace(reached, seen, trusted=reached == same.start)
        if above_limit(same.start - place.reached, lane.spec.filler_limit):
            lane.stop(partition, faults.filler_limit(partition.spec, same.start, same.start - place.reached))
            return
        place = place.settled() if place.level else place
        same.place, same.at = place, time.monotonic()
        partition.log.place(place.reached, max(place.reached, same.start))
        partition.outbox.begin_sequence(place.look.next_sequence, known=place.look.last_sequence is not None)
        partition.copied.start(place.reached, lane.ids(partition))
        lane.changed.add(partition)
        if not same.begun:
            self._write_soon(partition)
        if place.reached < same.start:
            lane.queue_up(partition, [Piece.of_hole(place.reached, same.start, -1)])
            lane.routes.offer(partition)

    def _settle(self, partition: Partition, bounds: tuple[int, int, int], truncated: int | None) -> None:
        """A copy that is longer than its source has records that this flow did not write, so it stops, and is checked
        again: after a failover a flow the other way brings them to the source, and then both logs are compared."""
        (low, end, top), same = bounds, self._same.state_of(partition)
        copied = -1 if same is None or same.place is None else same.place.look.end
        in_order = truncated is None and low <= partition.log.covered <= top and not partition.hold.pausing
        if not in_order or copied <= end or self._lane.source.leader(*partition.source) is None:
            super()._settle(partition, bounds, truncated)
            return
        partition.log.ends_at(end, time.monotonic())
        why = f"it continues to {copied}, and the source ends at {end}"
        self._lane.stop(partition, faults.offsets_diverged(partition.spec, min(partition.log.reached, end), why))

    def _lost(self, partition: Partition, low: int, high: int, top: int) -> None:
        """The source deleted records before they were copied (``low``: its log start). Under ``continue_on`` the lost
        offsets become one hole, after which the copy has the source's offsets again. Waits until nothing is in flight,
        since the hole has to begin at the copy's log end."""
        lane, same, position = self._lane, self._same.state_of(partition), partition.log.covered
        condition = faults.position_lost(partition.spec, position, low, high, top)
        if position >= low or same is None or same.place is None or not lane.goes_on(condition.code):
            lane.stop(partition, condition)
            return
        if not partition.outbox.idle:
            asyncio.get_running_loop().call_later(WAIT, self._add_again, [partition])
            return
        end = same.place.look.end
        same.place = CopyPlace(min(low, end), same.place.look) if position < end else same.place
        partition.log.move(same.place.reached, low)
        partition.log.forget_epochs()
        partition.figures.lost.add(low, Loss(condition.code, low - position, text=condition.text))
        if end < low:
            same.place = CopyPlace(end, same.place.look).settled()
            partition.log.reach(end)
            lane.queue_up(partition, [Piece.of_hole(end, low, -1)])
        self.add(partition)
        if partition.outbox.queue:
            lane.routes.offer(partition)
