"""What a Spark task of the comparison does with one partition. Never raises.

Which records a flow with filters or headers should have copied, and which came by it, is decided on decoded records, by
other code than the batch path's. Offsets stay those of the log.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeVar

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.replication.expressions.match import ValueTooLongError
from reconciler_mirror.record_work.on_records import Decoded, NotCopied
from reconciler_mirror.verify.chunks import PartitionReading, VerifiedChunk, compare
from reconciler_mirror.verify.first_difference import (
    FoundDifference,
    KeyEntry,
    confirmed,
    entries,
    first_difference,
    last_of,
)
from reconciler_mirror.verify.model import SOURCE, TARGET, OffsetSpan, PartitionRange, VerifiedRecord, digest, within
from reconciler_mirror.verify.read_partition import Readers, log_start, records
from reconciler_mirror.verify.unreadable import UnreadableError
from reconciler_mirror.verify.whole_batches import EqualBatches, equal_batches, fits, rest, sampled

Given = TypeVar("Given")
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Suspect:
    """An ordered partition: where the first differing chunk begins on each side (None: that side has no such chunk).
    A compacted one: ``keys``, digests of those that differ. ``skipped``: records before that chunk."""

    plan: PartitionRange
    skipped: int = 0
    source_offset: int | None = None
    target_offset: int | None = None
    keys: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class ChunkCounts:
    """Of one partition. ``source`` and ``target``: records (ordered) or keys (compacted) read on each side;
    ``equal``: of them equal; ``differing``: chunks or keys; ``changing``: keys written while they were compared;
    ``older_source`` and ``older_target``: compacted only, keys that the other side may have lost to retention."""

    source: int = 0
    target: int = 0
    equal: int = 0
    differing: int = 0
    changing: int = 0
    older_source: int = 0
    older_target: int = 0
    suspect: Suspect | None = None


@dataclass(frozen=True, slots=True)
class Located:
    """``difference`` None: the second reading found none. ``error``: it could not be read."""

    index: int
    difference: FoundDifference | None = None
    error: str = ""
    todo: str = ""


def bundled(loads: Sequence[tuple[Given, float]], most: int) -> list[list[Given]]:
    """At most ``most`` bundles of about the same load, heaviest first; what is heavier than the others goes alone."""
    bundles: list[tuple[float, int, list[Given]]] = [(0.0, number, []) for number in range(min(most, len(loads)))]
    for given, load in sorted(loads, key=lambda pair: -pair[1]):
        total, number, members = bundles[0]
        members.append(given)
        heapq.heapreplace(bundles, (total + load, number, members))
    return [members for _, _, members in sorted(bundles, key=lambda bundle: -bundle[0])]


def each(read: Callable[[Given, Readers], Iterable[Row]], bundle: Sequence[Given]) -> Iterator[Row]:
    """What one Spark task does: ``bundle`` one after the other."""
    with closing(Readers()) as readers:
        for given in bundle:
            yield from read(given, readers)


def chunks_of(plan: PartitionRange, readers: Readers) -> Iterator[VerifiedChunk | PartitionReading]:
    try:
        now = _as_it_is_now(plan, readers)
        proved, again = _proved(now, readers)
        if proved is None:
            left, first = now, 0
        else:
            left, first = rest(now, proved), 1
            yield from _proved_chunks(now, proved)
        begun = PartitionReading(now.index, now.source.start, now.target.start)
        if proved is not None:
            begun = replace(begun, older_source=proved.older_source, older_target=proved.older_target)
            begun = replace(
                begun, source_end=proved.source_end, proved=proved.records, by_bytes=proved.by_bytes, sampled=again
            )
        if proved is not None and proved.whole:
            yield _with_clients(begun, readers)
            return
        for row in compare(left, lambda side: _open(left, side, readers), first):
            if isinstance(row, PartitionReading) and proved is not None:
                yield _with_clients(replace(begun, source_end=row.source_end), readers)
            else:
                yield _with_clients(row, readers) if isinstance(row, PartitionReading) else row
    except UnreadableError as error:
        yield PartitionReading(plan.index, error=str(error), todo=error.todo)


def _proved(plan: PartitionRange, readers: Readers) -> tuple[EqualBatches | None, int]:
    """What equal batches prove, and how many of their records librdkafka has read as well. Nothing where it reads
    something else: then all records are compared as it reads them."""
    if not fits(plan):
        return None, 0

    try:
        proved = equal_batches(plan, lambda span: readers.own(span.endpoint).batches(span))
    except MalformedResponseError:
        return None, 0  # librdkafka says what is wrong with it
    count = 0
    for bounds in proved.samples if proved is not None else ():
        spans = [sampled(span, at) for span, at in zip((plan.source, plan.target), bounds, strict=True)]
        ours, theirs = (list(records(span, readers, timestamps=plan.timestamps, sample=True)) for span in spans)
        if [record[1:] for record in ours] != [record[1:] for record in theirs]:
            return None, 0
        count += len(ours)
    return proved, count


def _proved_chunks(plan: PartitionRange, proved: EqualBatches) -> Iterator[VerifiedChunk]:
    """One on each side. Both digests are the same, because the bytes have been compared."""
    if not proved.records:
        return
    content = digest(f"{proved.records} records of equal batches".encode()).hex()
    for side, span, end in ((SOURCE, plan.source, proved.source_next), (TARGET, plan.target, proved.target_next)):
        yield VerifiedChunk(plan.index, side, 0, proved.records, content, span.start, end - 1)


def entries_of(plan: PartitionRange, readers: Readers) -> Iterator[KeyEntry | PartitionReading]:
    try:
        now = _as_it_is_now(plan, readers)
        for side, span in ((SOURCE, now.source), (TARGET, now.target)):
            yield from entries(now, side, travelling(now, side, span, readers))
        reading = PartitionReading(now.index, now.source.start, now.target.start, source_end=now.position)
        yield _with_clients(reading, readers)
    except UnreadableError as error:
        yield PartitionReading(plan.index, error=str(error), todo=error.todo)


def _with_clients(reading: PartitionReading, readers: Readers) -> PartitionReading:
    return replace(reading, one_client=tuple(sorted(readers.one_client.items())))


def locate(suspect: Suspect, readers: Readers) -> tuple[Located]:
    """The second reading. That of ordered partitions begins with the first chunk that differs; of compacted ones the
    source is read to its end of now: a key written since then is not a difference."""
    plan = suspect.plan
    try:
        if plan.compacted:
            now, keys = _as_it_is_now(plan, readers), frozenset(suspect.keys)
            source = last_of(keys, own(now, SOURCE, now.source, readers, to_end=True))
            target = last_of(keys, own(now, TARGET, now.target, readers))
            return (Located(plan.index, confirmed(now, suspect.keys, source, target)),)
        starts = ((SOURCE, suspect.source_offset), (TARGET, suspect.target_offset))
        ours, theirs = (() if at is None else _open(plan, side, readers, at) for side, at in starts)
        first = first_difference(ours, theirs, suspect.skipped, offsets=plan.same_offsets)
        if first and first.target_offset is None and (first.source_offset or 0) >= plan.position:
            first = None  # not copied yet
        return (Located(plan.index, first),)
    except UnreadableError as error:
        return (Located(plan.index, error=str(error), todo=error.todo),)


def _as_it_is_now(plan: PartitionRange, readers: Readers) -> PartitionRange:
    """Retention may have moved the beginning of a log since the bounds were read: that side is then cut there."""

    def now(span: OffsetSpan) -> OffsetSpan:
        if span.start >= span.end:
            return span
        low = log_start(span, readers)
        return replace(span, start=min(low, span.end), cut=True) if low > span.start else span

    source, target = now(plan.source), now(plan.target)
    if plan.same_offsets:
        begin = max(source.start, target.start)
        source, target = (replace(span, start=min(begin, span.end), cut=False) for span in (source, target))
    return replace(plan, source=source, target=target)


def _open(plan: PartitionRange, side: str, readers: Readers, start: int | None = None) -> Iterator[VerifiedRecord]:
    span, window = plan.source if side == SOURCE else plan.target, plan.window
    if start is not None:
        span, window = replace(span, start=start), replace(window, from_ms=None)
    return within(own(plan, side, span, readers), window)


def own(
    plan: PartitionRange, side: str, span: OffsetSpan, readers: Readers, *, to_end: bool = False
) -> Iterator[VerifiedRecord]:
    """Source: the records that travel, with the headers of their copies. Target: those that this flow brought."""
    return (record for record, ours in travelling(plan, side, span, readers, to_end=to_end) if ours)


def travelling(
    plan: PartitionRange, side: str, span: OffsetSpan, readers: Readers, *, to_end: bool = False
) -> Iterator[tuple[VerifiedRecord, bool]]:
    """Every record and whether it is one of ``own``; others as they lie there. Raises UnreadableError."""
    worker = plan.worker
    if worker is None:
        yield from ((record, True) for record in records(span, readers, timestamps=plan.timestamps, to_end=to_end))
        return
    for record in records(span, readers, to_end=to_end):
        decoded = Decoded(record.offset, record.timestamp, record.key, record.value, record.headers)
        shown = record if plan.timestamps else record._replace(timestamp=0)
        if side != SOURCE:
            yield shown, worker.arrived(decoded)
            continue
        try:
            headers = worker.headers(decoded)
        except ValueTooLongError as error:
            todo = "Write the flow's where with a smaller expression, or without it, and verify again."
            problem = f"where of the flow cannot judge the record at offset {record.offset}: {error}"
            raise UnreadableError(problem, todo) from None
        copied = not isinstance(headers, NotCopied)
        yield (shown if isinstance(headers, NotCopied) else shown._replace(headers=tuple(headers))), copied
