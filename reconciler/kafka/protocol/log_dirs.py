"""DescribeLogDirs (KIP-113): bytes of partitions on the disks of all brokers."""

import asyncio
from collections.abc import Mapping
from typing import Any

from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.client.errors import check
from reconciler.kafka.protocol import generated as protocol


async def sizes(cluster: ClusterClient, partitions: Mapping[str, int]) -> dict[Key, int]:
    """Partition -> bytes over all replicas. ``partitions``: topic -> partition count.

    Raises BrokerError (31: no right to describe the cluster) and ConnectionLostError; never returns a partial answer.
    """
    await cluster.refresh(())
    parts = await asyncio.gather(*(_of_broker(cluster, node, partitions) for node in cluster.brokers))
    offsets: dict[Key, int] = {}
    for part in parts:
        for key, size in part.items():
            offsets[key] = offsets.get(key, 0) + size
    return offsets


CLUSTER_AUTHORIZATION_FAILED = 31


def refusal(answer: Any) -> int:
    """Error code of a whole answer, 0 for none. Before KIP-784 brokers returned no code, and no folder to an
    unauthorized principal; each broker has one."""
    code = int(getattr(answer, "error_code", 0) or 0)
    return code or (0 if answer.results else CLUSTER_AUTHORIZATION_FAILED)


async def _of_broker(cluster: ClusterClient, node: int, partitions: Mapping[str, int]) -> dict[Key, int]:
    """Bytes of the replicas that one broker has, summed over its folders: a replica that moves between disks is in
    two."""
    request = protocol.DescribeLogDirsRequest
    entry = request.DescribableLogDirTopic
    topics = [entry(topic=name, partitions=list(range(count))) for name, count in sorted(partitions.items())]
    connection = await cluster.control(node)
    answer = await connection.call(request(topics=topics, version=connection.version(request)))
    description = f"log dirs of broker {node} of {cluster.name}"
    check(refusal(answer), description)
    offsets: dict[Key, int] = {}
    for folder in answer.results:
        check(folder.error_code, description)
        for topic in folder.topics:
            for partition in topic.partitions:
                key = (topic.name, partition.partition_index)
                offsets[key] = offsets.get(key, 0) + partition.partition_size
    return offsets
