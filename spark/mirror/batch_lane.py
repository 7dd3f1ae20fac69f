"""The state of one running lane on the batch path: partitions on their way, bounds, what went wrong.

Mutable and owned by one event loop; the parts that fetch, produce and commit share it and nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from mirror import batch_refusals
from mirror.lanes import Condition, LaneSpec, PartitionSpec
from mirror.wire.batches import Batch
from mirror.wire.buffers import Buffer
from mirror.wire.cluster import NO_ID, Cluster, Key
from mirror.wire.errors import RETRIABLE, name_of
from mirror.wire.transactions import Identity


@dataclass(frozen=True, slots=True)
class Tuning:
    """Bytes and seconds. ``memory`` bounds what is fetched and not yet acknowledged, over the whole lane.

    ``requests_in_flight`` per broker is enough nearby; a far broker gets up to ``most_in_flight``.
    """

    memory: int = 96 << 20
    fetch_bytes: int = 16 << 20
    partition_bytes: int = 1 << 20
    partition_queue: int = 6 << 20
    fetch_wait_ms: int = 500
    request_bytes: int = 4 << 20
    requests_in_flight: int = 4
    most_in_flight: int = 96
    bytes_in_flight: int = 48 << 20
    commit_interval: float = 0.010
    transaction_age: float = 0.4
    transaction_bytes: int = 128 << 20
    idle_commit: float = 1.0
    delivery_timeout: float = 20.0
    retry_stopped: float = 5.0


class Phase(StrEnum):
    """STARTING: the position is not read or not checked. STOPPED: a condition holds it. LEAVING: no longer ours."""

    STARTING = "starting"
    COPYING = "copying"
    STOPPED = "stopped"
    LEAVING = "leaving"


@dataclass(slots=True, eq=False)
class Piece:
    """One batch to produce. ``source`` is set while its bytes are the source's own and their checksum is not verified.
    ``next_offset``: the position once it is acknowledged. ``sequence`` is -1 until it is sealed."""

    raw: memoryview
    records: int
    next_offset: int
    leader_epoch: int
    timestamp: int
    source: Batch | None = None
    buffer: Buffer | None = None
    sequence: int = -1
    sent_at: float = 0.0

    def drop(self) -> None:
        buffer, self.buffer = self.buffer, None
        if buffer is not None:
            buffer.release()


@dataclass(slots=True, eq=False)
class Partition:
    """One source partition on its way.

    committed <= reached <= covered, in source offsets: committed at the target, acknowledged in this transaction,
    fetched. ``queue`` holds batches not sealed yet, ``unacked`` sealed ones in order of their sequences, ``resend``
    those of them that have to be sent again.
    """

    spec: PartitionSpec
    phase: Phase = Phase.STARTING
    topic_id: UUID = NO_ID
    committed: int = -1
    reached: int = -1
    covered: int = -1
    end: int = -1
    leader_epoch: int = -1
    validated_epoch: int = -1
    queue: deque[Piece] = field(default_factory=deque)
    unacked: deque[Piece] = field(default_factory=deque)
    resend: deque[Piece] = field(default_factory=deque)
    outstanding: int = 0
    queued_bytes: int = 0
    sequence: int = 0
    first_acked: bool = False
    failure: tuple[int, str] | None = None
    ready: bool = False
    busy: bool = False
    data_at: float = 0.0
    stalled_since: float = 0.0
    read_from: tuple[int, float] = (-1, 0.0)
    largest: int = 1 << 31
    gathers: bool = False
    strikes: int = 0
    retry_at: float = 0.0
    records: int = 0
    bytes: int = 0
    open_records: int = 0
    open_bytes: int = 0
    waiting_since: int | None = None
    condition: Condition | None = None
    why: str = ""

    @property
    def source(self) -> Key:
        return (self.spec.topic, self.spec.partition)

    @property
    def target(self) -> Key:
        return (self.spec.target_topic, self.spec.partition)

    @property
    def idle(self) -> bool:
        """Nothing fetched is waiting for an acknowledgement."""
        return not self.queue and not self.unacked

    @property
    def caught_up(self) -> bool:
        return not self.queue and self.covered >= self.end

    def planned(self) -> int:
        """The position once all that was sent is acknowledged."""
        return self.covered if not self.queue else self._sent()

    def drop_unsent(self) -> int:
        """Forgets what was fetched and not sent; returns its bytes. The fetch position falls back accordingly."""
        dropped = 0
        for piece in self.queue:
            dropped += len(piece.raw)
            piece.drop()
        self.queue.clear()
        self.queued_bytes -= dropped
        self.covered = self._sent()
        return dropped

    def _sent(self) -> int:
        return self.unacked[-1].next_offset if self.unacked else self.reached


class RestartError(Exception):
    """The transaction cannot be completed: abort it and begin again from the committed positions.

    ``hold``: the partition that caused it, to be left out for a while, with the condition that says so.
    """

    def __init__(self, why: str, hold: tuple[Key, Condition] | None = None) -> None:
        super().__init__(why)
        self.hold = hold


class Routes(Protocol):
    """Where partitions go next; the session that runs the lane decides."""

    def place(self, partition: Partition) -> None:
        """Fetch it from where its records are."""

    def offer(self, partition: Partition) -> None:
        """It has something to produce."""

    def later(self, partition: Partition, pause: float, *, moved: bool) -> None:
        """Offer it after ``pause`` seconds; ``moved``: learn first who leads it."""

    def look_again(self, partition: Partition, why: str) -> None:
        """Its leader or log may have changed: check it before fetching on."""

    def announce(self, partition: Partition) -> None:
        """Add it to the open transaction (classic protocol), then offer it."""


class Lane:
    """Shared by the parts of one running lane."""

    routes: Routes

    def __init__(self, spec: LaneSpec, clusters: tuple[Cluster, Cluster], identity: Identity, tuning: Tuning) -> None:
        self.spec = spec
        self.source, self.target = clusters
        self.identity = identity
        self.tuning = tuning
        self.partitions: dict[Key, Partition] = {}
        self.dirty: set[Partition] = set()
        self.touched: set[Partition] = set()
        self.blocked: set[Partition] = set()
        self.added: set[Partition] = set()
        self.boundary = asyncio.Lock()  # between partitions added to a transaction and its end
        self.open_bytes = 0
        self.opened_at = 0.0
        self.dirty_since = 0.0
        self.unacked = 0
        self.queued = 0
        self.closing = False
        self.stopping = False
        self.urgent = False
        self.trouble: Condition | None = None
        self.progress = asyncio.Event()
        self.drained = asyncio.Event()
        self.drained.set()
        self.room = asyncio.Event()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def committed_only(self) -> bool:
        return self.spec.isolation == "read_committed"

    def fail(self, error: BaseException) -> None:
        """Ends the session; the first reason counts."""
        if not self.failed.done():
            self.failed.set_exception(error)

    # what was fetched

    def room_left(self) -> int:
        """Bytes that may still be fetched. Receive buffers count as a whole, so that a small rest cannot hide one."""
        return self.tuning.memory - max(self.queued, self.source.pool.held)

    def queue_up(self, partition: Partition, pieces: list[Piece]) -> None:
        size = sum(len(piece.raw) for piece in pieces)
        partition.queue.extend(pieces)
        partition.queued_bytes += size
        self.queued += size
        if partition.waiting_since is None and pieces:
            partition.waiting_since = pieces[0].timestamp

    def cover(self, partition: Partition) -> None:
        """Moves ``reached`` over skipped batches once nothing before them is open."""
        if partition.idle and partition.reached < partition.covered:
            partition.reached = partition.covered
            self.mark_dirty(partition)

    def mark_dirty(self, partition: Partition) -> None:
        if not self.dirty:
            self.dirty_since = time.monotonic()
        self.dirty.add(partition)
        self.progress.set()

    def drop_unsent(self, partition: Partition) -> None:
        self.queued -= partition.drop_unsent()
        self.room.set()

    # what was produced

    def may_produce(self, partition: Partition) -> bool:
        if partition in self.added or self.identity.version_2 or not self.identity.transactional:
            return True
        self.routes.announce(partition)
        return False

    def began(self, partition: Partition, size: int) -> None:
        """A batch of ``partition`` belongs to the open transaction from now on."""
        self.touched.add(partition)
        self.unacked += 1
        self.open_bytes += size
        self.drained.clear()
        if not self.opened_at:
            self.opened_at = time.monotonic()

    def acknowledged(self, partition: Partition, piece: Piece) -> None:
        partition.reached = piece.next_offset
        partition.leader_epoch = max(partition.leader_epoch, piece.leader_epoch)
        partition.open_records += piece.records
        partition.open_bytes += len(piece.raw)
        partition.strikes = 0
        partition.stalled_since = 0.0
        self._settle(partition, piece)
        self.mark_dirty(partition)
        self.cover(partition)

    def give_up(self, partition: Partition) -> None:
        """The unacknowledged batches were refused, so not written: their sequences were not used."""
        if partition.unacked:
            partition.sequence = partition.unacked[0].sequence
        partition.resend.clear()
        while partition.unacked:
            self._settle(partition, partition.unacked.popleft())
        self.drop_unsent(partition)

    def _settle(self, partition: Partition, piece: Piece) -> None:
        size = len(piece.raw)
        piece.drop()
        partition.queued_bytes -= size
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

    def stop(self, partition: Partition, condition: Condition) -> None:
        """Stops one partition; the others go on. What was acknowledged stays and is committed."""
        self.drop_unsent(partition)
        partition.phase = Phase.STOPPED
        partition.condition = condition
        partition.retry_at = time.monotonic() + self.tuning.retry_stopped * min(12, 2**partition.strikes)
        partition.strikes += 1
        self.progress.set()

    def corrupt(self, partition: Partition, why: str) -> None:
        """Read it once more, perhaps it was damaged on the way; then stop."""
        self.drop_unsent(partition)
        if partition.strikes == 0:
            partition.strikes = 1
            self.routes.look_again(partition, why)
        else:
            self.stop(partition, batch_refusals.corrupt(partition, why))

    def source_failed(self, partitions: Iterable[Partition], code: int) -> None:
        for partition in partitions:
            if code in RETRIABLE:
                self.routes.look_again(partition, name_of(code))
            else:
                self.stop(partition, batch_refusals.source_refuses(partition, code))
