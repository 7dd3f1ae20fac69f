"""The work of a Spark task on one partition of the comparison. Never raises.

For a flow with filters or headers, code other than the batch path's decides on decoded records which of them the flow
should have copied, and which it has brought. Offsets stay those of the log.
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
from reconciler_mirror.verify.model import SOURCE, TARGET, OffsetSpan, PartitionRange, PartitionReading, VerifiedRecord
from reconciler_mirror.verify.read_partition import Readers, records
from reconciler_mirror.verify.unreadable import UnreadableError

Given = TypeVar("Given")
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Suspect:
    """A compacted partition with different ``keys`` (digests), which a second reading has to confirm: a key may have
    been written between the readings of the two sides."""

    plan: PartitionRange
    keys: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """Keys of one compacted partition. ``source`` and ``target``: read on each side; ``equal``; ``differing``;
    ``changing``: written during the comparison; ``older_source`` and ``older_target``: on one side only, because the
    other side may have lost them to retention."""

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
    """``difference`` None: the second reading found none. ``error``: why it could not be read."""

    index: int
    difference: FirstDifference | None = None
    error: str = ""
    todo: str = ""


def bundled(loads: Sequence[tuple[Given, float]], most: int) -> list[list[Given]]:
    """At most ``most`` bundles of about the same load, the heaviest first; a very heavy item gets its own."""
    bundles: list[tuple[float, int, list[Given]]] = [(0.0, number, []) for number in range(min(most, len(loads)))]
    for given, load in sorted(loads, key=lambda pair: -pair[1]):
        total, number, members = bundles[0]
        members.append(given)
        heapq.heapreplace(bundles, (total + load, number, members))
    return [members for _, _, members in sorted(bundles, key=lambda bundle: -bundle[0])]


def each(
    read: Callable[[Given, Readers], Iterable[Row]], bundle: Sequence[Given], over: Callable[[], bool] = lambda: False
) -> Iterator[Row]:
    """The work of one Spark task: reads the items of ``bundle`` in turn, and omits the rest once time is ``over``."""
    with closing(Readers()) as readers:
        for number, given in enumerate(bundle):
            if number and over():
                return
            yield from read(given, readers)


def after(seconds: float) -> Callable[[], bool]:
    """A function that says whether ``seconds`` have passed since this call."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def entries_of(plan: PartitionRange, readers: Readers) -> Iterator[KeyEntry | PartitionReading]:
    """Every record of a compacted partition, of both sides, as an entry of its key; last the reading, with where each
    side began. Without the reading the task has failed, and its entries prove nothing."""
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
    """Reads different keys again, the source to its present end: a key written since is no difference."""
    plan = suspect.plan
    try:
        now, keys = as_it_is_now(plan, readers), frozenset(suspect.keys)
        source = last_of(keys, own(now, SOURCE, now.source, readers, to_end=True))
        target = last_of(keys, own(now, TARGET, now.target, readers))
        return (Located(plan.index, confirmed(now, suspect.keys, source, target)),)
    except UnreadableError as error:
        return (Located(plan.index, error=str(error), todo=error.todo),)


def as_it_is_now(plan: PartitionRange, readers: Readers) -> PartitionRange:
    """The plan with present log starts: retention may have cut a side since the bounds were read."""

    def now(span: OffsetSpan) -> OffsetSpan:
        if span.start >= span.end:
            return span
        low = readers.own(span.endpoint).low(span)
        return replace(span, start=min(low, span.end), cut=True) if low > span.start else span

    source, target = now(plan.source), now(plan.target)
    if plan.same_offsets:
        begin = max(source.start, target.start)
        source, target = (replace(span, start=min(begin, span.end), cut=False) for span in (source, target))
    return replace(plan, source=source, target=target)


def own(
    plan: PartitionRange, side: str, span: OffsetSpan, readers: Readers, *, to_end: bool = False
) -> Iterator[VerifiedRecord]:
    """Source: the records to copy, with the headers of their copies. Target: the records that this flow has brought."""
    return (record for record, ours in travelling(plan, side, span, readers, to_end=to_end) if ours)


def travelling(
    plan: PartitionRange, side: str, span: OffsetSpan, readers: Readers, *, to_end: bool = False
) -> Iterator[tuple[VerifiedRecord, bool]]:
    """Every record, and whether ``own`` has it; other records are unchanged. Raises UnreadableError."""
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
