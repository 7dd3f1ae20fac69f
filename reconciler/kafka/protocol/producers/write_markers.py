"""WriteTxnMarkers (KIP-98, API 27): transaction markers, written by principals with Alter or ClusterAction.

A leader refuses a marker with a lower producer epoch or coordinator epoch than the last one it knows of that producer
id. It need not know the producer, and no transaction has to be open: then a marker is one offset without a record.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from reconciler.kafka.client.connection import Connection
from reconciler.kafka.protocol.flexible import NO_TAGS, ResponseReader, count, reading, string

WRITE_MARKERS, VERSION = 27, 1
"""Version 2 (Kafka 4.2) adds the transaction's version."""
DENIED, UNSUPPORTED, STALE_EPOCH, STALE_COORDINATOR = 31, 35, 47, 52
_HEAD, _COORDINATOR = struct.Struct(">qh?"), struct.Struct(">i")
_PRODUCER, _ANSWER = struct.Struct(">q"), struct.Struct(">ih")

Key = tuple[str, int]


class Epochs(NamedTuple):
    """Epochs of a marker. -1: the leader does not know the producer id."""

    producer: int = -1
    coordinator: int = -1


async def write_markers(
    connection: Connection, producer_id: int, markers: Mapping[Key, Epochs], patience: float
) -> Mapping[Key, int]:
    """One abort marker for each partition, of which the broker is the leader. Kafka's error code by topic and
    partition; a missing one is unknown. Answered once all replicas in sync have the markers.

    Raises ConnectionLostError and MalformedResponseError; then they may have been written, or be written yet.
    """
    lowest, newest = connection.versions.get(WRITE_MARKERS, (0, -1))
    if not lowest <= VERSION <= newest:
        return dict.fromkeys(markers, UNSUPPORTED)
    frame = await connection.send((WRITE_MARKERS, VERSION, True), [pack(producer_id, markers)], patience)
    with connection.read(frame):
        errors = unpack(frame.body)
    if DENIED in errors.values():  # of the whole request; only the last marker of a producer id is named then
        return dict.fromkeys(markers, DENIED)
    return errors


def pack(producer_id: int, markers: Mapping[Key, Epochs]) -> bytes:
    parts = [count(len(markers))]
    for (topic, partition), epochs in markers.items():
        parts += [_HEAD.pack(producer_id, epochs.producer, False), count(1), string(topic)]
        parts += [count(1), struct.pack(">i", partition), NO_TAGS, _COORDINATOR.pack(epochs.coordinator), NO_TAGS]
    return b"".join((*parts, NO_TAGS))


@reading("a WriteTxnMarkers")
def unpack(frame: memoryview) -> dict[Key, int]:
    """Kafka's error code by topic and partition."""
    reader = ResponseReader(frame)
    errors: dict[Key, int] = {}
    for _ in range(reader.count()):
        reader.fixed(_PRODUCER)
        errors |= {(topic, partition): error for topic, (partition, error) in reader.by_partition(_ANSWER)}
        reader.tags()
    reader.finish()
    return errors
