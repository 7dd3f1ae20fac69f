"""Pieces of a flow that filters records or adds headers: records gathered into big batches."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.kafka.client.buffers import Buffer
from reconciler.kafka.records.add_headers import with_headers_added
from reconciler.kafka.records.batches import Batch, why_not_whole
from reconciler.kafka.records.records import (
    GATHER_BYTES,
    GATHER_OPENED,
    GATHER_RECORDS,
    Record,
    codec_of,
    fitting,
    records_of,
)
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.produce.outbox import Piece
from reconciler_mirror.record_work.on_bytes import RecordWorker

WHOLE_ABOVE = 32


def worked_pieces(
    partition: Partition, worker: RecordWorker, fetched: tuple[memoryview, list[Batch]], buffer: Buffer | None
) -> Iterator[Piece]:
    """In offset order. What is left out is noted in ``partition.figures.passed``; the last piece may end before it."""
    view, wanted = fetched
    gathering = _Gathering(partition.sizes.at(wanted[0].base))
    for batch in wanted:
        if worker.always_added is not None and batch.records > WHOLE_ABOVE:
            longer = _extended(view, batch, worker.always_added, (partition.log.covered, gathering.largest))
            if longer is not None:
                yield from gathering.flush()
                yield Piece.whole(memoryview(longer), batch)
                continue
        records = [record for record in records_of(view, batch) if record.offset >= partition.log.covered]
        done = worker.apply(records)
        partition.figures.passed.add(batch.next_offset, done.filtered, done.returning)
        untouched = not done.changed and batch.records > WHOLE_ABOVE
        if untouched and why_not_whole(batch, partition.log.covered, gathering.largest, append_time=True) is None:
            yield from gathering.flush()
            yield Piece.whole(view[batch.start : batch.end], batch, buffer)
        else:
            yield from gathering.add((batch, codec_of(view, batch)), done.kept, len(records))
    yield from gathering.flush()


def _extended(view: memoryview, batch: Batch, added: tuple[int, bytes], bounds: tuple[int, int]) -> bytearray | None:
    """The batch with headers added to every record; None where it has to be taken apart. ``bounds``: the position, and
    the most bytes of a batch."""
    position, largest = bounds
    if why_not_whole(batch, position, largest, append_time=True) is not None:
        return None
    raw = with_headers_added(view, batch, *added)
    return raw if len(raw) <= largest else None


class _Gathering:
    """Records of consecutive source batches that will share a batch."""

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self._records: list[Record] = []
        self._size = 0.0
        self._opened = 0
        self._codec = -1
        self._last: Batch | None = None

    def add(self, source: tuple[Batch, int], kept: list[Record], of: int) -> Iterator[Piece]:
        """``source``: a batch and its codec; ``of``: how many of its records were looked at."""
        batch, codec = source
        if self._records and kept and codec != self._codec:
            yield from self.flush()
        if len(kept) * 2 < of:  # or the few would keep the memory of all
            kept = [record._replace(tail=memoryview(bytes(record.tail))) for record in kept]
        self._records += kept
        if self._records:
            self._last = batch
            self._codec = codec if kept else self._codec
            self._size += (batch.end - batch.start) * len(kept) / max(1, of)
            self._opened += sum(len(record.tail) for record in kept) if codec else 0
        full = self._size >= min(GATHER_BYTES, self.largest // 2) or len(self._records) >= GATHER_RECORDS
        if full or self._opened >= GATHER_OPENED:
            yield from self.flush()

    def flush(self) -> Iterator[Piece]:
        last, records = self._last, self._records
        self._records, self._size, self._opened, self._last = [], 0.0, 0, None
        if last is None:
            return
        for rebuilt in fitting(records, self._codec, self.largest, last.next_offset):
            yield Piece.made(rebuilt, last, records[0].timestamp)
