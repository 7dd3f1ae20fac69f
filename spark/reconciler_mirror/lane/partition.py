"""The state of one partition in a lane: what is queued, sent and acknowledged.

Mutable, owned by the event loop of its lane; it knows no connections.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from reconciler.kafka.client.buffers import Buffer
from reconciler.kafka.client.cluster import NO_ID, Key
from reconciler.kafka.records.batches import Batch
from reconciler.kafka.records.records import Rebuilt
from reconciler_mirror.lane.copied_runs import Copied, Spans
from reconciler_mirror.model.lane import Condition, PartitionSpec
from reconciler_mirror.model.losses import LossCounter
from reconciler_mirror.record_work.on_bytes import RecordWorker


@dataclass(frozen=True, slots=True)
class Tuning:
    """Bytes and seconds. ``memory`` bounds what is fetched and not yet acknowledged, over the whole lane; one partition
    may hold the ``partition_share``th part of it. On a long line, where more is under way: ``memory_far``.

    ``requests_in_flight`` per broker is enough nearby; a far broker gets up to ``most_in_flight``.
    """

    memory: int = 32 << 20
    memory_far: int = 96 << 20
    fetch_bytes: int = 4 << 20
    fetch_bytes_far: int = 32 << 20
    partition_bytes: int = 256 << 10
    partition_share: int = 16
    fetch_wait_ms: int = 500
    request_bytes: int = 4 << 20
    requests_in_flight: int = 4
    most_in_flight: int = 256
    bytes_in_flight: int = 48 << 20
    commit_interval: float = 0.003
    transaction_age: float = 0.4
    transaction_bytes: int = 128 << 20
    idle_commit: float = 1.0
    delivery_timeout: float = 20.0
    retry_stopped: float = 5.0
    look_paused: float = 2.0


ANY_SIZE = 1 << 31
UNKNOWN = -1
"""A position that is not read yet."""


class Answers:
    """When a source broker last answered a fetch session: ``at``, monotonic. All partitions that it asks for share it:
    what an answer leaves out has not changed (KIP-227)."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = 0.0


class Phase(StrEnum):
    """STARTING: the position is not read or not checked. STOPPED: a condition holds it. PAUSED: somebody asked for it.
    LEAVING: no longer ours."""

    STARTING = "starting"
    COPYING = "copying"
    STOPPED = "stopped"
    PAUSED = "paused"
    LEAVING = "leaving"


class Passed:
    """Records of one partition that were filtered out, counted once the position has passed them. Each entry: the
    offset after a source batch, and how many of it were left out and why."""

    __slots__ = ("_waiting", "filtered", "returning")

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int, int]] = deque()
        self.filtered = 0
        self.returning = 0

    def add(self, next_offset: int, filtered: int, returning: int) -> None:
        if filtered or returning:
            self._waiting.append((next_offset, filtered, returning))

    def forget_beyond(self, offset: int) -> None:
        """The fetch position fell back to ``offset``: what lies behind it is read again."""
        while self._waiting and self._waiting[-1][0] > offset:
            self._waiting.pop()

    def committed(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            _, filtered, returning = self._waiting.popleft()
            self.filtered += filtered
            self.returning += returning


@dataclass(slots=True, eq=False)
class Piece:
    """One batch to produce. ``source`` is set while its bytes are the source's own and their checksum is not verified.
    ``next_offset``: the position once it is acknowledged. ``copied``: its records in source offsets. ``sequence`` is -1
    until it is sealed. ``hole``: the first offset of a hole that is to be filled, -1 for records."""

    raw: memoryview
    records: int
    next_offset: int
    leader_epoch: int
    timestamp: int
    copied: Spans
    source: Batch | None = None
    buffer: Buffer | None = None
    sequence: int = -1
    sent_at: float = 0.0
    hole: int = -1

    @classmethod
    def of_hole(cls, first: int, next_offset: int, timestamp: int) -> Piece:
        """Nothing to send: offsets that have to be filled."""
        stamp = timestamp if timestamp >= 0 else int(time.time() * 1000)
        return cls(memoryview(b""), 0, next_offset, -1, stamp, (), hole=first)

    @classmethod
    def whole(cls, raw: memoryview, batch: Batch, buffer: Buffer | None = None, source: Batch | None = None) -> Piece:
        """All records of a source batch. Where ``raw`` lies in ``buffer``, the piece holds it."""
        if buffer is not None:
            buffer.hold()
        figures = (batch.records, batch.next_offset, batch.leader_epoch, batch.base_timestamp)
        return cls(raw, *figures, ((batch.base, batch.records),), source, buffer)

    @classmethod
    def made(cls, rebuilt: Rebuilt, last: Batch, timestamp: int) -> Piece:
        """Records of source batches up to ``last``."""
        figures = (rebuilt.records, rebuilt.next_offset, last.leader_epoch, timestamp)
        return cls(memoryview(rebuilt.raw), *figures, rebuilt.spans)

    def drop(self) -> None:
        buffer, self.buffer = self.buffer, None
        if buffer is not None:
            buffer.release()


@dataclass(slots=True, eq=False)
class Partition:
    """One source partition on its way.

    committed <= reached <= covered, in source offsets: committed at the target, acknowledged in this transaction,
    fetched. ``queue`` holds batches not sealed yet, ``unacked`` sealed ones in order of their sequences, ``resend``
    those of them that have to be sent again. ``pausing``: a pause is asked for; ``left_waiting``: the timestamp of the
    oldest record that a pause or a stop leaves at the source, if known, else when it was first seen. ``checking``:
    checksums are looked at before anything is queued, to leave out corrupt batches. ``largest``: bytes of a batch that
    the target is known to take; a larger one is tried again from ``larger_at`` on. ``sought``: the same for all below
    the source offset ``sought_to``, where a refused record is looked for. ``held_at``: the position at which copying
    itself failed, None where the condition is one that the look before copying judges (``hold``). ``end_at``: when the
    source told ``end``; a session that fetches it has ``answers``; ``silent_since_ms``: since when it tells no more.
    ``filling``: the hole at the head of ``queue`` is being filled.
    ``leader_epoch``: the largest of what was acknowledged, ``covered_epoch``: of what was fetched. ``doubted``: where a
    batch was expected, and the base offset that the last answer told instead.
    """

    spec: PartitionSpec
    copied: Copied = field(default_factory=Copied)
    phase: Phase = Phase.STARTING
    topic_id: UUID = NO_ID
    committed: int = -1
    reached: int = -1
    covered: int = -1
    end: int = -1
    end_at: float = 0.0
    answers: Answers | None = None
    silent_since_ms: int | None = None
    leader_epoch: int = -1
    covered_epoch: int = -1
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
    waits_since: float = 0.0  # for its source to serve it
    read_from: tuple[int, float] = (-1, 0.0)
    largest: int = ANY_SIZE
    larger_at: float = float("inf")
    sought: int = ANY_SIZE
    sought_to: int = -1
    gathers: bool = False
    strikes: int = 0
    retry_at: float = 0.0
    pausing: bool = False
    look_at: float = 0.0
    left_waiting: int | None = None
    records: int = 0
    bytes: int = 0
    open_records: int = 0
    open_bytes: int = 0
    waiting_since: int | None = None
    condition: Condition | None = None
    held_at: int | None = None
    why: str = ""
    worker: RecordWorker | None = None
    marked: tuple[int, int] | None = None
    passed: Passed = field(default_factory=Passed)
    lost: LossCounter = field(default_factory=LossCounter)
    checking: bool = False
    doubted: tuple[int, int] = (-1, -1)
    served: int = 0
    filling: bool = False

    @property
    def source(self) -> Key:
        return (self.spec.topic, self.spec.partition)

    @property
    def target(self) -> Key:
        return (self.spec.target_topic, self.spec.partition)

    @property
    def position_id(self) -> str:
        """The topic id that goes with its position; empty, as after a seek, until the map knows the position."""
        return self.spec.topic_id if self.copied.anchored else ""

    @property
    def idle(self) -> bool:
        """Nothing fetched is waiting for an acknowledgement, and no hole is being filled."""
        return not self.queue and not self.unacked and not self.filling

    def hold(self, condition: Condition | None, at: int | None = None) -> None:
        """``at``: the position at which copying failed, ``UNKNOWN`` before it is read. Such a condition stays while the
        same is tried again, and ends once the position is another one."""
        self.condition, self.held_at = condition, at

    def moved(self, position: int) -> None:
        """``position``: where it stands now."""
        if self.held_at == UNKNOWN:
            self.held_at = position
        elif self.held_at != position:
            self.hold(None)

    @property
    def reworked(self) -> str:
        """Why its last records were encoded anew, or empty while whole batches travel."""
        if self.worker is not None:
            return self.worker.reason
        return self.why if self.phase is Phase.COPYING else ""

    @property
    def heard_at(self) -> float:
        """Monotonic: until when ``end`` is known to be the end."""
        fetched = self.answers is not None and self.phase is Phase.COPYING
        return max(self.end_at, self.answers.at) if fetched and self.answers is not None else self.end_at

    @property
    def caught_up(self) -> bool:
        return not self.queue and self.covered >= self.end

    def largest_at(self, offset: int) -> int:
        """Bytes of a batch that begins at a source offset."""
        return self.sought if offset < self.sought_to else self.largest

    def planned(self) -> int:
        """The position once all that was sent is acknowledged."""
        return self.covered if not self.queue else self._sent()

    def epoch_at(self, position: int) -> int:
        """The largest leader epoch before ``position``, which was reached, planned or covered (KIP-320).

        An epoch that is too small would make the position look like one that the source has lost.
        """
        if position >= self.covered:
            return max(self.leader_epoch, self.covered_epoch)
        sent = (piece.leader_epoch for piece in self.unacked if piece.next_offset <= position)
        return max((self.leader_epoch, *sent))

    def drop_unsent(self) -> int:
        """Forgets what was fetched and not sent; returns its bytes. The fetch position falls back accordingly."""
        dropped = 0
        for piece in self.queue:
            dropped += len(piece.raw)
            piece.drop()
        self.queue.clear()
        self.queued_bytes -= dropped
        self.covered_epoch = self.epoch_at(self._sent()) if dropped else self.covered_epoch
        self.covered = self._sent()
        self.passed.forget_beyond(self.covered)
        self.lost.forget_beyond(self.covered)
        return dropped

    def _sent(self) -> int:
        return self.unacked[-1].next_offset if self.unacked else self.reached
