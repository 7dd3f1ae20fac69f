"""The state of one running lane: partitions, bounds, errors. Mutable, owned by one event loop.

The parts that fetch, produce and commit share it and nothing else.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from reconciler.kafka.client.buffers import Buffer
from reconciler.kafka.client.cluster import NO_ID, ClusterClient, Key, printed_id
from reconciler.kafka.client.errors import RETRIABLE, BrokerError, name_of
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.records.batches import Batch
from reconciler.replication.offsets.codec import Ids
from reconciler_mirror.conditions import lane as conditions
from reconciler_mirror.lane.copied_runs import Copied
from reconciler_mirror.lane.fetch.open_transactions import OpenTransactions
from reconciler_mirror.lane.partition import Partition, PartitionFigures, Tuning
from reconciler_mirror.lane.produce.outbox import Piece
from reconciler_mirror.lane.produce.throttle import NO_LIMIT, Throttle
from reconciler_mirror.model.counters import LatencyCounter, Loss
from reconciler_mirror.model.lane import Condition, HoleCounts, LaneSpec

LEAST_AHEAD = 4 << 20
"""Bytes that may be fetched ahead under any rate limit."""


class RestartError(Exception):
    """The transaction cannot be completed: abort it and begin again from the committed positions.

    ``hold``: the partition that caused it, to be left out for a while, with the condition that says so.
    """

    def __init__(self, why: str, hold: tuple[Key, Condition] | None = None) -> None:
        super().__init__(why)
        self.hold = hold


class PartitionRoutes(Protocol):
    """Where partitions go next; the session that runs the lane decides."""

    def place(self, partition: Partition) -> None:
        """Fetch it from where its records are."""

    def offer(self, partition: Partition) -> None:
        """It has something to produce."""

    def later(self, partition: Partition, pause: float, *, moved: bool) -> None:
        """Offer it after ``pause`` seconds; ``moved``: learn first who leads it."""

    def recheck(self, partition: Partition, why: str) -> None:
        """Its leader or log may have changed: check it before fetching on."""

    def forget(self, partition: Partition) -> None:
        """Fetch it no more."""

    def begin_again(self, partition: Partition) -> None:
        """Read its position again, and go on as that says: nothing of it is under way."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs ``work`` beside the session's tasks; what it raises ends the session."""

    def announce(self, partition: Partition) -> None:
        """Add it to the open transaction (classic protocol), then offer it."""


class LaneDelivery(Protocol):
    """How records get into the target's log, and what makes them count as copied: by transactions of the lane's
    producer, or at the source's own offsets. Of one session; no other part of a lane knows which of the two it is."""

    written: frozenset[int]
    """Error codes of a Produce response by which the batch is in the target's log."""

    def begin(self, partition: Partition) -> None:
        """Reads the partition's position and has it fetched from there, or stops it. Again, once its leader or log may
        have changed."""

    def work(self) -> Iterable[Coroutine[Any, Any, None]]:
        """What has to run until the session ends."""

    def reads(self) -> Iterable[Coroutine[Any, Any, None]]:
        """What has to run until the lane ends; it is cancelled before the last commit."""

    async def commit(self) -> None:
        """The commit loop: until cancelled, or until the last commit after ``Lane.stopping`` is done."""

    def pieces(
        self, partition: Partition, view: memoryview, batches: Sequence[tuple[Batch, bool]], buffer: Buffer | None
    ) -> tuple[list[Piece], int]:
        """Pieces to produce of fetched batches, in offset order, and the offset after all that they cover. Each batch
        comes with whether a reader at the flow's isolation gets its records."""

    def continues(self, partition: Partition, pieces: Sequence[Piece]) -> bool:
        """Whether ``pieces``, made just now, continue what the target has. If not, the partition is begun again."""

    def may_send(self, partition: Partition) -> bool:
        """Whether the head of its queue may be sealed and sent now. If not, the partition is offered again later."""

    def sealed_as(self, partition: Partition) -> tuple[int, int]:
        """Producer id and epoch of its batches."""

    def acknowledged(self, partition: Partition, piece: Piece, base_offset: int) -> None:
        """``piece`` is in the target's log, and the lane has noted it. ``base_offset`` -1: the broker did not say."""

    def refused(self, partition: Partition, error: BrokerError) -> None:
        """The target refused the oldest unacknowledged batch for its place in the log, and all answers are in."""

    def left_out(self, partition: Partition, piece: Piece, loss: Loss) -> None:
        """The target refuses the one record of ``piece`` for good: the partition goes on behind it."""

    def holes(self) -> HoleCounts | None:
        """What the lane has filled, and has to fill; None where copies have offsets of their own."""


class Changed:
    """Partitions whose row of the report may have changed. ``noticed`` is set by the first."""

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
    """What a lane has counted since its lease began, over all its attempts and their sessions; committed only."""

    partitions: dict[Key, PartitionFigures] = field(default_factory=dict)
    """Also of partitions that have left, which may come back."""
    latency: LatencyCounter = field(default_factory=LatencyCounter)
    transactions: int = 0
    """Commits of positions."""
    retries: int = 0
    """Sessions and attempts that failed and were begun again."""
    throttled_s: float = 0.0
    """How long the rate limit held something back."""
    holes: int = 0
    """Stretches of offsets without a record that were filled, where copies keep offsets."""
    fillers: int = 0
    """Offsets they had."""
    refusals: int = 0
    """Batches that brokers refused as not the next one."""


class Lane:
    """Shared by the parts of one running lane: what they agree on through it. Of one session, but for what says that it
    outlives sessions. Sizes are bytes, times monotonic seconds."""

    routes: PartitionRoutes
    """The session that runs the lane; it sets itself."""
    delivery: LaneDelivery

    def __init__(
        self, spec: LaneSpec, clusters: tuple[ClusterClient, ClusterClient], identity: Identity, tuning: Tuning
    ) -> None:
        self.spec = spec
        self.source, self.target = clusters
        self.identity = identity  # of the producer that writes the data
        self.tuning = tuning

        # What outlives sessions: ``Attempt`` hands it over to each.
        self.counts = LaneCounts()
        self.copied: dict[Key, Copied] = {}  # runs for the offset map
        self.known: dict[Key, tuple[int, Ids]] = {}  # the position committed last, and of which topics
        self.throttle = Throttle(lambda: NO_LIMIT)
        self.unseen: frozenset[Key] = frozenset()  # had no leader when hanging transactions were looked for

        # Partitions, and which of them have news. The session adds and removes them.
        self.partitions: dict[Key, Partition] = {}
        self.changed = Changed()  # of which a report differs from the last one
        self.held = OpenTransactions()  # at the source; fetchers note them, the session
        self.unread = OpenTransactions(conditions.open_at_target)  # reports those that last, of both sides
        self.trouble: Condition | None = None  # what keeps all from starting; the start sets and clears it
        self.unmapped: Condition | None = None  # why the offset map is not written; its writer sets and clears it
        self.mapping = asyncio.Lock()  # held by who writes to the offset map, or takes out of it what a target lost

        # The open transaction. Senders add to it, the commit loop ends it and clears all of this.
        self.dirty: set[Partition] = set()  # whose position has moved and is not committed
        self.dirty_since = 0.0  # when the first of them moved
        self.touched: set[Partition] = set()  # that have a batch in it
        self.added: set[Partition] = set()  # that the coordinator has in it, so their leaders take batches
        self.open_bytes = 0
        self.opened_at = 0.0  # when its first batch was sealed, 0.0 without one
        self.boundary = asyncio.Lock()  # between partitions added to a transaction and its end
        self.joined = asyncio.Event()  # no request is under way that brings a partition into it
        self.joined.set()
        self._joining = 0  # such requests

        # What the commit loop and the senders agree on.
        self.closing = False  # a commit waits for acknowledgements: nothing new is sealed
        self.blocked: set[Partition] = set()  # that have something to send after that
        self.stopping = False  # the last commit; set by the session, for good
        self.urgent = False  # the next commit is due at once: a start, or who owns the flow, must survive a crash
        self.progress = asyncio.Event()  # a commit may have become due
        self.unacked = 0  # sealed batches without an answer, over all partitions
        self.drained = asyncio.Event()  # there are none
        self.drained.set()

        # Memory: ``room_left`` is what fetches may still ask for.
        self.queued = 0  # fetched and not acknowledged, over all partitions
        self.requested = 0  # what fetches under way may bring
        self.far = False  # one of the lines is long: more has to be under way
        self.room = asyncio.Event()  # some has become free

        self.served = 0  # ``Outbox.served`` of the partition that was sealed last: newcomers begin there
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # why the session ends

    def know(self, partition: Partition, offset: int) -> None:
        """It is committed there, or was when the lane began."""
        self.known[partition.source] = (offset, self.ids(partition))

    def committed_before(self, partition: Partition) -> int | None:
        """What this lane knew last; None: nothing yet, or of another topic at source or target."""
        offset, ids = self.known.get(partition.source, (-1, (NO_ID, NO_ID)))
        return offset if offset >= 0 and NO_ID not in ids and ids == self.ids(partition) else None

    def ids(self, partition: Partition) -> Ids:
        there = self.target.topics.get(partition.spec.target_topic)
        return partition.log.topic_id, NO_ID if there is None else there.topic_id

    def remote_id(self, partition: Partition) -> str:
        """Of the target's topic as it is now, as Kafka prints it."""
        return printed_id(self.ids(partition)[1].bytes)

    @property
    def committed_only(self) -> bool:
        return self.spec.isolation == "read_committed"

    def fail(self, error: BaseException) -> None:
        """Ends the session; the first reason counts."""
        if not self.failed.done():
            self.failed.set_exception(error)

    # what was fetched

    def room_left(self) -> int:
        """Bytes that may still be asked for. Receive buffers count as a whole, so that a small rest cannot hide one."""
        return self.memory - max(self.queued, self.source.pool.held) - self.requested

    @property
    def memory(self) -> int:
        """What may be fetched ahead: nearby little, which a processor's cache may still hold when it is sent; under a
        rate limit only what will be sent soon, since the rest is read again by the next lease."""
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
        """The committer looks again only when a commit may have become due: amid a backlog time and size decide."""
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

    # what was produced

    def joins(self, partition: Partition) -> bool:
        """Its next batch makes its leader add it to the transaction (KIP-890 version 2)."""
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
        """``piece`` is the oldest unacknowledged one. ``base_offset``: the target offset of its first record, -1: not
        known."""
        partition.copied.acknowledged(piece.copied, base_offset)
        partition.log.reach(piece.next_offset, piece.leader_epoch, piece.last)
        partition.figures.acknowledged(piece)
        partition.hold.progressed()
        self._settled(partition.outbox.acknowledge())
        self.mark_dirty(partition)
        self.cover(partition)

    def give_up(self, partition: Partition) -> None:
        """The unacknowledged batches were refused, so not written: their sequences were not used."""
        partition.outbox.take_back()
        while partition.outbox.unacked:
            self._settled(partition.outbox.settle_oldest())
        self.drop_unsent(partition)

    def _settled(self, size: int) -> None:
        """A piece of ``size`` is no more on its way."""
        self.queued -= size
        self.unacked -= 1
        self.room.set()
        if self.unacked == 0:
            self.drained.set()
            self.progress.set()

    def resolve(self, handle: Callable[..., None], *arguments: object) -> None:
        """Runs a callback of the loop; what it raises ends the session."""
        try:
            handle(*arguments)
        except Exception as error:  # noqa: BLE001 - nothing may get lost between callbacks
            self.fail(error)

    # what went wrong

    def stop(self, partition: Partition, condition: Condition, *, keep: bool = False, at: int | None = None) -> None:
        """Stops one partition; the others go on. What was sent is committed; ``keep``: what is queued too. ``at``:
        where copying itself failed, as ``Hold.held_at`` has it."""
        waiting_ms = partition.figures.waiting_since or partition.outbox.oldest_ms
        if not keep:
            self.drop_unsent(partition)
        partition.freeze_end()
        partition.hold.stop(condition, at, waiting_ms, self.tuning.retry_stopped)
        self.changed.add(partition)
        self.progress.set()

    def goes_on(self, code: str) -> bool:
        """Whether the flow goes on behind what a condition costs."""
        return code in self.spec.continue_on

    def move_on(self, partition: Partition, position: int, loss: Loss) -> None:
        """Nothing of the partition is queued or unacknowledged: it goes on at ``position``, perhaps an earlier one."""
        partition.log.move(position)
        partition.figures.lost.add(position, loss)
        self.mark_dirty(partition)

    def pause(self, partition: Partition) -> None:
        """Fetches no more of it. What is on its way is still acknowledged and committed; its end is read again."""
        waiting_ms = partition.outbox.oldest_ms
        self.drop_unsent(partition)
        partition.freeze_end()
        look_in = self.tuning.poll_paused + len(self.partitions) / 500
        partition.hold.pause(waiting_ms, look_in, behind=partition.log.end > partition.log.covered)
        self.changed.add(partition)
        self.progress.set()

    def at_rest(self, partition: Partition) -> bool:
        """Nothing of it is under way, and all that was copied is committed."""
        return partition.outbox.idle and partition not in self.dirty and partition not in self.touched

    def is_paused(self, partition: Partition) -> bool:
        return partition.hold.pausing and self.at_rest(partition)

    def corrupt(self, partition: Partition, why: str) -> None:
        """A batch at ``covered``: read it once more, perhaps it was damaged on the way; then leave it out, or stop.
        What is queued lies before it."""
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
