"""What a stretch of the source's log means for a copy at the same offsets: records to append, and holes to fill.

A hole is a run of offsets at which a reader of committed records gets nothing: control markers, aborted records,
records that compaction removed. The target's leader gives out offsets without gaps, so a batch with holes inside is
taken apart into batches without any, and each hole is filled by as many offsets as it has. ``pieces_at_offsets`` makes
pieces to produce of the segments of fetched batches.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from reconciler.kafka.client.buffers import Buffer
from reconciler.kafka.records.batches import Batch, why_not_whole
from reconciler.kafka.records.codecs import TooMuchToOpenError
from reconciler.kafka.records.records import Record, codec_of, fitting, gather, records_of
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.produce.outbox import Piece
from reconciler_mirror.lane.same_offsets.place import SamePartition


class Hole(NamedTuple):
    """Offsets ``first`` to ``next_offset`` - 1. ``timestamp``: of the source's batch there, -1 where there is none.
    ``absent``: the source has no batch there, so compaction, or what else removed records, has made it."""

    first: int
    next_offset: int
    timestamp: int = -1
    absent: bool = False

    @property
    def records(self) -> int:
        return 0


class Whole(NamedTuple):
    """A batch that travels as it is."""

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
    """Records at consecutive offsets, taken out of ``batch``."""

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
"""Why a batch cannot travel as it is; None: it can."""


def segments(
    view: memoryview,
    batches: Iterable[tuple[Batch, bool]],
    position: int,
    opened: WhyOpened,
    left_out: Collection[int] = (),
) -> Iterator[Segment]:
    """All offsets from ``position`` to the end of the last batch, in order and without gaps.

    ``batches``: those of one answer in order, and whether a reader of committed records gets them. ``left_out``:
    offsets whose records become holes. Raises CorruptBatchError and MalformedResponseError for a batch that has to be
    opened and cannot.
    """
    # Holes side by side become one: each run of fillers costs a request and a marker of its own.
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
    """Before neighbouring holes are joined. Offsets are missing between batches where compaction removed whole ones,
    and inside of one where it removed some; a batch that no committed reader gets (control, aborted) is a hole as
    well."""
    at = position
    for batch, delivered in batches:
        if batch.next_offset <= at:
            continue
        if batch.magic < 2:  # a wrapper has the offset of its last record
            yield from _opened(view, batch, at, left_out)
            at = batch.next_offset
            continue

        # Offsets between batches are absent from the log. A batch that is not delivered is so only without records.
        if batch.base > at:
            yield Hole(at, batch.base, absent=True)
            at = batch.base
        if not delivered:
            yield Hole(at, batch.next_offset, batch.max_timestamp, absent=batch.records == 0)
            at = batch.next_offset
            continue

        # A batch travels whole if no offset in it is missing or to be left out, and nothing asks for its records.
        dense = batch.records == batch.last_delta + 1 and batch.base >= at
        kept = not any(batch.base <= offset < batch.next_offset for offset in left_out)
        if dense and kept and opened(batch) is None:
            yield Whole(batch)
        else:
            yield from _opened(view, batch, at, left_out)
        at = batch.next_offset


def _opened(view: memoryview, batch: Batch, at: int, left_out: Collection[int]) -> Iterator[Segment]:
    """A compressed or sparse batch as runs of consecutive records and the holes between them, from ``at`` on. A broker
    gives consecutive offsets to the records of a batch, so a batch with gaps has to be split where they are.
    ``left_out``: offsets of records that the target refuses; they become holes, too."""
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
    """``segment`` in two, the second beginning at the source offset ``at`` within it."""
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
    """(pieces in offset order, the offset after them). What the target has already is passed over and counted; then
    ``partition.log.reached`` moves, of which nothing is queued. What lies before a batch that cannot be read is copied.

    Raises CorruptBatchError or MalformedResponseError where that batch is the first.
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
    # The pieces before the batch that cannot be read travel; the next answer begins with it. Without such pieces, and
    # at a cancellation, nothing is handed on, and buffers must not leak.
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
    """The batches before the first that is anything but the next one, to be sent as they are: of most sources all."""
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
    """A whole batch travels as it is: its offsets are consecutive. The members of a run are encoded again, in batches
    that the target takes; ``hold.why`` says so in the status."""
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
    largest = partition.sizes.at(batches[0].base)
    try:
        return [Piece.made(part, last, last.max_timestamp) for part, last in gather(view, batches, largest)]
    except TooMuchToOpenError:  # they need not be opened
        return [Piece.whole(view[batch.start : batch.end], batch, buffer, batch) for batch in batches]
