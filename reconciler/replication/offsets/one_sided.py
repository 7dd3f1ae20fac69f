"""Records of a log from an offset on, for what only one side of a flow that keeps offsets has: counted, and read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.records.batches import CommittedFilter, scan
from reconciler.kafka.records.fields import HeaderBytes, headers_at, headers_of
from reconciler.kafka.records.records import key_and_value, records_of
from reconciler.replication.offsets.close_gaps import Log, read_log
from reconciler.replication.offsets.parting import LogBounds, LogRecord, Parting, find_parting


@dataclass(frozen=True, slots=True)
class WholeRecord:
    """``timestamp`` in ms since 1970; None is Kafka's null."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[HeaderBytes, ...]


async def bounds_of(log: Log) -> LogBounds:
    """Raises BrokerError, ConnectionLostError."""
    await logs.leaders(log.cluster, [log.key[0]])
    begin = (await logs.begins(log.cluster, [log.key]))[log.key]
    return LogBounds(begin, (await logs.ends(log.cluster, [log.key], committed=log.committed))[log.key])


async def parting_of(source: Log, target: Log) -> Parting:
    """Raises BrokerError, ConnectionLostError, and NotPairedError for a log whose beginning goes meanwhile."""

    async def of_source(begin: int, end: int) -> list[LogRecord]:
        return (await read_log(source, begin, end))[1]

    async def of_target(begin: int, end: int) -> list[LogRecord]:
        return (await read_log(target, begin, end))[1]

    return await find_parting(await bounds_of(source), await bounds_of(target), of_source, of_target)


async def count_from(log: Log, begin: int, end: int, enough: int | None = None) -> int:
    """Committed records of ``begin`` up to but not with ``end``. Only a batch that is cut by them is opened. Once there
    are ``enough``, no further ones are counted."""
    count = 0
    await logs.leaders(log.cluster, [log.key[0]])
    async for answer in logs.read(log.cluster, {log.key: begin}, {log.key: end}, committed=log.committed):
        keep = CommittedFilter(answer.records, answer.aborted if log.committed else ())
        for batch in scan(answer.records):
            if not keep.delivers(batch) or batch.next_offset <= begin or batch.base >= end:
                continue
            if begin <= batch.base and batch.next_offset <= end:
                count += batch.records
            else:
                count += sum(begin <= record.offset < end for record in records_of(answer.records, batch))
            if enough is not None and count >= enough:
                return count
    return count


async def read_from(log: Log, begin: int, end: int) -> AsyncIterator[WholeRecord]:
    """As ``count_from``, whole."""
    await logs.leaders(log.cluster, [log.key[0]])
    async for answer in logs.read(log.cluster, {log.key: begin}, {log.key: end}, committed=log.committed):
        keep = CommittedFilter(answer.records, answer.aborted if log.committed else ())
        for batch in scan(answer.records):
            if not keep.delivers(batch) or batch.next_offset <= begin or batch.base >= end:
                continue
            for record in records_of(answer.records, batch):
                if begin <= record.offset < end:
                    key, value = key_and_value(record)
                    headers = tuple(headers_of(record.tail, headers_at(record.tail)))
                    yield WholeRecord(record.offset, record.timestamp, key, value, headers)
