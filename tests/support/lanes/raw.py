"""Batches that no ordinary client writes, for the tests: timestamps of 0 and below, chosen bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sandbox.handles import ClusterHandle
from wire import producing, protocol
from wire.batches import seal
from wire.cluster import Cluster
from wire.errors import MOVED
from wire.records import Record, encode, varint
from wire.settings import connection_settings


def cluster_of(handle: ClusterHandle) -> Cluster:
    client = handle.super_client()
    servers = client.pop("bootstrap.servers")
    return Cluster(handle.name, servers.split(","), connection_settings(client))


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
        await cluster.refresh([topic])
        leader = cluster.leader(topic, partition)
        assert leader is not None
        connection = await cluster.connection(leader.node, "produce")
        body = producing.pack(producing.CLASSIC, None, {(topic, partition): raw}, 10_000)
        for _ in range(100):  # a new topic takes a moment to be led
            frame = await connection.send((protocol.PRODUCE, producing.CLASSIC, False), body)
            (answer,) = producing.unpack(producing.CLASSIC, frame.body)[1]
            if answer.error not in MOVED:
                break
            await asyncio.sleep(0.1)
        return answer.error
    finally:
        cluster.close()
