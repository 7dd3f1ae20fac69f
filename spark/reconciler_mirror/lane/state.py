"""The state of one running lane: partitions, bounds, errors. Mutable, owned by one event loop.

The parts that fetch, produce and commit share it and nothing else.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from reconciler.kafka.client.buffers import Buffer
from reconciler.kafka.client.cluster import NO_ID, ClusterClient, Key, printed_id
from reconciler.kafka.client.errors import RETRIABLE, BrokerError, PartitionsDeniedError, name_of
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.records.batches import Batch
from reconciler.replication.offsets.codec import Ids
from reconciler_mirror.conditions import lane as conditions
from reconciler_mirror.lane.copied_runs import Copied
from reconciler_mirror.lane.fetch.open_transactions import OpenTransactions
from reconciler_mirror.lane.partition import Partition, PartitionFigures, Tuning
from reconciler_mirror.lane.produce.outbox import Piece
from reconciler_mirror.lane.produce.throttle import NO_LIMIT, Throttle
from reconciler_mirror.model.counters import HoleCounts, LatencyCounter, Loss
from reconciler_mirror.model.lane import Condition, LaneSpec

LEAST_AHEAD = 4 << 20
"""Bytes that may be fetched ahead under any rate limit."""


class RestartError(Exception):
    """The transaction cannot be completed: abort it, and begin a new session from the committed positions.

    ``hold``: the partition that caused it, to be left out for a while, and its condition.
    """

    def __init__(self, why: str, hold: tuple[Key, Condition] | None = None) -> None:
        super().__init__(why)
        self.hold = hold


class PartitionRoutes(Protocol):
    """Routes partitions to fetchers, senders and the start; the session implements it."""

    def place(self, partition: Partition) -> None:
        """Fetch it from its leader or preferred follower."""

    def offer(self, partition: Partition) -> None:
        """It has something to produce."""

    def later(self, partition: Partition, pause: float, *, moved: bool) -> None:
        """Offer it after ``pause`` seconds; ``moved``: refresh metadata first."""

    def recheck(self, partition: Partition, why: str) -> None:
        """Its leader or log may have changed: have the start check it before the next fetch."""

    def forget(self, partition: Partition) -> None:
        """Stop fetching it."""

    def begin_again(self, partition: Partition) -> None:
        """Read its position again, and continue from there; it has nothing in flight."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs ``work`` beside the session's tasks; an exception ends the session."""

    def announce(self, partition: Partition) -> None:
        """Add it to the open transaction (classic protocol), then offer it."""


class LaneDelivery(Protocol):
    """How records get into the target's log and when they count as copied: with the lane's transactions, or at the
    source's own offsets. One object per session; the rest of a lane does not know which of the two it has."""

    written: frozenset[int]
    """Error codes of a Produce response by which the batch is in the target's log."""

    def begin(self, partition: Partition) -> None:
        """Reads the partition's position and has it fetched from there, or stops it. Called again whenever its leader
        or log may have changed."""

    def work(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Tasks to run until the session ends."""

    def reads(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Tasks to run until the lane ends; the session cancels them before the last commit."""

    async def commit(self) -> None:
        """The commit loop: until cancelled, or until the last commit after ``Lane.stopping`` is done."""

    def pieces(
        self, partition: Partition, view: memoryview, batches: Sequence[tuple[Batch, bool]], buffer: Buffer | None
    ) -> tuple[list[Piece], int]:
        """Pieces to produce from fetched batches, in offset order, and the offset after the last batch. The flag of a
        batch: whether the flow's isolation level delivers its records."""

    def continues(self, partition: Partition, pieces: Sequence[Piece]) -> bool:
        """Whether the new ``pieces`` continue the target's log. If not, the partition goes back to the start."""

    def may_send(self, partition: Partition) -> bool:
        """Whether the head of its queue may be sealed and sent now. If not, the partition is offered again later."""

    def sealed_as(self, partition: Partition) -> tuple[int, int]:
        """Producer id and epoch of its batches."""

    def acknowledged(self, partition: Partition, piece: Piece, base_offset: int) -> None:
        """``piece`` is in the target's log, and the lane has counted it. ``base_offset`` -1: not in the answer."""

    def refused(self, partition: Partition, error: BrokerError) -> None:
        """The target refused the oldest unacknowledged batch for its place in the log; no answer is outstanding."""

    def left_out(self, partition: Partition, piece: Piece, loss: Loss) -> None:
        """The target refuses the one record of ``piece`` for good: the partition continues after it."""

    def holes(self) -> HoleCounts | None:
        """Filled holes, and holes yet to fill; None unless copies keep the source's offsets."""


class Changed:
    """Partitions with a possibly changed row in the report. The first one sets ``noticed``."""

    def __init__(self) -> None:
        self.noticed = asyncio.Event()
        self._partitions: set[Partition] = set()

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, partition: Partition) -> None:
        if not self._partitions:
            self.noticed.set()
        self._partitions.add(partition)

    def update(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self.add(partition)

    def take(self) -> set[Partition]:
        taken, self._partitions = self._partitions, set()
        return taken


@dataclass(slots=True)
class LaneCounts:
    """Committed work of a lane since its lease began, over all attempts and sessions."""

    partitions: dict[Key, PartitionFigures] = field(default_factory=dict)
    """Includes partitions that have left, because they may come back."""
    latency: LatencyCounter = field(default_factory=LatencyCounter)
    transactions: int = 0
    """Commits of positions."""
    retries: int = 0
    """Failed sessions and attempts, each followed by a new one."""
    throttled_s: float = 0.0
    """Seconds in which the rate limit held records back."""
    holes: int = 0
    """Filled holes, where copies keep the source's offsets."""
    fillers: int = 0
    """Offsets in these holes."""
    refusals: int = 0
    """Batches that the target's leaders refused because they were not the next in sequence."""


class Lane:
    """State that the parts of a running lane share. It lasts for one session, apart from the fields marked below. Sizes
    are bytes, times monotonic seconds."""

    routes: PartitionRoutes
    """The running session, which sets itself."""
    delivery: LaneDelivery

    def __init__(
        self, spec: LaneSpec, clusters: tuple[ClusterClient, ClusterClient], identity: Identity, tuning: Tuning
    ) -> None:
        self.spec = spec
        self.source, self.target = clusters
        self.identity = identity  # of the producer that writes the data
        self.tuning = tuning

        # These outlive sessions: ``Attempt`` hands them to each new one.
        self.counts = LaneCounts()
        self.copied: dict[Key, Copied] = {}  # runs for the offset map
        self.known: dict[Key, tuple[int, Ids]] = {}  # the position committed last, and of which topics
        self.throttle = Throttle(lambda: NO_LIMIT)
        self.unseen: frozenset[Key] = frozenset()  # had no leader when hanging transactions were looked for

        # Partitions, and news about them. The session adds and removes partitions.
        self.partitions: dict[Key, Partition] = {}
        self.changed = Changed()  # partitions with a row to report again
        self.held = OpenTransactions()  # at the source, from Fetch answers; the session
        self.unread = OpenTransactions(conditions.open_at_target)  # reports long ones of both sides
        self.trouble: Condition | None = None  # keeps all partitions from starting; the start sets and clears it
        self.unmapped: Condition | None = None  # keeps the offset map unwritten; its writer sets and clears it
        self.mapping = asyncio.Lock()  # one writer to the offset map at a time: new runs, or the cut after a loss

        # The open transaction. Senders add to it, the commit loop ends it and clears all of this.
        self.dirty: set[Partition] = set()  # with an uncommitted move of the position
        self.dirty_since = 0.0  # when the first of them moved
        self.touched: set[Partition] = set()  # with a batch in the transaction
        self.added: set[Partition] = set()  # part of it at the coordinator, so their leaders take batches
        self.open_bytes = 0
        self.opened_at = 0.0  # when its first batch was sealed, 0.0 without one
        self.boundary = asyncio.Lock()  # keeps AddPartitionsToTxn and a commit apart
        self.joined = asyncio.Event()  # set while no request in flight adds a partition to the transaction
        self.joined.set()
        self._joining = 0  # number of such requests

        # Signals between the commit loop and the senders.
        self.closing = False  # a commit waits for acknowledgements: senders seal nothing new
        self.blocked: set[Partition] = set()  # with something to send after that commit
        self.stopping = False  # the next commit is the last; the session sets it for good
        self.urgent = False  # a commit is due at once: a start, or the flow's new owner, must survive a crash
        self.progress = asyncio.Event()  # a commit may have become due
        self.unacked = 0  # sealed batches without an answer, over all partitions
        self.drained = asyncio.Event()  # set while ``unacked`` is 0
        self.drained.set()

        # Memory: fetches may still ask for ``room_left``.
        self.queued = 0  # fetched and not acknowledged, over all partitions
        self.requested = 0  # the most that fetches in flight may bring
        self.far = False  # a broker has a high round-trip time, so more has to be in flight
        self.room = asyncio.Event()  # memory has become free

        self.served = 0  # ``Outbox.served`` of the partition sealed last; newcomers begin with it
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # its error ends the session

    def know(self, partition: Partition, offset: int) -> None:
        """Remembers the committed position, independently of the group coordinator."""
        self.known[partition.source] = (offset, self.ids(partition))

    def committed_before(self, partition: Partition) -> int | None:
        """The last position that this lane knew to be committed; None if there is none for the present two topics."""
        offset, ids = self.known.get(partition.source, (-1, (NO_ID, NO_ID)))
        return offset if offset >= 0 and NO_ID not in ids and ids == self.ids(partition) else None

    def ids(self, partition: Partition) -> Ids:
        remote = self.target.topics.get(partition.spec.target_topic)
        return partition.log.topic_id, NO_ID if remote is None else remote.topic_id

    def remote_id(self, partition: Partition) -> str:
        """The present remote topic's id, as Kafka prints it."""
        return printed_id(self.ids(partition)[1].bytes)

    @property
    def committed_only(self) -> bool:
        return self.spec.isolation == "read_committed"

    def fail(self, error: BaseException) -> None:
        """Ends the session; the first reason counts."""
        if not self.failed.done():
            self.failed.set_exception(error)

    # fetched batches

    def room_left(self) -> int:
        """Bytes that fetches may still ask for. A receive buffer counts in full for as long as any piece holds it."""
        return self.memory - max(self.queued, self.source.pool.held) - self.requested

    @property
    def memory(self) -> int:
        """Bytes to fetch ahead: few for a nearby source, so that they may still be in the CPU cache when they are sent;
        under a rate limit two seconds' worth, because the next lease reads any rest again."""
        most = self.tuning.memory_far if self.far else self.tuning.memory
        return min(most, max(LEAST_AHEAD, int(2 * self.throttle.rate))) if self.throttle.limited else most

    def queue_up(self, partition: Partition, pieces: list[Piece]) -> None:
        self.queued += partition.outbox.add(pieces)
        partition.figures.fetched(pieces)
        self.changed.add(partition)

    def cover(self, partition: Partition) -> None:
        """Moves ``reached`` over skipped batches once nothing before them is open."""
        log, outbox = partition.log, partition.outbox
        if log.reached < log.covered and not outbox.unacked and outbox.idle:
            log.reach(log.covered, partition.epoch_at(log.covered), log.covered_last)
            self.mark_dirty(partition)

    def mark_dirty(self, partition: Partition) -> None:
        """Notes a moved position. Wakes the committer only if a commit may be due: in a backlog age and size decide."""
        if not self.dirty:
            self.dirty_since = time.monotonic()
            self.progress.set()
        elif self.urgent or partition.caught_up:
            self.progress.set()
        if partition.hold.held_at is not None and partition.log.reached > partition.hold.held_at:
            partition.hold.moved(partition.log.reached)
        self.dirty.add(partition)
        self.changed.add(partition)

    def drop_unsent(self, partition: Partition) -> None:
        self.queued -= partition.drop_unsent()
        self.changed.add(partition)
        self.room.set()

    # produced batches

    def joins(self, partition: Partition) -> bool:
        """Whether its next batch makes its leader add it to the transaction (transaction version 2, KIP-890)."""
        return self.identity.version_2 and self.identity.transactional and partition not in self.added

    def joining(self, change: int) -> None:
        self._joining += change
        if self._joining:
            self.joined.clear()
        else:
            self.joined.set()

    def began(self, partition: Partition, size: int) -> None:
        """A batch of ``partition`` belongs to the open transaction from now on."""
        self.touched.add(partition)
        self.unacked += 1
        self.open_bytes += size
        self.drained.clear()
        if not self.opened_at:
            self.opened_at = time.monotonic()
            self.progress.set()
        elif self.open_bytes >= self.tuning.transaction_bytes:
            self.progress.set()

    def acknowledged(self, partition: Partition, piece: Piece, base_offset: int) -> None:
        """``piece``: the oldest unacknowledged one. ``base_offset``: the target offset of its first record, -1 if
        unknown."""
        partition.copied.acknowledged(piece.copied, base_offset)
        partition.log.reach(piece.next_offset, piece.leader_epoch, piece.last)
        partition.figures.acknowledged(piece)
        partition.hold.progressed()
        self._settled(partition.outbox.acknowledge())
        self.mark_dirty(partition)
        self.cover(partition)

    def give_up(self, partition: Partition) -> None:
        """The target refused the unacknowledged batches, so their sequences are free again."""
        partition.outbox.take_back()
        while partition.outbox.unacked:
            self._settled(partition.outbox.settle_oldest())
        self.drop_unsent(partition)

    def _settled(self, size: int) -> None:
        """A piece of ``size`` bytes is no longer in flight."""
        self.queued -= size
        self.unacked -= 1
        self.room.set()
        if self.unacked == 0:
            self.drained.set()
            self.progress.set()

    def resolve(self, handle: Callable[..., None], *arguments: object) -> None:
        """Runs a callback of the event loop; an exception ends the session."""
        try:
            handle(*arguments)
        except Exception as error:  # noqa: BLE001 - the event loop would only log it
            self.fail(error)

    # failures

    def stop(self, partition: Partition, condition: Condition, *, keep: bool = False, at: int | None = None) -> None:
        """Stops one partition; the others continue. Sent batches are still committed; ``keep``: queued ones, too.
        ``at``: the position at which copying failed, as in ``Hold.held_at``."""
        waiting_ms = partition.figures.waiting_since or partition.outbox.oldest_ms
        if not keep:
            self.drop_unsent(partition)
        partition.freeze_end()
        partition.hold.stop(condition, at, waiting_ms, self.tuning.retry_stopped)
        self.changed.add(partition)
        self.progress.set()

    def deny(self, partitions: Collection[Partition], error: PartitionsDeniedError) -> set[Partition]:
        """Stops and returns those of ``partitions`` that the target does not let the mirror write. All of them if the
        answer names others."""
        denied = {partition for partition in partitions if partition.target in error.keys} or {*partitions}
        for partition in denied:
            self.stop(partition, conditions.refused(partition.spec, error.code, ""), at=partition.log.reached)
        return denied

    def goes_on(self, code: str) -> bool:
        """Whether the flow's ``continue_on`` accepts the loss that a condition reports."""
        return code in self.spec.continue_on

    def move_on(self, partition: Partition, position: int, loss: Loss) -> None:
        """Continues at ``position``, which may be an earlier one, and counts ``loss``; nothing is in flight."""
        partition.log.move(position)
        partition.figures.lost.add(position, loss)
        self.mark_dirty(partition)

    def pause(self, partition: Partition) -> None:
        """Stops fetching. Batches in flight are still acknowledged and committed; the end is still asked for."""
        waiting_ms = partition.outbox.oldest_ms
        self.drop_unsent(partition)
        partition.freeze_end()
        look_in = self.tuning.poll_paused + len(self.partitions) / 500
        partition.hold.pause(waiting_ms, look_in, behind=partition.log.end > partition.log.covered)
        self.changed.add(partition)
        self.progress.set()

    def at_rest(self, partition: Partition) -> bool:
        """Whether it has nothing in flight, and everything copied is committed."""
        return partition.outbox.idle and partition not in self.dirty and partition not in self.touched

    def is_paused(self, partition: Partition) -> bool:
        return partition.hold.pausing and self.at_rest(partition)

    def corrupt(self, partition: Partition, why: str) -> None:
        """The batch at ``covered`` is corrupt: reads it once more, because the network may have damaged it; then leaves
        it out or stops. Queued pieces lie before it, and are still sent."""
        if partition.hold.strike():
            self.routes.recheck(partition, why)
        elif self.goes_on("corrupt_source_batch") and not partition.hold.checking:
            partition.hold.check()
            self.routes.recheck(partition, why)
        else:
            self.stop(
                partition,
                conditions.corrupt(partition.spec, partition.log.covered, why),
                keep=True,
                at=partition.log.covered,
            )

    def source_failed(self, partitions: Iterable[Partition], code: int) -> None:
        for partition in partitions:
            if code in RETRIABLE:
                self.routes.recheck(partition, name_of(code))
            else:
                self.stop(partition, conditions.source_refuses(partition.spec, code))
