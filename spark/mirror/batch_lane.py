"""The state of one running lane on the batch path: partitions on their way, bounds, what went wrong.

Mutable and owned by one event loop; the parts that fetch, produce and commit share it and nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from mirror.lanes import Condition, LaneSpec, PartitionSpec
from mirror.wire.batches import Batch
from mirror.wire.buffers import Buffer
from mirror.wire.cluster import NO_ID, Cluster, Key
from mirror.wire.transactions import Identity


@dataclass(frozen=True, slots=True)
class Tuning:
    """Bytes and seconds. ``memory`` bounds what is fetched and not yet acknowledged, over the whole lane."""

    memory: int = 96 << 20
    fetch_bytes: int = 16 << 20
    partition_bytes: int = 1 << 20
    partition_queue: int = 6 << 20
    fetch_wait_ms: int = 500
    request_bytes: int = 4 << 20
    requests_in_flight: int = 4
    batches_in_flight: int = 4
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

    committed <= reached <= fetched: positions in source offsets, committed at the target, acknowledged, fetched.
    ``covered`` is what ``reached`` becomes when nothing is queued (skipped batches have no acknowledgement).
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
    outstanding: int = 0
    queued_bytes: int = 0
    sequence: int = 0
    first_acked: bool = False
    resend_after: float = 0.0
    failure: tuple[int, str] | None = None
    ready: bool = False
    paused: bool = False
    in_transaction: bool = False
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
        if self.unacked:
            return self.covered if not self.queue else self.unacked[-1].next_offset
        return self.covered if not self.queue else self.reached

    def drop_unsent(self) -> int:
        """Forgets what was fetched and not sent; returns its bytes. The fetch position falls back accordingly."""
        dropped = 0
        while self.queue and self.queue[-1].sequence < 0:
            piece = self.queue.pop()
            dropped += len(piece.raw)
            piece.drop()
        self.queued_bytes -= dropped
        self.covered = self.queue[-1].next_offset if self.queue else self._sent()
        return dropped

    def _sent(self) -> int:
        return self.unacked[-1].next_offset if self.unacked else self.reached


class Restart(Exception):  # noqa: N818 - what to do, not what is wrong
    """The transaction cannot be completed: abort it and begin again from the committed positions.

    ``hold``: the partition that caused it, to be left out for a while, with the condition that says so.
    """

    def __init__(self, why: str, hold: tuple[Key, Condition] | None = None) -> None:
        super().__init__(why)
        self.hold = hold


class Lane:
    """Shared by the parts of one running lane."""

    def __init__(self, spec: LaneSpec, clusters: tuple[Cluster, Cluster], identity: Identity, tuning: Tuning) -> None:
        self.spec = spec
        self.source, self.target = clusters
        self.identity = identity
        self.tuning = tuning
        self.partitions: dict[Key, Partition] = {}
        self.by_target: dict[Key, Partition] = {}
        self.dirty: set[Partition] = set()
        self.touched: set[Partition] = set()
        self.transactions = 0
        self.retries = 0
        self.open_bytes = 0
        self.opened_at = 0.0
        self.unacked = 0
        self.queued = 0
        self.closing = False
        self.stopping = False
        self.progress = asyncio.Event()
        self.drained = asyncio.Event()
        self.drained.set()
        self.room = asyncio.Event()
        self.room.set()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.on_stop: Callable[[Partition], None] = lambda _: None

    @property
    def committed_only(self) -> bool:
        return self.spec.isolation == "read_committed"

    def fail(self, error: BaseException) -> None:
        """Ends the session; the first reason counts."""
        if not self.failed.done():
            self.failed.set_exception(error)

    def room_left(self) -> int:
        """Bytes that may still be fetched. Buffers are counted as allocated, so small batches cannot hide big ones."""
        return self.tuning.memory - max(self.queued, self.source.pool.held)

    def queue_up(self, partition: Partition, pieces: list[Piece]) -> None:
        size = sum(len(piece.raw) for piece in pieces)
        partition.queue.extend(pieces)
        partition.queued_bytes += size
        self.queued += size
        if partition.waiting_since is None and pieces:
            partition.waiting_since = pieces[0].timestamp

    def settle(self, partition: Partition, piece: Piece) -> None:
        """``piece`` is acknowledged, or given up."""
        size = len(piece.raw)
        piece.drop()
        partition.queued_bytes -= size
        self.queued -= size
        self.room.set()

    def cover(self, partition: Partition) -> None:
        """Moves ``reached`` over skipped batches once nothing before them is open."""
        if partition.idle and partition.reached < partition.covered:
            partition.reached = partition.covered
            self.dirty.add(partition)
            self.progress.set()

    def stop(self, partition: Partition, condition: Condition) -> None:
        """Stops one partition; the others go on. What was acknowledged stays and is committed."""
        self.queued -= partition.drop_unsent()
        self.room.set()
        partition.phase = Phase.STOPPED
        partition.condition = condition
        partition.retry_at = time.monotonic() + self.tuning.retry_stopped * min(12, 2**partition.strikes)
        partition.strikes += 1
        self.on_stop(partition)
        self.progress.set()
