"""Delivery by the lane's own producer: in transactions with the positions, or idempotently with positions after.

The commit loop says when a commit is due and how it goes; until it is answered, nothing counts as copied.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from reconciler.kafka.client.cluster import LATEST, ClusterClient, Key
from reconciler.kafka.client.errors import DUPLICATE_SEQUENCE, BrokerError, WireError
from reconciler.kafka.client.transactions import Endings, Identity
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from reconciler.replication.offsets.position_metadata import is_ours
from reconciler_mirror.conditions import positions as faults
from reconciler_mirror.conditions.lane import SupersededError
from reconciler_mirror.lane import positions
from reconciler_mirror.lane.fetch.pieces import delivered_pieces
from reconciler_mirror.lane.partition import Partition, Phase, Tuning
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.lane.produce.outbox import Piece
from reconciler_mirror.lane.start import Starter
from reconciler_mirror.lane.state import Lane, RestartError
from reconciler_mirror.lane.target_tails import TargetTails, copies_each_once
from reconciler_mirror.model.counters import Loss
from reconciler_mirror.model.lane import LaneSpec, TargetLoss

# A commit that takes long (many partitions, a slow target) pays off over more data: seconds, and a factor.
LONGEST_PAUSE, LONGEST_AGE, AMORTISED = 0.2, 5.0, 8.0
LONG_COMMIT, LARGER = 0.1, 4  # a round trip or more: then also over more bytes
CHECK_EVERY = 0.2  # seconds: until then two applications may both write, which repeats records
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
                # What waited for the end of the transaction goes into the next one.
                blocked, lane.blocked = lane.blocked, set()
                for partition in blocked:
                    lane.routes.offer(partition)
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
            # Nothing fences an idempotent producer: a later application shows by the claim it wrote into positions.
            if (now := time.monotonic()) - self._looked >= CHECK_EVERY:
                self._looked = now
                committed = await lane.target.positions(lane.spec.group, [partition.target for partition in moved])
                if (later := positions.superseding(committed, lane.spec.claim)) is not None:
                    raise SupersededError(lane.spec.flow, later)
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

    async def _in_transaction(self, moved: dict[Partition, int]) -> None:
        """The positions travel while the last batches are still unacknowledged: if one fails, all are void."""
        lane = self._lane

        async def send_positions() -> None:
            await lane.joined.wait()  # the group joins the transaction like a partition, in its turn
            await lane.identity.commit_positions(self._positions(moved.items()))

        sending = asyncio.ensure_future(send_positions())
        try:
            await asyncio.gather(lane.drained.wait(), sending)
        finally:
            sending.cancel()
        corrected = {p: p.log.reached for p, planned in moved.items() if p.log.reached != planned}
        await lane.identity.commit_positions(self._positions(corrected.items()))
        restarted = await lane.identity.end(committed=True)
        self._finish({**moved, **corrected}, restarted=restarted)

    def _positions(self, moved: Iterable[tuple[Partition, int]]) -> dict[Key, CommittedOffset]:
        """For TxnOffsetCommit: by target partition, the offset and metadata that prove the position (topic ids, epoch,
        claim, and what the target has lost)."""
        claim, hour = self._lane.spec.claim, positions.hour_now()
        written: dict[Key, CommittedOffset] = {}
        for p, offset in moved:
            figures = (offset, p.position_id, p.epoch_at(offset), claim, hour, p.marked)
            at = LanePosition(*figures, lost=p.copied.lost, remote_id=p.remote_id, last=p.last_at(offset))
            written[p.target] = positions.to_commit(p.target, at)
        return written

    def _finish(self, moved: dict[Partition, int], *, restarted: bool) -> None:
        """Everything in ``moved`` is committed: figures count it, and the transaction's sets are emptied.
        ``restarted``: the coordinator gave the producer a new epoch with EndTxn (KIP-890), so sequences begin at 0. A
        partition that was acknowledged further meanwhile stays dirty."""
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
            partition.outbox.transaction_ended()
            if partition.log.reached == offset:
                lane.dirty.discard(partition)
        lane.touched.clear()
        lane.added.clear()
        lane.open_bytes, lane.opened_at = 0, 0.0
        lane.dirty_since = time.monotonic()


POSITIONS_EVERY, MOST_POSITIONS = 10.0, 1_000
"""Seconds between looks, and partitions of one look; the next look takes the next ones."""
OURS_BEGINS = '{"'


class Transactional:
    """A ``LaneDelivery``. Copies get the target's next offsets and count as copied with the position that is committed
    with them; whatever the lane cannot be sure of begins the session again from the committed positions."""

    written = frozenset({0, DUPLICATE_SEQUENCE})
    """A repetition of a batch that the broker has: an answer was lost."""
    pieces = staticmethod(delivered_pieces)

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._starter = Starter(lane)
        self._committer = Committer(lane)
        self.begin = self._starter.add
        self.commit = self._committer.run

    def work(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (self._starter.run(),)

    def reads(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (GroupPositions(self._lane).run(),)

    def continues(self, _partition: Partition, _pieces: Sequence[Piece]) -> bool:
        return True

    def may_send(self, partition: Partition) -> bool:
        """In the classic protocol once its partition has been added to the open transaction."""
        lane = self._lane
        if partition in lane.added or lane.identity.version_2 or not lane.identity.transactional:
            return True
        lane.routes.announce(partition)
        return False

    def sealed_as(self, _partition: Partition) -> tuple[int, int]:
        return self._lane.identity.producer_id, self._lane.identity.epoch

    def acknowledged(self, partition: Partition, piece: Piece, base_offset: int) -> None:
        """Its records count as copied once the transaction is committed."""
        outbox = partition.outbox
        if base_offset >= 0:
            if base_offset < partition.copied.target_end:
                partition.copied.lost = TargetLoss(base_offset, partition.copied.target_end)
            if base_offset < outbox.target_end or partition.copied.lost is not None:
                raise RestartError(
                    f"{partition.target[0]}-{partition.target[1]} went back from {outbox.target_end} to {base_offset}: "
                    "it was deleted and recreated, or its leader lost records"
                )
        gap = outbox.appended(base_offset, piece.records, transactional=self._lane.identity.transactional)
        if gap is not None:
            partition.copied.skipped(*gap)
        if self._lane.identity.version_2:
            self._lane.added.add(partition)

    def refused(self, _partition: Partition, error: BrokerError) -> None:
        raise RestartError(str(error))

    def left_out(self, partition: Partition, piece: Piece, loss: Loss) -> None:
        self._lane.move_on(partition, piece.next_offset, loss)

    def holes(self) -> None:
        return None


class GroupPositions:
    """Sees that another client committed the position of an idle partition, which this lane does not write either, or
    that the target lost what it had acknowledged: at once, not only at the next start or the next record. And that
    another client has written to a copy, or keeps its readers waiting by an open transaction.

    What this lane or its successor commits has a proof, and brokers do not show it while it is undecided (KIP-447). So
    a decided one without a proof is a stranger's. The start, which reads it once more, stops the partition.
    """

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._tails = TargetTails(lane)
        self._decided: set[Partition] = set()
        """Copies without an open transaction when they were looked at; since then, only this lane has written there."""

    async def run(self) -> None:
        """Until cancelled."""
        lane, begin = self._lane, 0
        while True:
            await asyncio.sleep(POSITIONS_EVERY)
            # What is copied commits its position anyway. Of the partitions that rest a slice is asked each time, in
            # turn.
            quiet = [p for p in lane.partitions.values() if self._is_quiet(p)]
            begin = begin if begin < len(quiet) else 0
            places = {p: (p.log.committed, p.outbox.target_end) for p in quiet[begin : begin + MOST_POSITIONS]}
            begin += MOST_POSITIONS
            copies = {p.target: p.copied.target_end for p in places}
            try:
                async with asyncio.timeout(POSITIONS_EVERY):
                    ends = await lane.target.list_offsets(dict.fromkeys(copies, LATEST), committed=False)
                    self._notice(places, ends)
                    # A gap before a batch of this lane may be a transaction that another client still has open.
                    undecided = [p for p in places if p not in self._decided or p.copied.gaps]
                    await self._look_at_gaps(undecided, ends)
                    answers = await lane.target.positions(lane.spec.group, [p.target for p in places]) if places else {}
            except (WireError, TimeoutError):
                continue  # the commit loop says what is wrong
            for partition, (committed, _) in places.items():
                end, at = ends[partition.target], answers[partition.target]
                if not isinstance(end, BrokerError) and end < copies[partition.target]:
                    if self._is_quiet(partition):
                        lane.routes.begin_again(partition)
                    continue
                if at.offset < 0 or (at.offset == committed and at.metadata.startswith(OURS_BEGINS)):
                    continue  # most of them: checking a proof costs more
                same = self._is_quiet(partition) and partition.log.committed == committed
                if same and not is_ours(partition.target, at.offset, at.metadata):
                    lane.routes.begin_again(partition)

    def _notice(self, places: Mapping[Partition, tuple[int, int]], ends: Mapping[Key, int | BrokerError]) -> None:
        """That a log goes on behind what this lane has written, while nothing of it is under way."""
        for partition, (_, expected) in places.items():
            end, outbox = ends[partition.target], partition.outbox
            if isinstance(end, int) and end > expected and self._is_quiet(partition) and outbox.target_end == expected:
                outbox.expects(end)
                self._decided.discard(partition)
                if expected >= 0:
                    partition.copied.skipped(expected, end)

    async def _look_at_gaps(self, undecided: Sequence[Partition], ends: Mapping[Key, int | BrokerError]) -> None:
        """At what this lane did not write, once it is decided. Where committed records of others end is asked only for
        copies that may have some."""
        lane = self._lane
        # One request for both: the last stable offset says up to where every transaction is decided.
        gaps = [p for p in lane.partitions.values() if p.copied.gaps]
        asked = dict.fromkeys([p.target for p in (*undecided, *gaps)], LATEST)
        stables = await lane.target.list_offsets(asked, committed=True) if asked else {}
        for partition in undecided:
            end, stable = ends[partition.target], stables[partition.target]
            if isinstance(end, int) and isinstance(stable, int):
                standing = partition.hold.condition
                lane.unread.seen(partition, stable, end)
                if partition.hold.condition is not standing:
                    lane.changed.add(partition)
                if stable >= end:
                    self._decided.add(partition)
        # A gap below the last stable offset is decided. Markers and aborted records fill it as well as records of
        # others, so only reading it shows which. A flow that repeats or edits records cannot tell its own from others'.
        for partition in gaps:
            copied, stable = partition.copied, stables[partition.target]
            if isinstance(stable, int) and stable >= copied.gaps[-1][1]:
                taken = copied.taken_gaps()
                if (
                    copies_each_once(self._lane.spec)
                    and (first := await self._tails.strangers(partition, taken)) is not None
                ):
                    copied.others_wrote(first)
        # Reported for as long as it copies: a condition that another one replaced meanwhile comes back.
        for partition in lane.partitions.values():
            if partition.copied.strange >= 0 and partition.hold.phase is Phase.COPYING:
                condition = faults.copy_written_by_others(partition.spec, partition.copied.strange)
                if partition.hold.condition is None:
                    partition.hold.report(condition)
                    lane.changed.add(partition)

    def _is_quiet(self, partition: Partition) -> bool:
        copied = partition.hold.phase is Phase.COPYING and partition.log.committed >= 0
        return copied and self._lane.at_rest(partition)


class Sessions:
    """Begins the sessions of one lane; holds what the delivery needs beyond a session's end."""

    def __init__(self, tuning: Tuning) -> None:
        self._tuning = tuning
        self._endings, self._classic = Endings(), False

    def identity(self, spec: LaneSpec, target: ClusterClient) -> Identity:
        """Of the next session. Once it is started, no former holder of the lane can write."""
        transactional_id = spec.transactional_id if spec.delivery == "exactly_once" else None
        return Identity(target, transactional_id, spec.group, endings=self._endings, classic=self._classic)

    async def started(self, spec: LaneSpec, target: ClusterClient) -> None:
        """The identity has been started."""

    def lane(self, spec: LaneSpec, clusters: tuple[ClusterClient, ClusterClient], identity: Identity) -> Lane:
        lane = Lane(spec, clusters, identity, self._tuning)
        lane.delivery = Transactional(lane)
        return lane
