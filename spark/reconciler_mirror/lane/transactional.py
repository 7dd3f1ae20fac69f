"""Delivery by the lane's own producer: in transactions that include the positions, or idempotently, with the positions
committed afterwards. Nothing counts as copied before the commit is answered.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from reconciler.kafka.client.cluster import LATEST, ClusterClient, Key
from reconciler.kafka.client.errors import DUPLICATE_SEQUENCE, BrokerError, PartitionsDeniedError, WireError
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
from reconciler_mirror.lane.target_tails import TargetTails, knows_strangers
from reconciler_mirror.model.counters import Loss
from reconciler_mirror.model.lane import LaneSpec, TargetLoss

# A slow commit (many partitions, a slow target) is spread over more data: seconds, and a factor of its duration.
LONGEST_PAUSE, LONGEST_AGE, AMORTISED = 0.2, 5.0, 8.0
LONG_COMMIT, LARGER = 0.1, 4  # seconds from which a commit is slow, and how many times more bytes it then covers
CHECK_EVERY = 0.2  # seconds between checks for a later claim: in between, two applications may duplicate records
PAUSE_SHARE = 0.5  # pause between commits, as a share of the last one's duration, to spare slow brokers


async def due(lane: Lane, delay: Callable[[float], float | None]) -> None:
    """Returns when a commit is due. ``delay``: from the present time, the seconds until then, or None while there is
    nothing to commit; called again after each ``Lane.progress``."""
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
        """Runs until cancelled, or until the last commit after ``lane.stopping``."""
        lane = self._lane
        while True:
            await due(lane, self._delay)
            if lane.dirty or lane.touched:
                async with lane.boundary:
                    await self.commit()
                # Partitions that waited for the end of the transaction go into the next one.
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
        # Caught up, the next records wait for this commit, so it comes soon. With a lag, fewer and larger transactions
        # copy faster, and the longer a commit takes, the more records one should hold.
        if all(partition.caught_up for partition in lane.touched):
            return self._last + max(tuning.commit_interval, min(self._took * PAUSE_SHARE, LONGEST_PAUSE)) - now
        return lane.opened_at + max(tuning.transaction_age, min(AMORTISED * self._took, LONGEST_AGE)) - now

    async def commit(self) -> None:
        """Commits the positions of all moved partitions; any exception makes the session begin again."""
        lane = self._lane
        began = time.monotonic()
        # Senders stop sealing: a batch that came between the positions and EndTxn would be committed without them.
        lane.closing = True
        lane.urgent = False
        moved = {p: p.planned() for p in lane.dirty | lane.touched}
        if lane.identity.transactional:
            await self._in_transaction(moved)
        else:
            await lane.drained.wait()
            moved = {p: p.log.reached for p in moved}
            # Nothing fences an idempotent producer; only the claim in its positions reveals a later application.
            if (now := time.monotonic()) - self._looked >= CHECK_EVERY:
                self._looked = now
                committed = await lane.target.positions(lane.spec.group, [partition.target for partition in moved])
                if (later := positions.superseding(committed, lane.spec.claim)) is not None:
                    raise SupersededError(lane.spec.flow, later)
            await self._commit_positions(moved)
            self._finish(moved, restarted=False)
        lane.counts.transactions += 1
        self._last = time.monotonic()
        self._took = self._last - began
        # A coordinator that went away during EndTxn may not have written every marker. A new session looks for missing
        # ones before it writes.
        if lane.identity.disturbed:
            raise RestartError("the coordinator went away while a transaction was ended")
        if lane.identity.version_2 and not lane.stopping:
            await lane.identity.complete()
        lane.closing = lane.stopping

    async def _in_transaction(self, moved: dict[Partition, int]) -> None:
        """Sends the positions while the last batches are still unacknowledged, which saves a round trip; if a batch
        fails, the whole transaction is aborted, with the positions."""
        lane = self._lane

        async def send_positions() -> None:
            # Adding the group changes the transaction like adding a partition: the coordinator takes one at a time.
            await lane.joined.wait()
            await self._commit_positions(moved)

        sending = asyncio.ensure_future(send_positions())
        try:
            await asyncio.gather(lane.drained.wait(), sending)
        finally:
            sending.cancel()
        # If the target refused a batch for good, its partition has not reached the planned position: a second
        # TxnOffsetCommit replaces that before EndTxn.
        corrected = {p: p.log.reached for p, planned in moved.items() if p.log.reached != planned}
        await lane.identity.commit_positions(self._positions(corrected.items()))
        restarted = await lane.identity.end(committed=True)
        self._finish({**moved, **corrected}, restarted=restarted)

    async def _commit_positions(self, moved: dict[Partition, int]) -> None:
        """Stops partitions whose position may not be written, and takes them out of ``moved``. Raises RestartError
        where the transaction has records of them: they must not be committed without their position."""
        lane = self._lane
        try:
            await lane.identity.commit_positions(self._positions(moved.items()))
        except PartitionsDeniedError as error:
            denied = lane.deny(moved, error)
            if lane.identity.transactional and denied & lane.touched:
                raise RestartError(str(error)) from error
            for partition in denied:
                del moved[partition]
            lane.dirty -= denied

    def _positions(self, moved: Iterable[tuple[Partition, int]]) -> dict[Key, CommittedOffset]:
        """For TxnOffsetCommit, by target partition: the offset, and metadata that proves the position (topic ids,
        epoch, claim, and the target's loss)."""
        claim, hour = self._lane.spec.claim, positions.hour_now()
        written: dict[Key, CommittedOffset] = {}
        for p, offset in moved:
            figures = (offset, p.position_id, p.epoch_at(offset), claim, hour, p.marked)
            at = LanePosition(*figures, lost=p.copied.lost, remote_id=p.remote_id, last=p.last_at(offset))
            written[p.target] = positions.to_commit(p.target, at)
        return written

    def _finish(self, moved: dict[Partition, int], *, restarted: bool) -> None:
        """Counts everything in ``moved`` as committed, and empties the transaction's sets. ``restarted``: EndTxn gave
        the producer a new epoch (KIP-890), so sequences begin at 0. A partition with later acknowledgements stays
        dirty."""
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


POSITIONS_EVERY, POSITIONS_WITHIN, MOST_POSITIONS = 10.0, 10.0, 1_000
"""Seconds between checks and for one check, and partitions per check; the next check takes the next partitions."""
OURS_BEGINS = '{"'


class Transactional:
    """A ``LaneDelivery``. Copies get the target's next offsets, and count as copied once their transaction, with the
    position in it, is committed. After any doubt a new session begins from the committed positions."""

    written = frozenset({0, DUPLICATE_SEQUENCE})
    """DUPLICATE_SEQUENCE_NUMBER: the broker has this batch from an earlier request with a lost answer."""
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
        """True, except before AddPartitionsToTxn is answered: transaction version 2 (KIP-890) needs no such request."""
        lane = self._lane
        if partition in lane.added or lane.identity.version_2 or not lane.identity.transactional:
            return True
        lane.routes.announce(partition)
        return False

    def sealed_as(self, _partition: Partition) -> tuple[int, int]:
        return self._lane.identity.producer_id, self._lane.identity.epoch

    def acknowledged(self, partition: Partition, piece: Piece, base_offset: int) -> None:
        """Raises RestartError if ``base_offset`` shows that the target's log went back."""
        outbox = partition.outbox
        # Copies are appended at ever higher offsets. A lower one means that the target's log lost records that were
        # acknowledged before, so the transaction must not commit a position behind them.
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
    """Checks idle partitions, long before the next record or start would: whether another client has committed their
    position, whether the target has lost acknowledged records, whether another client has written to a copy, and
    whether an open transaction blocks its readers.

    Positions of this lane and its successors have a proof, and brokers hide them while their transaction is open
    (KIP-447). So a visible position without a proof is another client's; the start reads it again and stops the
    partition.
    """

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._tails = TargetTails(lane)
        self._decided: set[Partition] = set()
        """Copies without an open transaction at the last check, to which only this lane has written since."""

    async def run(self) -> None:
        """Runs until cancelled."""
        lane, begin = self._lane, 0
        while True:
            await asyncio.sleep(POSITIONS_EVERY)
            # A busy partition finds out with its next commit or answer. Idle ones are asked for in slices, in turn, so
            # that a lane of thousands sends no huge request.
            quiet = [p for p in lane.partitions.values() if self._is_quiet(p)]
            begin = begin if begin < len(quiet) else 0
            places = {p: (p.log.committed, p.outbox.target_end) for p in quiet[begin : begin + MOST_POSITIONS]}
            begin += MOST_POSITIONS
            copies = {p.target: p.copied.target_end for p in places}
            try:
                async with asyncio.timeout(POSITIONS_WITHIN):
                    ends = await lane.target.list_offsets(dict.fromkeys(copies, LATEST), committed=False)
                    self._notice(places, ends)
                    stables = await self._stables(places, ends)
                    answers = await lane.target.positions(lane.spec.group, [p.target for p in places]) if places else {}
            except (WireError, TimeoutError):
                continue  # the commit loop reports the failure
            for partition, (committed, _) in places.items():
                end, at = ends[partition.target], answers[partition.target]
                # A shorter log has lost records. The start compares logs and map, and reports which.
                if not isinstance(end, BrokerError) and end < copies[partition.target]:
                    if self._is_quiet(partition):
                        lane.routes.begin_again(partition)
                    continue
                if at.offset < 0 or (at.offset == committed and at.metadata.startswith(OURS_BEGINS)):
                    continue  # the usual case, without the cost of checking the proof
                same = self._is_quiet(partition) and partition.log.committed == committed
                if same and not is_ours(partition.target, at.offset, at.metadata):
                    lane.routes.begin_again(partition)
            await self._look_at_gaps(stables)

    def _notice(self, places: Mapping[Partition, tuple[int, int]], ends: Mapping[Key, int | BrokerError]) -> None:
        """Notes each copy that continues behind this lane's last batch while the lane has nothing in flight for it."""
        for partition, (_, expected) in places.items():
            end, outbox = ends[partition.target], partition.outbox
            if isinstance(end, int) and end > expected and self._is_quiet(partition) and outbox.target_end == expected:
                outbox.expects(end)
                self._decided.discard(partition)
                if expected >= 0:
                    partition.copied.skipped(expected, end)

    async def _stables(
        self, places: Collection[Partition], ends: Mapping[Key, int | BrokerError]
    ) -> Mapping[Key, int | BrokerError]:
        """Last stable offsets of the copies that may have an open transaction or a gap, below which every transaction
        is decided. Notes the open ones."""
        lane = self._lane
        # A gap before a batch of this lane may be a transaction that another client still has open.
        undecided = [p for p in places if p not in self._decided or p.copied.gaps]
        asked = dict.fromkeys([p.target for p in (*undecided, *self._with_gaps())], LATEST)
        stables = await lane.target.list_offsets(asked, committed=True) if asked else {}
        for partition in undecided:
            end, stable = ends[partition.target], stables[partition.target]
            if isinstance(end, int) and isinstance(stable, int):
                condition_before = partition.hold.condition
                lane.unread.seen(partition, stable, end)
                if partition.hold.condition is not condition_before:
                    lane.changed.add(partition)
                if stable >= end:
                    self._decided.add(partition)
        return stables

    def _with_gaps(self) -> list[Partition]:
        return [p for p in self._lane.partitions.values() if p.copied.gaps]

    async def _look_at_gaps(self, stables: Mapping[Key, int | BrokerError]) -> None:
        """Looks for committed records of other clients at offsets that this lane did not write. A decided gap holds
        markers, aborted records or other clients' records; only reading it shows which."""
        lane = self._lane
        for partition in self._with_gaps():
            copied, stable = partition.copied, stables.get(partition.target)
            if isinstance(stable, int) and stable >= copied.gaps[-1][1]:
                # A failure leaves the gaps to the next check; one that opens meanwhile is left to it, too. It must not
                # hide what the other copies hold.
                gaps_read = tuple(copied.gaps)
                with suppress(WireError, TimeoutError):
                    async with asyncio.timeout(POSITIONS_WITHIN):
                        if (
                            knows_strangers(lane.spec)
                            and copied.strange < 0
                            and (first := await self._tails.strangers(partition, gaps_read)) is not None
                        ):
                            copied.others_wrote(first)
                    copied.explained(gaps_read)
        # The condition lasts as long as the partition copies: it comes back after another one that had replaced it.
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
    """Makes the sessions of one lane, and keeps the delivery's state that outlives them."""

    def __init__(self, tuning: Tuning) -> None:
        self._tuning = tuning
        self._endings, self._classic = Endings(), False

    def identity(self, spec: LaneSpec, target: ClusterClient) -> Identity:
        """The next session's producer. Its start fences every former holder of the lane."""
        transactional_id = spec.transactional_id if spec.delivery == "exactly_once" else None
        return Identity(target, transactional_id, spec.group, endings=self._endings, classic=self._classic)

    async def started(self, spec: LaneSpec, target: ClusterClient) -> None:
        """Called once the identity has started."""

    def lane(self, spec: LaneSpec, clusters: tuple[ClusterClient, ClusterClient], identity: Identity) -> Lane:
        lane = Lane(spec, clusters, identity, self._tuning)
        lane.delivery = Transactional(lane)
        return lane
