"""Reads which partitions of a cluster are offline or short of replicas: one Metadata request, made again and again
while a rollout soaks, so nothing else is read.
"""

from __future__ import annotations

from confluent_kafka import KafkaException

from reconciler.edges.kafka import errors
from reconciler.edges.kafka.connection import CONNECT_SECONDS, REQUEST_SECONDS, Connection
from reconciler.healths import ClusterHealth, Short


def read_health(connection: Connection) -> ClusterHealth:
    """Of the topics that the principal may see. Raises ClusterError."""
    request = connection.admin.describe_cluster(request_timeout=CONNECT_SECONDS)
    described = connection.first(request, errors.DESCRIBE_CLUSTER)
    try:
        topics = connection.admin.list_topics(timeout=REQUEST_SECONDS).topics
    except KafkaException as error:
        raise connection.error(error.args[0], errors.DESCRIBE_CLUSTER) from None
    offline: list[str] = []
    short: list[Short] = []
    for name in sorted(topics):
        for index, part in sorted(topics[name].partitions.items()):
            if part.leader < 0:
                offline.append(f"{name}-{index}")
            if not set(part.replicas) <= set(part.isrs):
                short.append(Short(name, index, tuple(part.replicas), tuple(part.isrs)))
    return ClusterHealth(connection.speaker.cluster, len(described.nodes), tuple(offline), tuple(short))
