"""Reads a topic once, up to its present end: read_committed, no group."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka import IsolationLevel as Isolation
from confluent_kafka.admin import AdminClient, OffsetSpec

from reconciler_sandbox.errors import SandboxError

_BATCH = 5_000
_SILENCE_S = 30.0

# What a topic answers whose leader is not known everywhere: it was made or moved a moment ago.
_SETTLING_S = 3.0
_SETTLING = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError._TRANSPORT,
)


@dataclass(frozen=True, slots=True)
class PartitionSpan:
    """Offsets ``start`` up to but not with ``end`` of one partition."""

    topic: str
    partition: int
    start: int
    end: int


def spans(client: Mapping[str, str], topics: Sequence[str], patience_s: float = 5.0) -> tuple[PartitionSpan, ...]:
    """Everything written now, by topic and partition, as far as it is committed within ``patience_s``.

    A commit is answered before its markers stand in the partitions; without patience the newest records would be
    missed. Raises SandboxError, also for a missing topic.
    """
    admin = AdminClient({**client, "log_level": "0"})
    deadline = time.monotonic() + _SETTLING_S
    while True:
        try:
            return _spans(admin, topics, patience_s)
        except KafkaException as error:
            if error.args[0].code() not in _SETTLING or time.monotonic() > deadline:
                raise _unreadable(", ".join(topics), error.args[0]) from error
        time.sleep(0.1)


def _spans(admin: AdminClient, topics: Sequence[str], patience_s: float) -> tuple[PartitionSpan, ...]:
    partitions = [TopicPartition(topic, index) for topic in topics for index in _partitions(admin, topic)]
    starts = _offsets(admin, partitions, OffsetSpec.earliest(), Isolation.READ_COMMITTED)
    written = _offsets(admin, partitions, OffsetSpec.latest(), Isolation.READ_UNCOMMITTED)
    deadline = time.monotonic() + patience_s
    while True:
        stable = _offsets(admin, partitions, OffsetSpec.latest(), Isolation.READ_COMMITTED)
        ends = [min(pair) for pair in zip(stable, written, strict=True)]
        if ends == written or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    rows = zip(partitions, starts, ends, strict=True)
    return tuple(PartitionSpan(p.topic, p.partition, start, end) for p, start, end in rows)


def _partitions(admin: AdminClient, topic: str) -> list[int]:
    document = admin.list_topics(topic, timeout=15).topics[topic]
    if document.error is not None:
        raise KafkaException(document.error)
    return sorted(document.partitions)


def _offsets(admin: AdminClient, partitions: list[TopicPartition], spec: OffsetSpec, isolation: Isolation) -> list[int]:
    if not partitions:
        return []
    asked = admin.list_offsets(dict.fromkeys(partitions, spec), isolation_level=isolation, request_timeout=15)
    return [asked[partition].result(20).offset for partition in partitions]


def records(client: Mapping[str, str], wanted: Sequence[PartitionSpan]) -> Iterator[Message]:
    """Every committed record of the spans; ordered inside a partition only. Raises SandboxError."""
    open_spans = {(span.topic, span.partition): span.end for span in wanted if span.start < span.end}
    starts = [TopicPartition(span.topic, span.partition, span.start) for span in wanted if span.start < span.end]
    if not starts:
        return
    consumer = Consumer(
        {
            "group.id": "sandbox.reading",
            **client,
            "log_level": "0",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            "fetch.queue.backoff.ms": 20,
        }
    )
    try:
        consumer.assign(starts)
        yield from _until_ends(consumer, open_spans)
    except KafkaException as error:
        raise _unreadable(", ".join(sorted({start.topic for start in starts})), error.args[0]) from error
    finally:
        consumer.close()


def _until_ends(consumer: Consumer, open_spans: dict[tuple[str, int], int]) -> Iterator[Message]:
    heard = time.monotonic()
    while open_spans:
        messages = consumer.consume(_BATCH, timeout=0.2)
        if any(message.error() is None or message.error().code() not in _SETTLING for message in messages):
            heard = time.monotonic()
        elif time.monotonic() - heard > _SILENCE_S:
            left = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(open_spans))
            raise SandboxError(f"nothing was read for {_SILENCE_S:.0f} s of {left}", "The cluster does not answer.")
        for message in messages:
            place = (message.topic(), message.partition())
            error = message.error()
            if error is not None and error.code() in _SETTLING:
                continue
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            end = open_spans.get(place)
            if end is None:
                continue
            if message.offset() >= end:  # written after we looked, or the end of the partition
                del open_spans[place]
            elif error is None:
                yield message
                if message.offset() + 1 == end:
                    del open_spans[place]


def has_records(client: Mapping[str, str], topic: str) -> bool:
    """Is there one committed record? Offsets alone cannot tell: aborted transactions take offsets too."""
    return next(records(client, spans(client, [topic], patience_s=0)), None) is not None


def _unreadable(topics: str, error: KafkaError) -> SandboxError:
    why = "Without reading both sides nothing can be said about them."
    todo = "Check whether the clusters run: reconciler sandbox status."
    return SandboxError(f"{topics} cannot be read: {error.str()}", why, todo)
