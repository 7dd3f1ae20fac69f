"""DescribeProducers by hand (KIP-664, from Kafka 2.8): who has a transaction open in a partition's log?"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from wire.compact import NO_TAGS, Reader, count, string
from wire.errors import MalformedResponseError

DESCRIBE_PRODUCERS, VERSION = 61, 0

Open = tuple[tuple[int, int], ...]
"""Producer id and epoch of each open transaction."""


def pack(topics: Mapping[str, Sequence[int]]) -> bytes:
    parts = [count(len(topics))]
    for name, partitions in topics.items():
        numbers = struct.pack(f">{len(partitions)}i", *partitions)
        parts += [string(name), count(len(partitions)), numbers, NO_TAGS]
    return b"".join((*parts, NO_TAGS))


def unpack(frame: memoryview) -> tuple[int, dict[tuple[str, int], int | Open]]:
    """(throttle in ms, by topic and partition: Kafka's error code, or its open transactions)."""
    try:
        reader = Reader(frame)
        throttle = reader.int32()
        found: dict[tuple[str, int], int | Open] = {}
        for _ in range(reader.count()):
            name = reader.string()
            for _ in range(reader.count()):
                partition, error = reader.int32(), reader.int16()
                reader.string()
                producers = [_producer(reader) for _ in range(reader.count())]
                reader.tags()
                found[name, partition] = error or tuple((p, e) for p, e, first in producers if first >= 0)
            reader.tags()
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise MalformedResponseError(f"a DescribeProducers response cannot be read: {error}") from error
    return throttle, found


def _producer(reader: Reader) -> tuple[int, int, int]:
    """Producer id, epoch, first offset of its open transaction (-1: none)."""
    producer_id, epoch = reader.int64(), reader.int32()
    reader.int32()
    reader.int64()
    reader.int32()
    first = reader.int64()
    reader.tags()
    return producer_id, epoch, first
