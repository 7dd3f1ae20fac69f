"""What is true of offsets on both sides, found out the slow way: every record read with a stock consumer."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_sandbox.handles import ClusterHandle

from reconciler.kafka.client.cluster import NO_ID
from reconciler.kafka.client.log_ends import log_ends
from reconciler.replication.names import OFFSETS_PARTITIONS, OFFSETS_TOPIC
from reconciler.replication.offsets.map import PartitionMap
from reconciler.replication.offsets.map_topic import MapReader
from tests.support.lanes.lane_runs import Content, Flow, fill
from tests.support.lanes.raw import cluster_of
from tests.support.reading import to_the_end

PAIR = 2
"""Partitions of the topics of flows that keep offsets."""


def map_topic(handle: ClusterHandle) -> None:
    """As the plan makes it; tests share it."""
    configs = {"cleanup.policy": "compact"}
    topic = NewTopic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, len(handle.brokers), config=configs)
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
            return reader.partition(flow.topic, partition, (NO_ID, NO_ID))
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


def records(cluster: ClusterHandle, topic: str) -> dict[tuple[int, int], tuple[bytes | None, bytes | None, int]]:
    """As a reader of committed records gets them, by partition and offset."""
    found = to_the_end(cluster, topic, range(PAIR), "read_committed")
    return {(m.partition(), m.offset()): (m.key(), m.value(), m.timestamp()[1]) for m in found}


async def _ends(cluster: ClusterHandle, topic: str) -> dict[tuple[str, int], object]:
    client = cluster_of(cluster)
    try:
        await client.refresh([topic])
        return dict(await log_ends(client, [(topic, p) for p in range(PAIR)]))
    finally:
        client.close()


def ends(cluster: ClusterHandle, topic: str) -> list[int]:
    told = asyncio.run(_ends(cluster, topic)).values()
    return [end for end in told if isinstance(end, int)]


def assert_equal(flow: Flow) -> None:
    assert ends(flow.target, flow.remote) == ends(flow.source, flow.topic)
    source, target = records(flow.source, flow.topic), records(flow.target, flow.remote)
    assert target.keys() == source.keys()
    assert target == source


def with_topics(flow: Flow, create_topic: Callable[..., str], records: Sequence[Content]) -> Flow:
    """Topics that keep what they hold, the source's with ``records``, and one for the offset map."""
    map_topic(flow.target)
    create_topic(flow.source, flow.topic, retention_ms="-1")
    create_topic(flow.target, flow.remote, retention_ms="-1")
    fill(flow.source, flow.topic, records)
    return flow
