"""Pieces of fetched batches for a copy at the same offsets: records to send, and holes between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.kafka.client.buffers import Buffer
from reconciler.kafka.records.batches import Batch, why_not_whole
from reconciler.kafka.records.codecs import TooMuchToOpenError
from reconciler.kafka.records.records import fitting, gather
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.produce.outbox import Piece
from reconciler_mirror.lane.same_offsets.place import SamePartition
from reconciler_mirror.lane.same_offsets.segments import Hole, Run, Segment, Whole, segments, split

GATHERED_BELOW = 32


def pieces_at_offsets(
    partition: Partition,
    same: SamePartition,
    view: memoryview,
    batches: Sequence[tuple[Batch, bool]],
    buffer: Buffer | None,
) -> tuple[list[Piece], int]:
    """(pieces in offset order, the offset after them). What the target has already is passed over and counted; then
    ``partition.log.reached`` moves, of which nothing is queued. What lies before a batch that cannot be read is copied.

    Raises CorruptBatchError or MalformedResponseError where that batch is the first.
    """
    pieces = _whole_ones(partition, same, view, batches, buffer)
    covered = pieces[-1].next_offset if pieces else partition.log.covered
    small: list[Batch] = []
    partition.hold.why = "small batches gathered" if partition.sizes.gathers else ""
    try:
        for segment in _segments(partition, same, view, batches[len(pieces) :], covered):
            for part in _new(partition, same, view, segment):
                if isinstance(part, Whole) and partition.sizes.gathers and part.records <= GATHERED_BELOW:
                    small.append(part.batch)
                    continue
                pieces += _gathered(partition, view, small, buffer)
                pieces += _pieces(partition, view, part, buffer)
            covered = segment.next_offset
        pieces += _gathered(partition, view, small, buffer)
    except BaseException as error:
        covered = pieces[-1].next_offset if pieces else small[0].base if small else covered
        if covered == partition.log.covered or not isinstance(error, Exception):
            for piece in pieces:
                piece.drop()
            raise
    return pieces, covered


def _whole_ones(
    partition: Partition,
    same: SamePartition,
    view: memoryview,
    batches: Sequence[tuple[Batch, bool]],
    buffer: Buffer | None,
) -> list[Piece]:
    """The batches that come before the first that is anything but the next one, to be sent as it is: of most sources
    all."""
    pieces: list[Piece] = []
    at = partition.log.covered
    if partition.sizes.gathers or same.left_out or same.place is None or not same.place.level:
        return pieces
    for batch, delivered in batches:
        if not delivered or batch.base != at or why_not_whole(batch, at, partition.sizes.at(at), append_time=True):
            break
        pieces.append(Piece.whole(view[batch.start : batch.end], batch, buffer, batch))
        at = batch.next_offset
    return pieces


def _segments(
    partition: Partition,
    same: SamePartition,
    view: memoryview,
    batches: Sequence[tuple[Batch, bool]],
    position: int,
) -> Iterator[Segment]:
    def opened(batch: Batch) -> str | None:
        return why_not_whole(batch, position, partition.sizes.at(batch.base), append_time=True)

    return segments(view, batches, position, opened, same.left_out)


def _new(partition: Partition, same: SamePartition, view: memoryview, segment: Segment) -> list[Segment]:
    """What of it the target does not have yet."""
    place = same.place
    if place is None or place.level:
        return [segment]
    rest: list[Segment] = []
    if segment.next_offset > place.look.end:
        segment, after = split(view, segment, place.look.end)
        rest = [after]
    absent = isinstance(segment, Hole) and segment.absent
    place = place.seen(segment.records, segment.first, segment.next_offset, absent=absent)
    if place.level:
        same.displaced = place.displaced or place.unproved
        place = place.settled()
        partition.outbox.begin_sequence(place.look.next_sequence)
    same.place = place
    partition.log.place(place.reached)
    return rest


def _pieces(partition: Partition, view: memoryview, segment: Segment, buffer: Buffer | None) -> Iterator[Piece]:
    match segment:
        case Hole(first, after, timestamp):
            yield Piece.of_hole(first, after, timestamp)
        case Whole(batch):
            yield Piece.whole(view[batch.start : batch.end], batch, buffer, batch)
        case Run(batch, codec, members):
            largest = partition.sizes.at(segment.first)
            partition.hold.why = why_not_whole(batch, segment.first, largest, append_time=True) or "offsets kept"
            for rebuilt in fitting(members, codec, largest, segment.next_offset):
                yield Piece.made(rebuilt, batch, batch.max_timestamp)


def _gathered(partition: Partition, view: memoryview, small: list[Batch], buffer: Buffer | None) -> list[Piece]:
    """Empties ``small``, whose offsets follow each other."""
    batches = small[:]
    small.clear()
    if not batches:
        return []
    largest = partition.sizes.at(batches[0].base)
    try:
        return [Piece.made(part, last, last.max_timestamp) for part, last in gather(view, batches, largest)]
    except TooMuchToOpenError:  # they need not be opened
        return [Piece.whole(view[batch.start : batch.end], batch, buffer, batch) for batch in batches]
