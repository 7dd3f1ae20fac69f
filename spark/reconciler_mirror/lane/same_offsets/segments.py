"""Splits a range of the source's log into segments for a copy at the same offsets: records to append, holes to fill.

A hole is a run of offsets without a record for committed readers: control markers, aborted records, records removed by
compaction. The target's leader assigns offsets without gaps, so a batch with holes is split into batches without any,
and each hole is filled with as many offsets. ``pieces_at_offsets`` makes pieces to produce from the segments of fetched
batches.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from reconciler.kafka.client.buffers import Buffer
from reconciler.kafka.records.batches import Batch, why_not_whole
from reconciler.kafka.records.records import Record, codec_of, fitting, records_of
from reconciler_mirror.lane.fetch.pieces import gathered
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.produce.outbox import Piece
from reconciler_mirror.lane.same_offsets.place import SamePartition


class Hole(NamedTuple):
    """Offsets ``first`` to ``next_offset`` - 1. ``timestamp``: of the source's batch there, -1 without one. ``absent``:
    the source has no records there, because compaction or another cleanup has removed them."""

    first: int
    next_offset: int
    timestamp: int = -1
    absent: bool = False

    @property
    def records(self) -> int:
        return 0


class Whole(NamedTuple):
    """A batch that travels unchanged."""

    batch: Batch

    @property
    def first(self) -> int:
        return self.batch.base

    @property
    def next_offset(self) -> int:
        return self.batch.next_offset

    @property
    def records(self) -> int:
        return self.batch.records


class Run(NamedTuple):
    """Records of ``batch`` at consecutive offsets."""

    batch: Batch
    codec: int
    members: list[Record]

    @property
    def first(self) -> int:
        return self.members[0].offset

    @property
    def next_offset(self) -> int:
        return self.members[-1].offset + 1

    @property
    def records(self) -> int:
        return len(self.members)


Segment = Hole | Whole | Run
WhyOpened = Callable[[Batch], str | None]
"""The reason to decode a batch; None: it may travel unchanged."""


def segments(
    view: memoryview,
    batches: Iterable[tuple[Batch, bool]],
    position: int,
    opened: WhyOpened,
    left_out: Collection[int] = (),
) -> Iterator[Segment]:
    """Segments of all offsets from ``position`` to the end of the last batch, in order and without gaps.

    ``batches``: of one answer in order, each with whether committed readers get it. ``left_out``: offsets of records
    that become holes. Raises CorruptBatchError and MalformedResponseError for a batch that must be decoded but cannot.
    """
    # Adjacent holes are merged: each run of fillers costs a request and a marker of its own.
    hole: Hole | None = None
    for segment in _segments(view, batches, position, opened, left_out):
        if isinstance(segment, Hole):
            if hole is not None:
                timestamp = max(hole.timestamp, segment.timestamp)
                segment = Hole(hole.first, segment.next_offset, timestamp, hole.absent or segment.absent)
            hole = segment
            continue
        if hole is not None:
            yield hole
            hole = None
        yield segment
    if hole is not None:
        yield hole


def _segments(
    view: memoryview,
    batches: Iterable[tuple[Batch, bool]],
    position: int,
    opened: WhyOpened,
    left_out: Collection[int],
) -> Iterator[Segment]:
    """Segments before adjacent holes are merged. Compaction leaves holes between batches, where it removed whole ones,
    and within batches; a batch that no committed reader gets (control, aborted) is a hole as well."""
    at = position
    for batch, delivered in batches:
        if batch.next_offset <= at:
            continue
        if batch.magic < 2:  # a wrapper has the offset of its last record
            yield from _opened(view, batch, at, left_out)
            at = batch.next_offset
            continue

        # No batch has the offsets between batches. Compaction empties an undelivered batch, too, but keeps its offsets.
        if batch.base > at:
            yield Hole(at, batch.base, absent=True)
            at = batch.base
        if not delivered:
            yield Hole(at, batch.next_offset, batch.max_timestamp, absent=batch.records == 0)
            at = batch.next_offset
            continue

        # A batch travels whole if it has every offset, none is to be left out, and no reason asks for its records.
        dense = batch.records == batch.last_delta + 1 and batch.base >= at
        kept = not any(batch.base <= offset < batch.next_offset for offset in left_out)
        if dense and kept and opened(batch) is None:
            yield Whole(batch)
        else:
            yield from _opened(view, batch, at, left_out)
        at = batch.next_offset


def _opened(view: memoryview, batch: Batch, at: int, left_out: Collection[int]) -> Iterator[Segment]:
    """A decoded batch as runs of consecutive records and the holes between them, from ``at`` on. A broker assigns
    consecutive offsets to the records of a batch, so a batch is split at its gaps. ``left_out``: offsets of records
    that the target refuses; they become holes, too."""
    codec = codec_of(view, batch)
    run: list[Record] = []
    for record in records_of(view, batch):
        if record.offset < at or record.offset in left_out:
            continue
        if run and record.offset != run[-1].offset + 1:
            yield Run(batch, codec, run)
            at = run[-1].offset + 1
            run = []
        if not run and record.offset > at:
            yield Hole(at, record.offset, batch.max_timestamp, absent=True)
            at = record.offset
        run.append(record)
    if run:
        yield Run(batch, codec, run)
        at = run[-1].offset + 1
    if at < batch.next_offset:
        yield Hole(at, batch.next_offset, batch.max_timestamp, absent=True)


def split(view: memoryview, segment: Segment, at: int) -> tuple[Segment, Segment]:
    """Splits ``segment`` in two at source offset ``at``, the first offset of the second part."""
    match segment:
        case Hole(first, after, timestamp, absent):
            return Hole(first, at, timestamp, absent), Hole(at, after, timestamp, absent)
        case Whole(batch):
            run = Run(batch, codec_of(view, batch), records_of(view, batch))
            return split(view, run, at)
        case Run(batch, codec, members):
            count = at - members[0].offset
            return Run(batch, codec, members[:count]), Run(batch, codec, members[count:])


GATHERED_BELOW = 32


def pieces_at_offsets(
    partition: Partition,
    same: SamePartition,
    view: memoryview,
    batches: Sequence[tuple[Batch, bool]],
    buffer: Buffer | None,
) -> tuple[list[Piece], int]:
    """Pieces in offset order, and the offset after them. Records that the target has already are counted but not sent,
    and move ``partition.log.reached``. Batches before an unreadable one are copied.

    Raises CorruptBatchError or MalformedResponseError if the unreadable batch is the first.
    """
    pieces = _whole_ones(partition, same, view, batches, buffer)
    covered = pieces[-1].next_offset if pieces else partition.log.covered
    small: list[Batch] = []

    def opened(batch: Batch, position: int = covered) -> str | None:
        return why_not_whole(batch, position, partition.sizes.at(batch.base))

    partition.hold.why = "small batches gathered" if partition.sizes.gathers else ""
    try:
        for segment in segments(view, batches[len(pieces) :], covered, opened, same.left_out):
            for part in _new(partition, same, view, segment):
                if isinstance(part, Whole) and partition.sizes.gathers and part.records <= GATHERED_BELOW:
                    small.append(part.batch)
                    continue
                pieces += _gathered(partition, view, small, buffer)
                pieces += _pieces(partition, view, part, buffer)
            covered = segment.next_offset
        pieces += _gathered(partition, view, small, buffer)
    # Pieces before an unreadable batch travel, and the next answer begins with it. Without such pieces, and after a
    # cancellation, nothing is handed on, so the pieces' buffers must be released here.
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
    """The leading batches without any gap, to be sent unchanged: for most sources all batches."""
    pieces: list[Piece] = []
    at = partition.log.covered
    if partition.sizes.gathers or same.left_out or same.place is None or not same.place.level:
        return pieces
    for batch, delivered in batches:
        if not delivered or batch.base != at or why_not_whole(batch, at, partition.sizes.at(at)):
            break
        pieces.append(Piece.whole(view[batch.start : batch.end], batch, buffer, batch))
        at = batch.next_offset
    return pieces


def _new(partition: Partition, same: SamePartition, view: memoryview, segment: Segment) -> list[Segment]:
    """The part of ``segment`` that the target does not have yet."""
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
    """A whole batch travels unchanged, because its offsets are consecutive. The records of a run are encoded again, in
    batches that the target takes; ``hold.why`` shows the reason in the status."""
    match segment:
        case Hole(first, after, timestamp):
            yield Piece.of_hole(first, after, timestamp)
        case Whole(batch):
            yield Piece.whole(view[batch.start : batch.end], batch, buffer, batch)
        case Run(batch, codec, members):
            largest = partition.sizes.at(segment.first)
            partition.hold.why = why_not_whole(batch, segment.first, largest) or "offsets kept"
            for rebuilt in fitting(members, codec, largest, segment.next_offset):
                yield Piece.made(rebuilt, batch, batch.max_timestamp)


def _gathered(partition: Partition, view: memoryview, small: list[Batch], buffer: Buffer | None) -> list[Piece]:
    """Empties ``small``, whose offsets follow each other."""
    batches = small[:]
    small.clear()
    if not batches:
        return []
    return gathered(view, batches, partition.sizes.at(batches[0].base), buffer)
