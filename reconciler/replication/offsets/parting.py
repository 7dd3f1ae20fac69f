"""Finds the offset at which two logs with same offsets part, and the records of one side alone.

A mirror that keeps offsets makes one log a prefix of the other, until another producer writes to one of them. So a
stretch of equal records proves that everything before it is equal: the logs are read backwards from the end of the
shorter one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.records.fields import HeaderBytes, headers_at, headers_of
from reconciler.kafka.records.records import key_and_value, records_of
from reconciler.replication.offsets.close_gaps import Log, LogBounds, bounds_of, read_log

LogRecord = tuple[int, int]
"""Offset, and a hash of all that makes the record; committed records only."""

ReadLog = Callable[[int, int], Awaitable[Sequence[LogRecord]]]
"""Reads records in [begin, end)."""

FIRST_LOOK, GROWTH, MOST_AT_ONCE = 1_000, 8, 200_000


@dataclass(frozen=True, slots=True)
class Parting:
    """Where the two logs of a flow that keeps offsets part."""

    at: int
    """Both logs are equal before it, and differ at it, or one ends."""
    source: LogBounds
    target: LogBounds
    proved: bool = True
    """Equal records lie before it, or both logs begin there; False: retention has deleted the proof."""

    @property
    def source_goes_on(self) -> bool:
        return self.source.end > self.at

    @property
    def target_goes_on(self) -> bool:
        return self.target.end > self.at

    @property
    def diverged(self) -> bool:
        """Whether both logs have records of their own after it. Otherwise one log is a prefix of the other."""
        return self.source_goes_on and self.target_goes_on


async def find_parting(source: LogBounds, target: LogBounds, read_source: ReadLog, read_target: ReadLog) -> Parting:
    """Raises what the two readers raise."""
    low, high = max(source.begin, target.begin), min(source.end, target.end)
    parted, upper, size = high, high, FIRST_LOOK
    while upper > low:
        lower = max(low, upper - size)
        here, there = await read_source(lower, upper), await read_target(lower, upper)
        differs, agrees = first_apart(here, there)
        parted = parted if differs is None else differs
        if agrees:
            return Parting(parted, source, target)
        upper, size = lower, min(MOST_AT_ONCE, size * GROWTH)
    return Parting(parted, source, target, proved=low == 0 or high <= low)


def first_apart(here: Sequence[LogRecord], there: Sequence[LogRecord]) -> tuple[int | None, bool]:
    """The first offset where two stretches differ (None: nowhere), and whether equal records lie before it."""
    for number, (record, copy) in enumerate(zip(here, there, strict=False)):
        if record != copy:
            return min(record[0], copy[0]), number > 0
    shorter, longer = sorted((here, there), key=len)
    if len(longer) > len(shorter):
        return longer[len(shorter)][0], bool(shorter)
    return None, bool(here)


@dataclass(frozen=True, slots=True)
class WholeRecord:
    """A record with all that a client gave it. None is Kafka's null."""

    offset: int
    timestamp: int
    """In ms since 1970."""
    key: bytes | None
    value: bytes | None
    headers: tuple[HeaderBytes, ...]


async def parting_of(source: Log, target: Log) -> Parting:
    """Raises BrokerError, ConnectionLostError, and NotPairedError if a log's beginning is deleted meanwhile."""

    def reader(log: Log) -> ReadLog:
        async def read(begin: int, end: int) -> Sequence[LogRecord]:
            return (await read_log(log, begin, end))[1]

        return read

    return await find_parting(await bounds_of(source), await bounds_of(target), reader(source), reader(target))


async def count_from(log: Log, begin: int, end: int, enough: int | None = None) -> int:
    """Number of committed records in [``begin``, ``end``). Counting stops at ``enough``."""
    return (await span_from(log, begin, end, enough)).records


@dataclass(frozen=True, slots=True)
class LogSpan:
    """``first_ms``, ``last_ms``: earliest and latest timestamp, None without records."""

    records: int = 0
    first_ms: int | None = None
    last_ms: int | None = None

    def plus(self, records: int, first_ms: int, last_ms: int) -> LogSpan:
        first = first_ms if self.first_ms is None else min(self.first_ms, first_ms)
        return LogSpan(self.records + records, first, last_ms if self.last_ms is None else max(self.last_ms, last_ms))


async def span_from(log: Log, begin: int, end: int, enough: int | None = None) -> LogSpan:
    """Like ``count_from``. Only batches that the limits cut are decompressed."""
    span = LogSpan()
    await logs.leaders(log.cluster, [log.key[0]])
    async for answer in logs.read(log.cluster, {log.key: begin}, {log.key: end}, committed=log.committed):
        for batch in logs.delivered_batches(answer, begin, end, committed=log.committed):
            if batch.magic == 2 and begin <= batch.base and batch.next_offset <= end:
                span = span.plus(batch.records, batch.base_timestamp, batch.max_timestamp)
            else:
                for record in records_of(answer.records, batch):
                    if begin <= record.offset < end:
                        span = span.plus(1, record.timestamp, record.timestamp)
            if enough is not None and span.records >= enough:
                return span
    return span


async def read_from(log: Log, begin: int, end: int) -> AsyncIterator[WholeRecord]:
    """Committed records in [``begin``, ``end``)."""
    await logs.leaders(log.cluster, [log.key[0]])
    async for answer in logs.read(log.cluster, {log.key: begin}, {log.key: end}, committed=log.committed):
        for record in logs.delivered(answer, begin, end, committed=log.committed):
            key, value = key_and_value(record)
            headers = tuple(headers_of(record.tail, headers_at(record.tail)))
            yield WholeRecord(record.offset, record.timestamp, key, value, headers)
