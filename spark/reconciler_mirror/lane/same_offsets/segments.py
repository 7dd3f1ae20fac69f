"""What a stretch of the source's log means for a copy at the same offsets: records to append, and holes to fill.

A hole is a run of offsets at which a reader of committed records gets nothing: control markers, aborted records,
records that compaction removed. The target's leader gives out offsets without gaps, so a batch with holes inside is
taken apart into batches without any, and each hole is filled by as many offsets as it has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from reconciler.kafka.records.batches import Batch
from reconciler.kafka.records.records import Record, codec_of, records_of


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
    hole: Hole | None = None
    for segment in _segments(view, batches, position, opened, left_out):
        if isinstance(segment, Hole):
            hole = segment if hole is None else _joined(hole, segment)
            continue
        if hole is not None:
            yield hole
            hole = None
        yield segment
    if hole is not None:
        yield hole


def _joined(first: Hole, second: Hole) -> Hole:
    timestamp = max(first.timestamp, second.timestamp)
    return Hole(first.first, second.next_offset, timestamp, first.absent or second.absent)


def _segments(
    view: memoryview,
    batches: Iterable[tuple[Batch, bool]],
    position: int,
    opened: WhyOpened,
    left_out: Collection[int],
) -> Iterator[Segment]:
    at = position
    for batch, delivered in batches:
        if batch.next_offset <= at:
            continue
        if batch.magic < 2:  # a wrapper has the offset of its last record
            yield from _opened(view, batch, at, left_out)
            at = batch.next_offset
            continue
        if batch.base > at:
            yield Hole(at, batch.base, absent=True)
            at = batch.base
        if not delivered:
            yield Hole(at, batch.next_offset, batch.max_timestamp, absent=batch.records == 0)
        elif _is_whole(batch, at, opened, left_out):
            yield Whole(batch)
        else:
            yield from _opened(view, batch, at, left_out)
        at = batch.next_offset


def _is_whole(batch: Batch, at: int, opened: WhyOpened, left_out: Collection[int]) -> bool:
    dense = batch.records == batch.last_delta + 1 and batch.base >= at
    kept = not any(batch.base <= offset < batch.next_offset for offset in left_out)
    return dense and kept and opened(batch) is None


def _opened(view: memoryview, batch: Batch, at: int, left_out: Collection[int]) -> Iterator[Segment]:
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
