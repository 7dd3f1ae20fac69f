"""DescribeProducers (KIP-664, from Kafka 2.8): active producers of a partition, with sequences and transactions."""

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from reconciler.kafka.client.connection import Connection
from reconciler.kafka.protocol.flexible import NO_TAGS, ResponseReader, reading, topics_of

DESCRIBE_PRODUCERS, VERSION = 61, 0
_PRODUCER, _INDEX = struct.Struct(">qiiqiq"), struct.Struct(">i")

Key = tuple[str, int]


class ActiveProducer(NamedTuple):
    """An idempotent or transactional producer as the leader of a partition knows it, until it forgets it
    (``producer.id.expiration.ms``)."""

    producer_id: int
    epoch: int
    last_sequence: int
    """Of the last record it wrote, -1 where only markers are known."""
    open_from: int
    """First offset of its open transaction, -1 for none."""
    coordinator_epoch: int = -1
    """Of its last marker, -1 for none."""
    last_ms: int = -1
    """The timestamp of the last record it wrote."""


Producers = tuple[ActiveProducer, ...]


async def ask(connection: Connection, keys: Iterable[Key]) -> Mapping[Key, int | Producers] | None:
    """Asks the leader of these partitions. None: the broker is older. Raises ConnectionLostError and
    MalformedResponseError."""
    _, newest = connection.versions.get(DESCRIBE_PRODUCERS, (0, -1))
    if newest < VERSION:
        return None
    return await connection.ask((DESCRIBE_PRODUCERS, VERSION, True), pack(keys), unpack)


def pack(keys: Iterable[Key]) -> bytes:
    return topics_of({key: _INDEX.pack(key[1]) for key in keys}) + NO_TAGS


@reading("a DescribeProducers")
def unpack(frame: memoryview) -> tuple[int, dict[Key, int | Producers]]:
    """(throttle in ms, by topic and partition: Kafka's error code, or its producers)."""
    reader = ResponseReader(frame)
    throttle = reader.int32()
    offsets: dict[Key, int | Producers] = {}
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
