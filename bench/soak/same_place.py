"""Whether a copy has the source's records at the source's offsets: both logs are read to their ends by a consumer that
shares no code with the mirror."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from reconciler_sandbox.handles import ClusterHandle

from bench.soak.world import SoakError

READ_S, ASK_S = 300.0, 5.0


@dataclass(frozen=True, slots=True)
class Record:
    """What a reader of committed records meets at an offset. ``content``: digest of value, timestamp and headers."""

    key: bytes | None
    content: bytes


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """``records``: by offset, in order. ``end``: of the log, with all that no reader sees."""

    records: Mapping[int, Record]
    end: int


def difference(source: PartitionLog, copy: PartitionLog, compacted: bool = False) -> str:
    """What is not the same, with the first offset of it; empty where nothing is.

    ``compacted``: each side is compacted at times of its own. What only one of them has is no difference there, but the
    last record of each key is.
    """
    if source.end != copy.end:
        return f"the source ends at {source.end:,}, its copy at {copy.end:,}"
    both = source.records.keys() & copy.records.keys()
    wrong = {offset for offset in both if source.records[offset] != copy.records[offset]}
    if compacted:
        last, copied = ({record.key: at for at, record in log.records.items()} for log in (source, copy))
        wrong |= {min(at, copied.get(key, at)) for key, at in last.items() if copied.get(key) != at}
        wrong |= {copied[key] for key in copied.keys() - last.keys()}
    else:
        wrong |= source.records.keys() ^ copy.records.keys()
    if not wrong:
        return ""
    first = min(wrong)
    sides = (
        f"{name} {'a record' if first in log.records else 'none'}" for name, log in (("source", source), ("copy", copy))
    )
    return f"{len(wrong):,} offsets differ, the first is {first:,}: {', '.join(sides)}"


def ends(cluster: ClusterHandle, topic: str, partitions: int) -> list[int] | None:
    """Where each log ends; None while somebody does not answer. A client of its own each time: one that has seen a
    leader die goes on asking it."""
    admin = AdminClient({**cluster.super_client(), "log_level": 0})
    places = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    try:
        answers = admin.list_offsets(places, request_timeout=ASK_S)
        return [int(answers[place].result(2 * ASK_S).offset) for place in places]
    except (KafkaException, TimeoutError):
        return None


def read_log(cluster: ClusterHandle, topic: str, partitions: int) -> list[PartitionLog]:
    """Of every partition. Raises SoakError when it cannot be read to its end."""
    settings = {
        "group.id": "same-place",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "check.crcs": True,
        "log_level": 0,
    }
    found = ends(cluster, topic, partitions)
    if found is None:
        raise SoakError(f"the ends of {topic} on {cluster.name} are not told")
    records: list[dict[int, Record]] = [{} for _ in range(partitions)]
    consumer = Consumer({**cluster.super_client(), **settings})
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        left, until = set(range(partitions)), time.monotonic() + READ_S
        while left:
            if time.monotonic() > until:
                raise SoakError(f"{topic} on {cluster.name} could not be read to its end in {READ_S:.0f} s")
            for message in consumer.consume(5_000, 0.5):
                error = message.error()
                if error is None:
                    records[message.partition()][message.offset()] = _record(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
    finally:
        consumer.close()
    return [PartitionLog(some, end) for some, end in zip(records, found, strict=True)]


def _record(message: Message) -> Record:
    parts = (message.value(), message.timestamp(), message.headers())
    return Record(message.key(), hashlib.blake2b(repr(parts).encode(), digest_size=16).digest())
