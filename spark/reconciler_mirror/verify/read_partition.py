"""Reads a partition between two offsets as a committed reader: no group, no stored position.

The only module of the comparison that holds a consumer. Records are read by librdkafka alone, so that a fault of the
copy's own code cannot hide itself. Before that, our own code looks at the batches: librdkafka opens each whole, and one
that would take the memory is refused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from reconciler.kafka.client import small_topics
from reconciler.kafka.client.cluster import LATEST
from reconciler.kafka.client.errors import BrokerError, ConnectionLostError, MalformedResponseError, WireError
from reconciler.kafka.records import codecs
from reconciler.kafka.records.batches import CODEC, CONTROL, HEADER, CorruptBatchError, scan
from reconciler.kafka.records.codecs import TooMuchToOpenError
from reconciler.kafka.records.records import records_of
from reconciler.replication.handover import Endpoint
from reconciler_mirror.clients import librdkafka as clients
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.verify.model import OffsetSpan, VerifiedRecord

_UNREAD_S = 30.0
"""How long a leader may be unknown, a broker away, or nothing be answered."""


class TooLargeBatchError(Exception):
    """``offset``: of the batch."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the batch at offset {offset} is more than {codecs.MOST_OPENED >> 20} MiB once decompressed")
        self.offset = offset


def require_openable(span: OffsetSpan, *, to_end: bool = False) -> None:
    """``to_end``: up to the end of the partition as it is now. Raises TooLargeBatchError for the first batch that
    becomes more than ``codecs.MOST_OPENED``, WireError or LookupError where its batches cannot be looked at."""
    asyncio.run(_look(span, to_end))


async def _look(span: OffsetSpan, to_end: bool) -> None:
    until, at = time.monotonic() + _UNREAD_S, span.start
    while True:
        with closing(cluster_of(span.endpoint)) as cluster:
            try:
                place = (span.topic, span.partition)
                await small_topics.leaders(cluster, [span.topic])
                end = span.end
                if to_end:
                    now = (await cluster.list_offsets({place: LATEST}, committed=False))[place]
                    if isinstance(now, BrokerError):
                        raise now
                    end = now
                async for answer in small_topics.read(cluster, {place: at}, {place: end}):
                    refuse_too_large(answer.records, at)
                    after = small_topics.next_offset(answer, at)
                    if after > at:
                        at, until = after, time.monotonic() + _UNREAD_S
                    elif time.monotonic() > until:
                        raise ConnectionLostError(f"nothing was read of {span.name} for {_UNREAD_S:.0f} s")
                return
            except (BrokerError, ConnectionLostError) as error:
                lasts = isinstance(error, ConnectionLostError) or error.retriable
                if not lasts or time.monotonic() > until:
                    raise
        await asyncio.sleep(0.2)


def refuse_too_large(view: memoryview, start: int) -> None:
    """Of the batches from offset ``start`` on. Raises TooLargeBatchError; anything else that is wrong with one is left
    to its reader."""
    try:
        batches = scan(view)
    except MalformedResponseError:
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
            raise TooLargeBatchError(batch.base) from None
        except (MalformedResponseError, CorruptBatchError):
            continue


_AT_ONCE = 2_000
_SILENCE_S = 60.0
_WATERMARKS_S = 20.0
_MOVING_S = 10.0
"""How long a leader may be unknown."""
# What a broker says in passing while a leader moves or a connection breaks.
_MOVING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
_NO_GROUP = KafkaError.GROUP_AUTHORIZATION_FAILED
"""librdkafka insists on a group and looks for its coordinator. Nothing is read from it, and no role lets the mirror
into that group."""


class UnreadableError(Exception):
    """A side could not be read to its bound. ``todo``: what a person can do."""

    def __init__(self, problem: str, todo: str) -> None:
        super().__init__(problem)
        self.todo = todo


class Readers:
    """Consumers that serve one partition after the other: to make one takes longer than to read a small partition.

    Owned by one thread. ``close`` closes all; one that failed is not used again.
    """

    def __init__(self) -> None:
        self._idle: list[tuple[Endpoint, str, Consumer]] = []

    @contextmanager
    def lent(self, span: OffsetSpan) -> Iterator[Consumer]:
        """No other stream uses it meanwhile; two streams of one side get two. Raises UnreadableError."""
        same = (lent for lent in self._idle if lent[:2] == (span.endpoint, span.isolation))
        if (idle := next(same, None)) is not None:
            self._idle.remove(idle)
            consumer = idle[2]
        else:
            try:
                consumer = clients.partition_reader(span.endpoint, span.isolation)
            except (LookupError, KafkaException) as error:
                raise UnreadableError(
                    f"{span.endpoint.cluster} cannot be connected: {error}", "Fix the client settings or the secret."
                ) from None
        sound = True
        try:
            yield consumer
        except Exception:
            sound = False
            raise
        finally:
            if sound:
                consumer.unassign()
                self._idle.append((span.endpoint, span.isolation, consumer))
            else:
                consumer.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[2].close()


def records(
    span: OffsetSpan, readers: Readers, *, timestamps: bool = True, to_end: bool = False
) -> Iterator[VerifiedRecord]:
    """Every committed record of ``span`` in order. Without ``timestamps`` all of them are 0. ``to_end``: on to the end
    that the partition has when it is reached.

    Raises UnreadableError, also when the log begins after ``span.start`` by now.
    """
    if span.start >= span.end and not to_end:
        return
    # librdkafka opens a batch whole: one that would take the memory is refused before that.
    try:
        require_openable(span, to_end=to_end)
    except TooLargeBatchError as error:
        todo = "Ask who produces to the topic why; what was written behind it can be compared with --from."
        raise UnreadableError(f"{span.name} is not read: {error}", todo) from None
    except (WireError, LookupError) as error:
        code = KafkaError.OFFSET_OUT_OF_RANGE if isinstance(error, BrokerError) and error.code == 1 else None
        raise _unreadable(span, str(error), code) from None
    try:
        with readers.lent(span) as consumer:
            for offset, message in _messages(consumer, span, to_end):
                headers = tuple(message.headers() or ())
                timestamp = message.timestamp()[1] if timestamps else 0
                yield VerifiedRecord(offset, timestamp, message.key(), message.value(), headers)
    except KafkaException as error:
        raise _unreadable(span, error.args[0].str(), error.args[0].code()) from None
    except UnicodeDecodeError:
        raise _unreadable(span, "a header name is not UTF-8", None) from None


def log_start(span: OffsetSpan, readers: Readers) -> int:
    """Where the log begins now. Raises UnreadableError."""
    try:
        with readers.lent(span) as consumer:
            return _low(consumer, span)
    except KafkaException as error:
        raise _unreadable(span, error.args[0].str(), error.args[0].code()) from None


def _low(consumer: Consumer, span: OffsetSpan) -> int:
    place = TopicPartition(span.topic, span.partition)
    until = time.monotonic() + _MOVING_S
    while True:
        try:
            return int(consumer.get_watermark_offsets(place, timeout=_WATERMARKS_S)[0])
        except KafkaException as error:
            if not _is_moving(error.args[0]) or time.monotonic() > until:
                raise
        time.sleep(0.1)


def _messages(consumer: Consumer, span: OffsetSpan, to_end: bool) -> Iterator[tuple[int, Message]]:
    low = _low(consumer, span)
    if low > span.start:
        raise _unreadable(span, f"it begins at {low} now", KafkaError.OFFSET_OUT_OF_RANGE)
    consumer.assign([TopicPartition(span.topic, span.partition, span.start)])
    heard = time.monotonic()
    while True:
        messages = consumer.consume(1, 0.5)  # consume(n) waits until it has n
        messages += consumer.consume(_AT_ONCE, 0) if messages else []
        if any(message.error() is None or not _is_moving(message.error()) for message in messages):
            heard = time.monotonic()
        elif time.monotonic() - heard > _SILENCE_S:
            raise UnreadableError(
                f"nothing was read of {span.name} for {_SILENCE_S:.0f} s",
                f"Check whether the brokers of {span.endpoint.cluster} run, then verify again.",
            )
        for message in messages:
            error = message.error()
            if error is not None and (_is_moving(error) or error.code() == _NO_GROUP):
                continue
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if message.offset() >= span.end and not to_end:  # also the end of the partition, behind the last marker
                return
            if error is not None:
                if to_end:
                    return
                continue
            yield message.offset(), message
            if message.offset() + 1 == span.end and not to_end:
                return


def _is_moving(error: KafkaError) -> bool:
    return error.code() in _MOVING


def _unreadable(span: OffsetSpan, why: str, code: int | None) -> UnreadableError:
    if code in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
        return UnreadableError(
            f"records of {span.name} were removed while they were read: {why}",
            "Verify again; retention is faster than the reading, so compare a smaller range with --from.",
        )
    return UnreadableError(
        f"{span.name} cannot be read: {why}",
        "Check that the topic exists and that the mirror's principal may read it.",
    )
