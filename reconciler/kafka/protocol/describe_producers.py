"""DescribeProducers (KIP-664, from Kafka 2.8): open transactions of a partition."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from reconciler.kafka.protocol.flexible import NO_TAGS, ResponseReader, count, reading, string

DESCRIBE_PRODUCERS, VERSION = 61, 0
_PRODUCER = struct.Struct(">qiiqiq")

Open = tuple[tuple[int, int], ...]
"""Producer id and epoch of each open transaction."""


def pack(topics: Mapping[str, Sequence[int]]) -> bytes:
    parts = [count(len(topics))]
    for name, partitions in topics.items():
        numbers = struct.pack(f">{len(partitions)}i", *partitions)
        parts += [string(name), count(len(partitions)), numbers, NO_TAGS]
    return b"".join((*parts, NO_TAGS))


@reading("a DescribeProducers")
def unpack(frame: memoryview) -> tuple[int, dict[tuple[str, int], int | Open]]:
    """(throttle in ms, by topic and partition: Kafka's error code, or its open transactions)."""
    reader = ResponseReader(frame)
    throttle = reader.int32()
    offsets: dict[tuple[str, int], int | Open] = {}
    for _ in range(reader.count()):
        name = reader.string()
        for _ in range(reader.count()):
            partition, error = reader.int32(), reader.int16()
            reader.string()
            producers = [_producer(reader) for _ in range(reader.count())]
            reader.tags()
            offsets[name, partition] = error or tuple((p, e) for p, e, first in producers if first >= 0)
        reader.tags()
    return throttle, offsets


def _producer(reader: ResponseReader) -> tuple[int, int, int]:
    """Producer id, epoch, first offset of its open transaction (-1: none)."""
    producer_id, epoch, _, _, _, first = reader.fixed(_PRODUCER)
    reader.tags()
    return producer_id, epoch, first
