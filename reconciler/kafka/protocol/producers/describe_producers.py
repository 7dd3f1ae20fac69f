"""DescribeProducers (KIP-664, from Kafka 2.8): who writes to a partition, how far, in which transaction."""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reconciler.kafka.client.connection import Connection
from reconciler.kafka.protocol.flexible import NO_TAGS, ResponseReader, count, reading, string

DESCRIBE_PRODUCERS, VERSION = 61, 0
_PRODUCER = struct.Struct(">qiiqiq")


class ActiveProducer(NamedTuple):
    """An idempotent or transactional producer as the leader of a partition knows it, until it forgets it
    (``producer.id.expiration.ms``). ``last_sequence``: of the last record it wrote, -1 where only markers are known.
    ``open_from``: first offset of its open transaction, -1 for none. ``coordinator_epoch``: of its last marker, -1 for
    none. ``last_ms``: the timestamp of the last record it wrote."""

    producer_id: int
    epoch: int
    last_sequence: int
    open_from: int
    coordinator_epoch: int = -1
    last_ms: int = -1


Producers = tuple[ActiveProducer, ...]


async def ask(
    connection: Connection, topics: Mapping[str, Sequence[int]]
) -> Mapping[tuple[str, int], int | Producers] | None:
    """Of the broker that leads them. None: it is older. Raises ConnectionLostError and MalformedResponseError."""
    _, newest = connection.versions.get(DESCRIBE_PRODUCERS, (0, -1))
    if newest < VERSION:
        return None
    return await connection.ask((DESCRIBE_PRODUCERS, VERSION, True), pack(topics), unpack)


def pack(topics: Mapping[str, Sequence[int]]) -> bytes:
    parts = [count(len(topics))]
    for name, partitions in topics.items():
        numbers = struct.pack(f">{len(partitions)}i", *partitions)
        parts += [string(name), count(len(partitions)), numbers, NO_TAGS]
    return b"".join((*parts, NO_TAGS))


@reading("a DescribeProducers")
def unpack(frame: memoryview) -> tuple[int, dict[tuple[str, int], int | Producers]]:
    """(throttle in ms, by topic and partition: Kafka's error code, or its producers)."""
    reader = ResponseReader(frame)
    throttle = reader.int32()
    offsets: dict[tuple[str, int], int | Producers] = {}
    for _ in range(reader.count()):
        name = reader.string()
        for _ in range(reader.count()):
            partition, error = reader.int32(), reader.int16()
            reader.string()
            producers = tuple(_producer(reader) for _ in range(reader.count()))
            reader.tags()
            offsets[name, partition] = error or producers
        reader.tags()
    return throttle, offsets


def _producer(reader: ResponseReader) -> ActiveProducer:
    producer_id, epoch, sequence, last_ms, coordinator_epoch, first = reader.fixed(_PRODUCER)
    reader.tags()
    return ActiveProducer(producer_id, epoch, sequence, first, coordinator_epoch, last_ms)
