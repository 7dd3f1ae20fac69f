"""DeleteRecords (KIP-107): moves the first offset of partitions forward."""

import asyncio
import struct
from collections.abc import Mapping

from reconciler.kafka.client.cluster import NO_LEADER, ClusterClient
from reconciler.kafka.client.errors import LEFT_OUT, BrokerError, check
from reconciler.kafka.protocol.flexible import NO_TAGS, ResponseReader, reading, topics_of

DELETE_RECORDS, VERSION = 21, 2
TIMEOUT_MS = 10_000
_PARTITION = struct.Struct(">iq")
_ANSWER = struct.Struct(">iqh")

Key = tuple[str, int]


async def delete_records(cluster: ClusterClient, before: Mapping[Key, int]) -> None:
    """Deletes records before an offset of each partition; the offset is the new log start.

    Uses the leaders in ``cluster.topics``. May be repeated. Raises BrokerError (29: Delete on the topic is missing; 1:
    the offset is beyond the high watermark) and ConnectionLostError.
    """
    by_node = cluster.by_leader(before)
    if lost := by_node.get(NO_LEADER):
        raise BrokerError(5, f"{lost[0][0]}-{lost[0][1]} on {cluster.name}")
    await asyncio.gather(*(_at(cluster, node, {key: before[key] for key in keys}) for node, keys in by_node.items()))


async def _at(cluster: ClusterClient, node: int, before: Mapping[Key, int]) -> None:
    connection = await cluster.control(node)
    errors = await connection.ask((DELETE_RECORDS, VERSION, True), pack(before, TIMEOUT_MS), unpack)
    for key, offset in before.items():
        check(errors.get(key, LEFT_OUT), f"deleting the records of {key[0]}-{key[1]} before offset {offset}")


def pack(before: Mapping[Key, int], timeout_ms: int) -> bytes:
    """Version 2. ``before``: partition -> first offset to keep."""
    entries = {key: _PARTITION.pack(key[1], offset) + NO_TAGS for key, offset in before.items()}
    return b"".join((topics_of(entries), struct.pack(">i", timeout_ms), NO_TAGS))


@reading("a DeleteRecords")
def unpack(frame: memoryview) -> tuple[int, dict[Key, int]]:
    """(throttle in ms, Kafka's error code by topic and partition)."""
    reader = ResponseReader(frame)
    throttle = reader.int32()
    errors = {(topic, partition): error for topic, (partition, _, error) in reader.by_partition(_ANSWER)}
    reader.finish()
    return throttle, errors
