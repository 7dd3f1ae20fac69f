"""What to do with each batch that was fetched: send it whole, rebuild it record by record, gather it, or skip it."""

from __future__ import annotations

import time
from collections.abc import Iterator

from mirror.batch_partition import ANY_SIZE, Partition, Piece
from mirror.batch_worked import worked_pieces
from mirror.losses import Loss
from wire.batches import Batch, CommittedFilter, CorruptBatchError, scan, verify, why_not_whole
from wire.buffers import Buffer
from wire.fetch_answers import FetchedPartition
from wire.records import gather, rebuild

GATHER_BELOW, WHOLE_ABOVE = 16.0, 32.0


def pieces_of(partition: Partition, answer: FetchedPartition, buffer: Buffer | None) -> tuple[list[Piece], int]:
    """(pieces in offset order, the offset after all that was looked at). Pieces of source bytes hold ``buffer``.

    Raises CorruptBatchError or MalformedResponseError before anything of the partition's answer is queued.
    """
    view = answer.records
    keep = CommittedFilter(view, answer.aborted)
    covered = partition.covered
    wanted: list[Batch] = []
    found = scan(view)
    partition.lost.forget_beyond(covered)
    for batch in sound(partition, view, found, answer.high_watermark) if partition.checking else found:
        if keep.delivers(batch) and batch.next_offset > covered:
            wanted.append(batch)
        covered = max(covered, batch.next_offset)
        partition.covered_epoch = max(partition.covered_epoch, batch.leader_epoch)
    if not wanted:
        return [], covered
    if partition.largest < ANY_SIZE and time.monotonic() >= partition.larger_at:
        partition.largest = ANY_SIZE
    _choose(partition, wanted)
    pieces: list[Piece] = []
    worker = partition.worker
    try:
        if worker is not None:
            partition.why = worker.reason
            pieces += worked_pieces(partition, worker, (view, wanted), buffer)
            return pieces, covered
        _add_pieces(pieces, partition, (view, wanted), buffer)
    except BaseException:
        for piece in pieces:
            piece.drop()
        raise
    return pieces, covered


def sound(partition: Partition, view: memoryview, found: list[Batch], end: int) -> Iterator[Batch]:
    """The batches whose checksum holds, the others as losses. Where a corrupt one ends is what the next one says; its
    own header is believed only at the end of what was fetched. ``end``: the log's."""
    for index, batch in enumerate(found):
        if batch.magic != 2 or batch.next_offset <= partition.covered:
            yield batch
            continue
        try:
            verify(view[batch.start : batch.end], batch)
            yield batch
        except CorruptBatchError as error:
            after = found[index + 1].base if index + 1 < len(found) else min(batch.next_offset, end)
            position = max(after, batch.base + 1)
            lost = position - max(batch.base, partition.covered)
            partition.lost.add(position, Loss("corrupt_source_batch", lost, batches=1, text=f"{error}"))
            yield batch._replace(records=0, attributes=0, last_delta=position - batch.base - 1)


def _choose(partition: Partition, wanted: list[Batch]) -> None:
    """Small batches cost more each than their records; the choice changes only when they are clearly small or big."""
    average = sum(batch.records for batch in wanted) / len(wanted)
    if partition.gathers:
        partition.gathers = average <= WHOLE_ABOVE
    else:
        partition.gathers = len(wanted) > 1 and average < GATHER_BELOW


def _add_pieces(
    pieces: list[Piece], partition: Partition, fetched: tuple[memoryview, list[Batch]], buffer: Buffer | None
) -> None:
    view, wanted = fetched
    position = partition.covered
    small: list[Batch] = []
    partition.why = "small batches gathered" if partition.gathers else ""
    for batch in wanted:
        largest = partition.largest_at(batch.base)
        why = why_not_whole(batch, position, largest, append_time=True)
        if why is None and partition.gathers and batch.records <= WHOLE_ABOVE:
            small.append(batch)
            continue
        if small:
            pieces += _gathered(view, small, largest)
            small = []
        if why is None:
            raw = view[batch.start : batch.end]
            if buffer is not None:
                buffer.hold()
            copied = ((batch.base, batch.records),)
            pieces.append(
                Piece(
                    raw,
                    batch.records,
                    batch.next_offset,
                    batch.leader_epoch,
                    batch.base_timestamp,
                    copied,
                    batch,
                    buffer,
                )
            )
        else:
            partition.why = "a refused record is looked for" if batch.base < partition.sought_to else why
            pieces += _rebuilt(view, batch, position, largest)
    pieces += _gathered(view, small, partition.largest_at(position))


def _gathered(view: memoryview, small: list[Batch], largest: int) -> list[Piece]:
    return [
        Piece(memoryview(made.raw), made.records, made.next_offset, last.leader_epoch, last.max_timestamp, made.spans)
        for made, last in gather(view, small, largest)
    ]


def _rebuilt(view: memoryview, batch: Batch, position: int, largest: int) -> list[Piece]:
    return [
        Piece(memoryview(made.raw), made.records, made.next_offset, batch.leader_epoch, batch.max_timestamp, made.spans)
        for made in rebuild(view, batch, position, largest)
    ]
