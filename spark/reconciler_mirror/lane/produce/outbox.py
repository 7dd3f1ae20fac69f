"""The pieces of one partition on their way to the target (queued, sent, unacknowledged), and the batch sizes that the
target takes. Mutable, owned by the event loop of its lane; it knows no connections.
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
"""No limit is known: more bytes than any batch can have."""
MARKER = 1
"""Offsets that the commit marker of a transaction takes after the last record."""


@dataclass(slots=True, eq=False)
class Piece:
    """One batch to produce. ``source``: set while the bytes are the source's own with an unverified CRC.
    ``next_offset``: the position once it is acknowledged. ``copied``: its records' source offsets. ``sequence``: -1
    before sealing. ``hole``: first offset of a hole to fill, -1 for records. ``last``: the source batch of its last
    record."""

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
        """A hole: offsets to fill, without records."""
        stamp = timestamp if timestamp >= 0 else int(time.time() * 1000)
        return cls(memoryview(b""), 0, next_offset, -1, stamp, (), hole=first)

    @classmethod
    def whole(cls, raw: memoryview, batch: Batch, buffer: Buffer | None = None, source: Batch | None = None) -> Piece:
        """A whole source batch. ``buffer``: the receive buffer with ``raw``, which the piece holds."""
        if buffer is not None:
            buffer.hold()
        figures = (batch.records, batch.next_offset, batch.leader_epoch, batch.base_timestamp)
        return cls(raw, *figures, ((batch.base, batch.records),), source, buffer, last=batch)

    @classmethod
    def made(cls, rebuilt: Rebuilt, last: Batch, timestamp: int) -> Piece:
        """A new batch, with records of source batches up to ``last``."""
        figures = (rebuilt.records, rebuilt.next_offset, last.leader_epoch, timestamp)
        return cls(memoryview(rebuilt.raw), *figures, rebuilt.spans, last=last)

    def drop(self) -> None:
        buffer, self.buffer = self.buffer, None
        if buffer is not None:
            buffer.release()


@dataclass(slots=True, eq=False)
class Outbox:
    """Pieces on their way to the target. Sequences are contiguous over ``unacked``, and continue in ``queue`` as its
    pieces are sealed. ``resend``: the part of ``unacked`` to send again."""

    queue: deque[Piece] = field(default_factory=deque)
    """Unsealed pieces, in offset order."""
    unacked: deque[Piece] = field(default_factory=deque)
    """Sealed and unacknowledged pieces, in order of their sequences."""
    resend: deque[Piece] = field(default_factory=deque)
    """Pieces of ``unacked`` to send again, in order, before any of ``queue``."""
    outstanding: int = 0
    """Requests in flight with a piece of this partition; the sender counts them."""
    queued_bytes: int = 0
    """Bytes of ``queue`` and ``unacked``."""
    sequence: int = 0
    """The next sequence to seal a piece with."""
    first_acked: bool = False
    """The target's leader knows this producer, so it refuses a batch out of order."""
    failure: tuple[int, str] | None = None
    """Error code and message of the oldest failed piece; nothing is sent until all requests are answered."""
    ready: bool = False
    """The partition is in a sender's queue."""
    served: int = 0
    """Sealed bytes, for fair shares of a rate limit; a new partition begins with the count of the one served last."""
    stalled_since: float = 0.0
    """Since when the target's leader cannot be reached, else 0.0."""
    target_end: int = -1
    """The expected target offset of this lane's next batch, -1 if unknown. A log that ends earlier was recreated or has
    lost records; one that ends later has markers, aborted batches, or records of others."""
    marker_due: bool = False
    """The open transaction has a batch of this partition, so its marker will take an offset."""
    filling: bool = False
    """The hole at the head of ``queue`` is being filled, or was when the queue was dropped."""

    @property
    def idle(self) -> bool:
        """No piece is queued or unacknowledged, and no hole is being filled."""
        return not self.queue and not self.unacked and not self.filling

    @property
    def oldest_ms(self) -> int | None:
        """Timestamp of the first unsealed piece."""
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
        """Removes the oldest piece. Returns its bytes."""
        piece = self.unacked.popleft()
        size = len(piece.raw)
        piece.drop()
        self.queued_bytes -= size
        return size

    def expects(self, offset: int) -> None:
        """This lane's next batch belongs at ``offset`` of the target's log."""
        self.target_end = offset

    def appended(self, base: int, records: int, *, transactional: bool) -> tuple[int, int] | None:
        """A batch was written at ``base``, below 0 if the answer has none. Returns the range of offsets before it that
        this lane has not written, if any."""
        gap = (self.target_end, base) if 0 <= self.target_end < base else None
        self.target_end = base + records if base >= 0 else -1
        self.marker_due = self.marker_due or transactional
        return gap

    def transaction_ended(self) -> None:
        """The transaction's marker takes an offset in each log with a batch of it."""
        if self.marker_due and self.target_end >= 0:
            self.target_end += MARKER
        self.marker_due = False

    def stalled(self) -> float:
        """Notes that the target's leader cannot be reached; returns for how many seconds that has lasted."""
        now = time.monotonic()
        self.stalled_since = self.stalled_since or now
        return now - self.stalled_since

    def reached(self) -> None:
        self.stalled_since = 0.0

    def take_back(self) -> None:
        """The target refused the unacknowledged pieces, so their sequences are free again."""
        if self.unacked:
            self.sequence = self.unacked[0].sequence
        self.resend.clear()

    def drop_queue(self) -> int:
        """Returns the dropped bytes."""
        dropped = 0
        for piece in self.queue:
            dropped += len(piece.raw)
            piece.drop()
        self.queue.clear()
        self.queued_bytes -= dropped
        return dropped

    def begin_sequence(self, sequence: int, *, known: bool | None = None) -> None:
        """``known``: whether the target's leader knows this producer; None: as before."""
        self.sequence = sequence
        if known is not None:
            self.first_acked = known


@dataclass(slots=True, eq=False)
class BatchSizes:
    """Limits of the batches to the target, in bytes."""

    most: int = ANY_SIZE
    """What the target's service takes at most, whatever a topic allows."""
    largest: int = ANY_SIZE
    """The largest batch to send."""
    larger_at: float = float("inf")
    """When to try a larger batch again: the target's limit may have been raised."""
    sought: int = ANY_SIZE
    """The largest batch before source offset ``sought_to``, while the sender isolates a refused record."""
    sought_to: int = -1
    gathers: bool = False
    """Small source batches are gathered into larger ones; the sorting of fetched batches decides."""

    def at(self, offset: int) -> int:
        """Most bytes of a batch from source offset ``offset`` on."""
        return self.sought if offset < self.sought_to else self.largest

    def refused(self, size: int, pause: float) -> None:
        """The target refused a batch of ``size`` as too large; another try follows after ``pause`` seconds."""
        self.largest, self.larger_at = size // 2, time.monotonic() + pause

    def seek(self, size: int, next_offset: int) -> None:
        """The target refuses a record in a batch of ``size`` bytes that ends at ``next_offset``."""
        self.sought, self.sought_to = size // 2, max(self.sought_to, next_offset)

    def try_larger(self) -> None:
        """Lifts the limit if ``larger_at`` has come."""
        if self.largest < self.most and time.monotonic() >= self.larger_at:
            self.largest = self.most
