"""Log end offsets of partitions: what the leader's log holds, replicated or not.

ListOffsets gives clients the high watermark, which lies before the log end while followers are behind. Who appends
behind what it cannot see needs the end itself: OffsetForLeaderEpoch for the leader's current epoch gives it (KIP-279,
KIP-320), and that the epoch is the current one is checked by the leader.
"""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.kafka.client.cluster import NO_LEADER, ClusterClient, Key, by_topic
from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.protocol import generated as protocol

_MOVED = 6


async def log_ends(cluster: ClusterClient, keys: Iterable[Key]) -> dict[Key, int | BrokerError]:
    """Of the leaders that ``cluster.topics`` names; a partition whose leader or epoch is another by now gets a
    retriable BrokerError. Raises ConnectionLostError."""
    ends: dict[Key, int | BrokerError] = {}
    by_node = cluster.by_leader(keys)
    for key in by_node.pop(NO_LEADER, ()):
        ends[key] = BrokerError(5, f"log end of {key[0]}-{key[1]} on {cluster.name}")
    for node, led in by_node.items():
        ends |= await _at(cluster, node, led)
    return ends


async def _at(cluster: ClusterClient, node: int, keys: Iterable[Key]) -> dict[Key, int | BrokerError]:
    request = protocol.OffsetForLeaderEpochRequest
    topic_type, partition_type = request.OffsetForLeaderTopic, request.OffsetForLeaderTopic.OffsetForLeaderPartition
    epochs = {key: leader.epoch if (leader := cluster.leader(*key)) is not None else -1 for key in keys}
    asked = [
        topic_type(
            topic=name,
            partitions=[
                partition_type(partition=p, current_leader_epoch=epochs[name, p], leader_epoch=epochs[name, p])
                for p in partitions
            ],
        )
        for name, partitions in by_topic(epochs).items()
    ]
    connection = await cluster.control(node)
    answer = await connection.call(request(replica_id=-1, topics=asked, version=connection.version(request)))
    ends: dict[Key, int | BrokerError] = {}
    for topic in answer.topics:
        for p in topic.partitions:
            key = (topic.topic, p.partition)
            subject = f"log end of {key[0]}-{key[1]} on {cluster.name}"
            if p.error_code:
                ends[key] = BrokerError(p.error_code, subject)
            elif p.leader_epoch != epochs[key] or p.end_offset < 0:
                ends[key] = BrokerError(_MOVED, f"{subject}, epoch {epochs[key]}")
            else:
                ends[key] = p.end_offset
    return ends
