"""What is true of offsets on both sides, found out the slow way: every record read with a stock consumer."""

from __future__ import annotations

import asyncio
from bisect import bisect_left

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from reconciler.replication.names import OFFSETS_PARTITIONS, OFFSETS_TOPIC
from reconciler.replication.offsets.map import PartitionMap
from reconciler.replication.offsets.reader import MapReader
from reconciler.sandbox.handles import ClusterHandle
from tests.support.lanes.lane_runs import Flow
from tests.support.lanes.raw import cluster_of
from tests.support.reading import to_the_end


def map_topic(handle: ClusterHandle) -> None:
    """As the plan makes it; tests share it."""
    configs = {"cleanup.policy": "compact"}
    topic = NewTopic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, 1, config=configs)
    admin = AdminClient(handle.super_client())
    try:
        admin.create_topics([topic], operation_timeout=20)[OFFSETS_TOPIC].result(30)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def placed(
    handle: ClusterHandle, topic: str, partition: int = 0, isolation: str = "read_committed"
) -> dict[bytes, int]:
    """Value -> offset of every record there; values are unique. In order of offsets."""
    found: dict[bytes, int] = {}
    for message in to_the_end(handle, topic, [partition], isolation):
        assert message.value() not in found, f"{message.value()!r} is there twice"
        found[message.value()] = message.offset()
    return found


def offset_map(flow: Flow, partition: int = 0) -> PartitionMap:
    async def read() -> PartitionMap:
        target = cluster_of(flow.target)
        try:
            reader = MapReader(target, flow.topic)
            await reader.refresh()
            return reader.partition(flow.topic, partition)
        finally:
            target.close()

    return asyncio.run(read())


def inexact(flow: Flow, partition: int) -> int:
    """How many positions the map alone does not translate exactly. Fails for one that is wrong, or ahead.

    Exact means: the first record of the target's log from there on is the counterpart of the first one from the
    position on that has any. Offsets before it may be skipped over only where the log has no record: control markers,
    and what was aborted.
    """
    here, there = placed(flow.source, flow.topic, partition), placed(flow.target, flow.remote, partition)
    pairs = sorted((here[value], there[value]) for value in there)
    sources, targets = [source for source, _ in pairs], sorted(there.values())
    ours, missed = offset_map(flow, partition), 0
    for position in range(pairs[-1][0] + 1):
        right = pairs[bisect_left(sources, position)][1]
        found = ours.downstream(position)
        assert found.offset is None or found.offset <= right, (position, found, right)
        if found.exact:
            assert found.offset is not None
            assert targets[bisect_left(targets, found.offset)] == right, (position, found, right)
        else:
            missed += 1
    return missed


def raw_records(handle: ClusterHandle, topic: str, partition: int = 0) -> list[tuple[bytes, bytes]]:
    """(key, value) of every record, in order."""
    return [(message.key(), message.value()) for message in to_the_end(handle, topic, [partition])]
