"""Reads a partition over our own connections: its batches, before another client opens them, and its records.

It reads records only if librdkafka cannot log in. It shares the connections and the batch decoder with the copy, and
nothing else.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from functools import partial

from reconciler.kafka.client import errors, small_topics
from reconciler.kafka.client.cluster import EARLIEST, ClusterClient
from reconciler.kafka.protocol.fetch import FetchedPartition
from reconciler.kafka.records import codecs
from reconciler.kafka.records.batches import CODEC, CONTROL, HEADER, Batch, CommittedFilter, CorruptBatchError, scan
from reconciler.kafka.records.codecs import TooMuchToOpenError
from reconciler.kafka.records.fields import headers_at, headers_of
from reconciler.kafka.records.records import Record, key_and_value, records_of
from reconciler.replication.handover import Endpoint
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.verify.in_order.sides import NotOpenedError, SeenRecord, SidePiece
from reconciler_mirror.verify.model import OffsetSpan, VerifiedRecord
from reconciler_mirror.verify.unreadable import UnreadableError, not_connected, removed, silent, too_large, unread

UNREAD_S, _AGAIN_S = 30.0, 0.2
"""Seconds without a leader, a broker or an answer before reading fails; seconds between two tries."""


class OwnClient:
    """A client of one cluster; its connections stay open until ``close``. For one thread, outside of any event loop.

    Raises UnreadableError.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._runner = asyncio.Runner()
        self._cluster: ClusterClient | None = None

    def close(self) -> None:
        self._disconnect()
        self._runner.close()

    def low(self, span: OffsetSpan) -> int:
        """Where the log begins now."""
        low = self.at_time(span, EARLIEST)
        return span.end if low is None else low

    def at_time(self, span: OffsetSpan, timestamp: int) -> int | None:
        """The offset of the first record not older than ``timestamp`` ms; None without one."""
        until = time.monotonic() + UNREAD_S
        while True:
            try:
                offset = self._runner.run(self._listed((span.topic, span.partition), timestamp))
                return offset if offset >= 0 else None
            except (errors.WireError, LookupError) as error:
                self._disconnect()
                if not _passes(error) or time.monotonic() > until:
                    raise _in_words(span, error) from None
            time.sleep(_AGAIN_S)

    def require_openable(self, span: OffsetSpan, *, to_end: bool = False) -> None:
        """Raises UnreadableError, also for the first batch with more than ``codecs.MOST_OPENED`` bytes decompressed."""
        at = span.start
        with suppress(errors.MalformedResponseError):  # what is no batch is left to the reader
            for answer in self._answers(span, committed=False, to_end=to_end):
                refuse_too_large(span, answer.records, at)
                at = small_topics.next_offset(answer, at)

    def records(self, span: OffsetSpan, *, timestamps: bool = True, to_end: bool = False) -> Iterator[VerifiedRecord]:
        """As ``read_partition.records``."""
        committed = span.isolation == "read_committed"
        for answer in self._answers(span, committed=committed, to_end=to_end):
            keep = CommittedFilter(answer.records, answer.aborted if committed else ())
            try:
                for batch in scan(answer.records):
                    if batch.magic == 2 and batch.base >= span.end and not to_end:
                        return  # a defect of a later batch does not matter
                    for record in records_of(answer.records, batch) if keep.delivers(batch) else ():
                        if span.start <= record.offset and (to_end or record.offset < span.end):
                            yield _verified(span, record, timestamps)
            except TooMuchToOpenError:
                raise too_large(span, batch.base, codecs.MOST_OPENED >> 20) from None
            except (errors.MalformedResponseError, CorruptBatchError) as error:
                raise unread(span, str(error)) from None

    def pieces(self, span: OffsetSpan) -> Iterator[SidePiece]:
        """The batches with records of ``span`` for a reader at its isolation."""
        committed = span.isolation == "read_committed"
        for answer in self._answers(span, committed=committed, to_end=False):
            aborted = answer.aborted if committed else ()
            yield from pieces_in(span, answer.records, aborted)

    def _answers(self, span: OffsetSpan, *, committed: bool, to_end: bool) -> Iterator[FetchedPartition]:
        """Fetch answers, in order. The batches of one are invalid once the next is requested."""
        if not to_end and span.start >= span.end:
            return
        answers = self._fetched(span, committed, to_end)

        async def following() -> FetchedPartition | None:
            return await anext(answers, None)

        try:
            while (answer := self._runner.run(following())) is not None:
                yield answer
        except (errors.WireError, LookupError) as error:
            raise _in_words(span, error) from None

    async def _fetched(self, span: OffsetSpan, committed: bool, to_end: bool) -> AsyncIterator[FetchedPartition]:
        """Continues at the next offset after a lost connection or a new leader. Gives up after ``UNREAD_S`` without new
        records: then the partition is unknown, never empty."""
        place = (span.topic, span.partition)
        until, at = time.monotonic() + UNREAD_S, span.start
        while True:
            try:
                cluster = self._connected()
                await small_topics.leaders(cluster, [span.topic])
                end = (await small_topics.ends(cluster, [place], committed=committed))[place] if to_end else span.end
                async for answer in small_topics.read(cluster, {place: at}, {place: end}, committed=committed):
                    yield answer
                    # Only records extend the time: a broker that keeps answering without any is as silent as one that
                    # does not answer.
                    after = small_topics.next_offset(answer, at)
                    if after > at:
                        at, until = after, time.monotonic() + UNREAD_S
                    elif time.monotonic() > until:
                        raise silent(span, UNREAD_S)
                return
            except (errors.BrokerError, errors.ConnectionLostError) as error:
                self._disconnect()
                if not _passes(error) or time.monotonic() > until:
                    raise
            await asyncio.sleep(_AGAIN_S)

    async def _listed(self, place: tuple[str, int], timestamp: int) -> int:
        cluster = self._connected()
        await small_topics.leaders(cluster, [place[0]])
        return (await small_topics.bounds(cluster, [place], timestamp, committed=False))[place]

    def _connected(self) -> ClusterClient:
        self._cluster = self._cluster or cluster_of(self._endpoint)
        return self._cluster

    def _disconnect(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
        self._cluster = None


def refuse_too_large(span: OffsetSpan, view: memoryview, start: int) -> None:
    """Checks the batches from offset ``start`` on. Raises UnreadableError; leaves every other defect to the reader."""
    try:
        batches = scan(view)
    except errors.MalformedResponseError:
        return
    for batch in batches:
        if batch.next_offset <= start or (batch.magic == 2 and batch.attributes & CONTROL):
            continue
        try:
            if batch.magic != 2:
                records_of(view, batch)
            else:
                codec, data = batch.attributes & CODEC, view[batch.start + HEADER : batch.end]
                if codecs.may_be_too_much(codec, len(data)):
                    codecs.decompress(codec, data)
        except TooMuchToOpenError:
            raise too_large(span, batch.base, codecs.MOST_OPENED >> 20) from None
        except (errors.MalformedResponseError, CorruptBatchError):
            continue


def pieces_in(span: OffsetSpan, view: memoryview, aborted: Sequence[tuple[int, int]]) -> Iterator[SidePiece]:
    """Batches of one answer with records of ``span``. Raises NotOpenedError."""
    keep = CommittedFilter(view, aborted)
    try:
        for batch in scan(view):
            delivers = keep.delivers(batch)
            if delivers and batch.base < span.end and (batch.magic != 2 or batch.next_offset > span.start):
                whole = batch.magic == 2 and batch.base >= span.start and batch.next_offset <= span.end
                decoded = partial(_within, span, view, batch)
                yield SidePiece(decoded, batch, view[batch.start : batch.end], whole)
    except errors.MalformedResponseError:
        raise NotOpenedError from None


def _within(span: OffsetSpan, view: memoryview, batch: Batch) -> list[SeenRecord]:
    """Raises NotOpenedError for a batch that this code cannot decode, so that librdkafka tries."""
    try:
        records = records_of(view, batch)
    except (errors.MalformedResponseError, CorruptBatchError):
        raise NotOpenedError from None
    return [
        SeenRecord(record.offset, record.timestamp, record.tail.tobytes())
        for record in records
        if span.start <= record.offset < span.end
    ]


def canonical(content: bytes) -> object:
    """The meaning of a record's bytes after its offset: their varints have several encodings."""
    try:
        tail = memoryview(content)
        return key_and_value(Record(0, 0, 0, tail)), headers_of(tail, headers_at(tail))
    except (errors.MalformedResponseError, IndexError):
        return content


def _verified(span: OffsetSpan, record: Record, timestamps: bool) -> VerifiedRecord:
    """The record as librdkafka would return it, so that both clients compare. Without ``timestamps`` each is 0."""
    try:
        key, value = key_and_value(record)
        named = headers_of(record.tail, headers_at(record.tail))
        headers = tuple((name.decode(), data) for name, data in named)
    except UnicodeDecodeError:
        raise unread(span, "a header name is not UTF-8") from None
    except (errors.MalformedResponseError, IndexError):
        raise unread(span, f"the record at offset {record.offset} is cut") from None
    return VerifiedRecord(record.offset, record.timestamp if timestamps else 0, key, value, headers)


def _passes(error: Exception) -> bool:
    return isinstance(error, errors.ConnectionLostError) or (isinstance(error, errors.BrokerError) and error.retriable)


def _in_words(span: OffsetSpan, error: Exception) -> UnreadableError:
    if isinstance(error, errors.BrokerError) and error.code == errors.OUT_OF_RANGE:
        return removed(span, str(error))
    return not_connected(span, str(error)) if isinstance(error, LookupError) else unread(span, str(error))
