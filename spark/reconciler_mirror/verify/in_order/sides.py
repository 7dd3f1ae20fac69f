"""One side of a walk: its pieces in order, and the current batch or records.

A batch is kept while pairs of records are compared, and decoded once the walk has to search for records.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.records.batches import Batch, CorruptBatchError
from reconciler_mirror.verify.in_order.pairs import OpenBatch, opened

AHEAD_BYTES = 64 << 20
"""Most bytes of records to read ahead."""


class SeenRecord(NamedTuple):
    """A record for comparison: equal contents are equal records."""

    offset: int
    timestamp: int
    content: bytes


@dataclass(frozen=True, slots=True)
class SidePiece:
    """Consecutive records of one side. ``header`` and ``view``: of their batch, valid until the next piece is read;
    None without a batch. ``decoded``: returns the records within the bounds, or raises NotOpenedError. ``whole``: the
    bounds include the whole batch."""

    decoded: Callable[[], list[SeenRecord]]
    header: Batch | None = None
    view: memoryview | None = None
    whole: bool = False


class NotOpenedError(Exception):
    """Our code cannot open a batch: librdkafka has to read it, or to report its defect."""


Content = tuple[int, int, bytes]
"""Equal for equal records: offset (0 if copies have others), timestamp (0 if not compared), bytes."""


@dataclass(slots=True)
class ComparedSide:
    """One side of a walk. ``at``: the next offset to compare.

    The walk compares ``batch`` by pairs. Without a batch it compares the records of ``offsets`` and ``contents`` from
    ``next`` on; the last of them come from batch ``last``.
    """

    pieces: Iterator[SidePiece]
    at: int
    contents_of: Callable[[SeenRecord], Content]
    batch: OpenBatch | None = None
    offsets: list[int] = field(default_factory=list)
    contents: list[Content] = field(default_factory=list)
    next: int = 0
    bytes: int = 0
    last: OpenBatch | None = None
    ahead: SidePiece | None = None
    records: int = 0

    @property
    def left(self) -> int:
        return len(self.offsets) - self.next

    @property
    def between(self) -> bool:
        """Whether the walk is between two pieces."""
        return self.batch is None and not self.left

    def peek(self) -> SidePiece | None:
        if self.ahead is None:
            self.ahead = next(self.pieces, None)
        return self.ahead

    def fill(self) -> bool:
        """Takes the next piece if necessary. False at the end."""
        while self.between:
            if (piece := self.peek()) is None:
                return False
            self._take(piece)
        return True

    def _take(self, piece: SidePiece) -> None:
        self.batch = _opened(piece)
        if self.batch is None:
            self._add(piece.decoded(), None)
        self.ahead = None

    def _add(self, items: Sequence[SeenRecord], batch: OpenBatch | None) -> None:
        if not self.left:
            self.offsets, self.contents, self.next, self.bytes = [], [], 0, 0
        self.offsets += [item.offset for item in items]
        self.contents += map(self.contents_of, items)
        self.bytes += sum(len(item.content) for item in items)
        self.last = batch

    def loosen(self) -> None:
        """Decodes the rest of the batch into records."""
        if (batch := self.batch) is None:
            return
        try:
            items = [SeenRecord(record.offset, record.timestamp, record.tail.tobytes()) for record in batch.decoded()]
        except MalformedResponseError:
            raise NotOpenedError from None
        self.batch = None
        self._add(items, batch)

    @property
    def by_pairs(self) -> bool:
        """Whether all records read so far lie in one batch, so that pairs can be compared."""
        return self.batch is not None or (self.last is not None and 0 < self.left <= self.last.batch.records)

    def tighten(self) -> None:
        """Back to a batch; see ``by_pairs``."""
        if self.batch is None and self.last is not None:
            self.batch = self.last.at(self.last.batch.records - self.left)
            self.offsets, self.contents, self.next, self.last = [], [], 0, None

    def look_ahead(self, count: int) -> bool:
        """Reads ahead until ``count`` records are known, or all. False if they exceed ``AHEAD_BYTES``."""
        self.loosen()
        while self.left < count and (piece := self.peek()) is not None:
            if self.bytes > AHEAD_BYTES:
                return False
            self._take(piece)
            self.loosen()
        return True

    def passed(self, count: int) -> None:
        """Passes ``count`` of the known records."""
        if count:
            self.at = self.offsets[self.next + count - 1] + 1
            self.next += count
            self.records += count

    def behind(self, count: int) -> int | None:
        """The offset of the record after the next ``count``, if known."""
        at = self.next + count
        return self.offsets[at] if at < len(self.offsets) else None


def _opened(piece: SidePiece) -> OpenBatch | None:
    if not piece.whole or piece.view is None or piece.header is None:
        return None
    try:
        return opened(piece.view, piece.header)
    except (CorruptBatchError, MalformedResponseError):
        raise NotOpenedError from None
