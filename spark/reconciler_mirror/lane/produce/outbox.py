"""What of one partition is on its way to the target: pieces that are queued, sent and unacknowledged, and how large a
batch the target takes. Mutable, owned by the event loop of its lane; it knows no connections.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from reconciler.kafka.client.buffers import Buffer
from reconciler.kafka.records.batches import Batch
from reconciler.kafka.records.records import Rebuilt
from reconciler_mirror.lane.copied_runs import Spans

ANY_SIZE = 1 << 31
"""No limit is known: as many bytes as a batch can have at all."""
MARKER = 1
"""Offsets that a committed transaction leaves behind its last record."""


@dataclass(slots=True, eq=False)
class Piece:
    """One batch to produce. ``source`` is set while its bytes are the source's own and their checksum is not verified.
    ``next_offset``: the position once it is acknowledged. ``copied``: its records in source offsets. ``sequence`` is -1
    until it is sealed. ``hole``: the first offset of a hole that is to be filled, -1 for records. ``last``: the source
    batch that it ends in."""

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
    last: Batch | None = None

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
        return cls(raw, *figures, ((batch.base, batch.records),), source, buffer, last=batch)

    @classmethod
    def made(cls, rebuilt: Rebuilt, last: Batch, timestamp: int) -> Piece:
        """Records of source batches up to ``last``."""
        figures = (rebuilt.records, rebuilt.next_offset, last.leader_epoch, timestamp)
        return cls(memoryview(rebuilt.raw), *figures, rebuilt.spans, last=last)

    def drop(self) -> None:
        buffer, self.buffer = self.buffer, None
        if buffer is not None:
            buffer.release()


@dataclass(slots=True, eq=False)
class Outbox:
    """What is on its way to the target. Sequences follow each other over ``unacked``, then over ``queue`` as its pieces
    are sealed. ``resend`` is the part of ``unacked`` that has to be sent again."""

    queue: deque[Piece] = field(default_factory=deque)
    """Not sealed yet, in offset order."""
    unacked: deque[Piece] = field(default_factory=deque)
    """Sealed, in order of their sequences, until an answer says that they are written."""
    resend: deque[Piece] = field(default_factory=deque)
    """Of ``unacked``, in their order; before anything of ``queue``."""
    outstanding: int = 0
    """Requests under way that have a piece of it; the sender counts."""
    queued_bytes: int = 0
    """Of ``queue`` and ``unacked``."""
    sequence: int = 0
    """Of the next piece that is sealed."""
    first_acked: bool = False
    """The target's leader knows our producer, so it refuses what is out of order."""
    failure: tuple[int, str] | None = None
    """Error code and message of the oldest piece that failed; nothing is sent until all requests are answered."""
    ready: bool = False
    """A sender has it in line."""
    served: int = 0
    """Bytes sealed, as a rate limit compares them: a newcomer begins at the count of the partition served last."""
    stalled_since: float = 0.0
    """When the target's leader first could not be reached, 0.0 while it can."""
    target_end: int = -1
    """Where this lane's next batch is expected in the target's log; -1 while not known. A log that goes back was
    recreated, or lost records; one that is further has markers, aborted batches, or records of others."""
    marker_due: bool = False
    """The open transaction has a batch of it, so its end takes an offset."""
    filling: bool = False
    """The hole at the head of ``queue`` is being filled, or was when the queue was dropped."""

    @property
    def idle(self) -> bool:
        """Nothing fetched is waiting for an acknowledgement, and no hole is being filled."""
        return not self.queue and not self.unacked and not self.filling

    @property
    def oldest_ms(self) -> int | None:
        """Timestamp of the first piece that is not sealed."""
        return self.queue[0].timestamp if self.queue else None

    def add(self, pieces: list[Piece]) -> int:
        """Returns their bytes."""
        size = sum(len(piece.raw) for piece in pieces)
        self.queue.extend(pieces)
        self.queued_bytes += size
        return size

    def acknowledge(self) -> int:
        """The oldest piece is written. Returns its bytes."""
        self.first_acked = True
        self.stalled_since = 0.0
        return self.settle_oldest()

    def settle_oldest(self) -> int:
        """The oldest piece is no more on its way. Returns its bytes."""
        piece = self.unacked.popleft()
        size = len(piece.raw)
        piece.drop()
        self.queued_bytes -= size
        return size

    def expects(self, offset: int) -> None:
        """This lane's next batch belongs at ``offset`` of the target's log."""
        self.target_end = offset

    def appended(self, base: int, records: int, *, transactional: bool) -> tuple[int, int] | None:
        """A batch was written at ``base``, below 0 where the answer does not say. Returns the offsets before it that
        this lane has not written, if there are any."""
        gap = (self.target_end, base) if 0 <= self.target_end < base else None
        self.target_end = base + records if base >= 0 else -1
        self.marker_due = self.marker_due or transactional
        return gap

    def transaction_ended(self) -> None:
        """Its marker takes an offset of each log that has a batch of it."""
        if self.marker_due and self.target_end >= 0:
            self.target_end += MARKER
        self.marker_due = False

    def stalled(self) -> float:
        """The target's leader cannot be reached. Returns for how many seconds now."""
        now = time.monotonic()
        self.stalled_since = self.stalled_since or now
        return now - self.stalled_since

    def reached(self) -> None:
        self.stalled_since = 0.0

    def take_back(self) -> None:
        """What is unacknowledged was refused, so not written: its sequences were not used."""
        if self.unacked:
            self.sequence = self.unacked[0].sequence
        self.resend.clear()

    def drop_queue(self) -> int:
        """Returns the bytes that were dropped."""
        dropped = 0
        for piece in self.queue:
            dropped += len(piece.raw)
            piece.drop()
        self.queue.clear()
        self.queued_bytes -= dropped
        return dropped

    def begin_sequence(self, sequence: int, *, known: bool | None = None) -> None:
        """``known``: whether the target's leader knows our producer; None: as before."""
        self.sequence = sequence
        if known is not None:
            self.first_acked = known


@dataclass(slots=True, eq=False)
class BatchSizes:
    """How large batches to the target may be, in bytes."""

    largest: int = ANY_SIZE
    """The target is known to take so large a batch, or any."""
    larger_at: float = float("inf")
    """When a larger one is tried again: the target's limit may have been raised."""
    sought: int = ANY_SIZE
    """The same below the source offset ``sought_to``, where a refused record is looked for."""
    sought_to: int = -1
    gathers: bool = False
    """Small source batches are put together; the sorting of fetched batches decides."""

    def at(self, offset: int) -> int:
        """Most bytes of a batch that begins at a source offset."""
        return self.sought if offset < self.sought_to else self.largest

    def refused(self, size: int, pause: float) -> None:
        """The target took no batch of ``size``; after ``pause`` seconds one is tried again."""
        self.largest, self.larger_at = size // 2, time.monotonic() + pause

    def seek(self, size: int, next_offset: int) -> None:
        """A batch of ``size`` before ``next_offset`` has a record that the target refuses."""
        self.sought, self.sought_to = size // 2, max(self.sought_to, next_offset)

    def try_larger(self) -> None:
        """Once it is time."""
        if self.largest < ANY_SIZE and time.monotonic() >= self.larger_at:
            self.largest = ANY_SIZE
