"""Proof that a copy is equal: per partition, count and digest of what a read_committed reader sees."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from bench.copy.figures import BenchError

READ_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class PartitionDigest:
    """In order of offsets: key, value, headers and timestamp, each with its length."""

    records: int
    digest: str

    def __str__(self) -> str:
        return f"{self.records}:{self.digest}"


ADDED_HEADER = "copied-from"
"""What a run with added headers adds; it does not count."""


def _framed(message: Message) -> bytes:
    key, value = message.key(), message.value()
    parts = [b"%d" % message.timestamp()[1], b"-" if key is None else b"%d " % len(key) + key]
    parts.append(b"-" if value is None else b"%d " % len(value) + value)
    for name, content in (header for header in message.headers() or () if header[0] != ADDED_HEADER):
        parts.append(name.encode() + b"=" + (b"-" if content is None else b"%d " % len(content) + content))
    return b"%d " % len(parts) + b";".join(parts)


def digests(bootstrap: str, topic: str) -> list[PartitionDigest]:
    """Of every partition, from the first offset to the last stable one. Raises BenchError."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-equality",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "queued.max.messages.kbytes": 262_144,
        }
    )
    try:
        count = len(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, index, 0) for index in range(count)])
        hashes = [hashlib.blake2b(digest_size=16) for _ in range(count)]
        counts = [0] * count
        open_partitions = set(range(count))
        deadline = time.monotonic() + READ_SECONDS
        while open_partitions:
            if time.monotonic() > deadline:
                raise BenchError(f"{topic} could not be read to its end in {READ_SECONDS:.0f} s")
            for message in consumer.consume(10_000, 0.5):
                error = message.error()
                if error is None:
                    hashes[message.partition()].update(_framed(message))
                    counts[message.partition()] += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                else:
                    raise BenchError(f"{topic} could not be read: {error}")
    finally:
        consumer.close()
    return [PartitionDigest(records, digest.hexdigest()) for records, digest in zip(counts, hashes, strict=True)]
