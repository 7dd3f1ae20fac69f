"""What a Spark task of the comparison does with one partition. Never raises.

Which records a flow with filters or headers should have copied, and which came by it, is decided on decoded records, by
other code than the batch path's. Offsets stay those of the log.
"""

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeVar

from reconciler.replication.expressions.match import ValueTooLongError
from reconciler.replication.runs.verification import FirstDifference
from reconciler_mirror.record_work.on_records import Decoded, NotCopied
from reconciler_mirror.verify.first_difference import KeyEntry, confirmed, entries, last_of
from reconciler_mirror.verify.model import SOURCE, TARGET, OffsetSpan, PartitionRange, VerifiedRecord
from reconciler_mirror.verify.read_partition import Readers, log_start, records
from reconciler_mirror.verify.reading import PartitionReading
from reconciler_mirror.verify.unreadable import UnreadableError

Given = TypeVar("Given")
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Suspect:
    """A compacted partition with ``keys`` (their digests) that differ."""

    plan: PartitionRange
    keys: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """Of one compacted partition. ``source`` and ``target``: keys read on each side; ``equal``: of them equal;
    ``differing``: keys; ``changing``: those written while they were compared; ``older_source`` and ``older_target``:
    those that the other side may have lost to retention."""

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
    difference: FirstDifference | None = None
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


def each(
    read: Callable[[Given, Readers], Iterable[Row]], bundle: Sequence[Given], over: Callable[[], bool] = lambda: False
) -> Iterator[Row]:
    """What one Spark task does: ``bundle`` one after the other. What comes once time is ``over`` is left out."""
    with closing(Readers()) as readers:
        for number, given in enumerate(bundle):
            if number and over():
                return
            yield from read(given, readers)


def after(seconds: float) -> Callable[[], bool]:
    """Whether so much time has gone by since this call."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def entries_of(plan: PartitionRange, readers: Readers) -> Iterator[KeyEntry | PartitionReading]:
    try:
        now = as_it_is_now(plan, readers)
        for side, span in ((SOURCE, now.source), (TARGET, now.target)):
            yield from entries(now, side, travelling(now, side, span, readers))
        reading = PartitionReading(now.index, now.source.start, now.target.start, source_end=now.position)
        yield with_clients(reading, readers)
    except UnreadableError as error:
        yield PartitionReading(plan.index, error=str(error), todo=error.todo)


def with_clients(reading: PartitionReading, readers: Readers) -> PartitionReading:
    return replace(reading, one_client=tuple(sorted(readers.one_client.items())))


def locate(suspect: Suspect, readers: Readers) -> tuple[Located]:
    """The second reading of keys that differ. The source is read to its end of now: a key written since then is not a
    difference."""
    plan = suspect.plan
    try:
        now, keys = as_it_is_now(plan, readers), frozenset(suspect.keys)
        source = last_of(keys, own(now, SOURCE, now.source, readers, to_end=True))
        target = last_of(keys, own(now, TARGET, now.target, readers))
        return (Located(plan.index, confirmed(now, suspect.keys, source, target)),)
    except UnreadableError as error:
        return (Located(plan.index, error=str(error), todo=error.todo),)


def as_it_is_now(plan: PartitionRange, readers: Readers) -> PartitionRange:
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
