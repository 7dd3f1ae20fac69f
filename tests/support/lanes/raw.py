"""Batches that no ordinary client writes, for the tests: timestamps of 0 and below, chosen bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from reconciler_sandbox.handles import ClusterHandle

from reconciler.kafka.client.auth.settings import connection_settings
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.errors import MOVED
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol import produce as producing
from reconciler.kafka.records.batches import seal
from reconciler.kafka.records.records import Record, encode, varint


def cluster_of(handle: ClusterHandle) -> ClusterClient:
    client = handle.super_client()
    servers = client.pop("bootstrap.servers")
    return ClusterClient(handle.name, servers.split(","), connection_settings(client))


def record(offset: int, key: bytes, value: bytes, timestamp: int) -> Record:
    tail = varint(len(key)) + key + varint(len(value)) + value + b"\0"
    return Record(offset, timestamp, 0, memoryview(tail))


def produce_raw(handle: ClusterHandle, topic: str, records: Sequence[tuple[bytes, bytes, int]], codec: int) -> None:
    """One batch to partition 0."""
    raw = memoryview(encode([record(i, *fields) for i, fields in enumerate(records)], codec))
    seal(raw, (-1, -1), -1, transactional=False)
    assert asyncio.run(send(handle, topic, raw)) == 0


async def send(handle: ClusterHandle, topic: str, raw: memoryview, partition: int = 0) -> int:
    """The error code the broker gives."""
    cluster = cluster_of(handle)
    try:
        for _ in range(100):  # a new topic takes a moment to be told
            await cluster.refresh([topic])
            if (leader := cluster.leader(topic, partition)) is not None:
                break
            await asyncio.sleep(0.1)
        assert leader is not None
        connection = await cluster.connection(leader.node, "produce")
        body = producing.pack(producing.CLASSIC, None, {(topic, partition): raw}, 10_000)
        for _ in range(100):  # and another one to be led
            frame = await connection.send((protocol.PRODUCE, producing.CLASSIC, False), body)
            (answer,) = producing.unpack(producing.CLASSIC, frame.body)[1]
            if answer.error not in MOVED:
                break
            await asyncio.sleep(0.1)
        return answer.error
    finally:
        cluster.close()
