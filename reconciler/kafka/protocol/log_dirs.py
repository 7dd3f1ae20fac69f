"""How many bytes partitions take on the disks of all brokers (DescribeLogDirs, KIP-113)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from wire import protocol
from wire.cluster import Cluster, Key
from wire.errors import check


async def sizes(cluster: Cluster, partitions: Mapping[str, int]) -> dict[Key, int]:
    """Bytes over all replicas, by topic and partition. ``partitions``: topic -> how many it has.

    Raises BrokerError (31: not allowed to describe the cluster) and ConnectionLostError; no answer is half an answer.
    """
    await cluster.refresh(())
    parts = await asyncio.gather(*(_of_broker(cluster, node, partitions) for node in cluster.brokers))
    found: dict[Key, int] = {}
    for part in parts:
        for key, size in part.items():
            found[key] = found.get(key, 0) + size
    return found


async def _of_broker(cluster: Cluster, node: int, partitions: Mapping[str, int]) -> dict[Key, int]:
    request = protocol.DescribeLogDirsRequest
    entry = request.DescribableLogDirTopic
    topics = [entry(topic=name, partitions=list(range(count))) for name, count in sorted(partitions.items())]
    connection = await cluster.control(node)
    answer = await connection.call(request(topics=topics, version=connection.version(request)))
    what = f"log dirs of broker {node} of {cluster.name}"
    check(getattr(answer, "error_code", 0) or 0, what)
    found: dict[Key, int] = {}
    for folder in answer.results:
        check(folder.error_code, what)
        for topic in folder.topics:
            for one in topic.partitions:
                key = (topic.name, one.partition_index)
                found[key] = found.get(key, 0) + one.partition_size
    return found
