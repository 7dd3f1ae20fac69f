"""Reads all topics of a live cluster, or named ones, with partitions and configs. Never auto-creates a topic.

Topics come from one Metadata request for all names, then ids, partitions and configs in batches. Equal values are
kept once: ten thousand topics mostly share the same thirty config entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType

from reconciler.backends.clusters.topics.config_cache import (
    BUILT_IN,
    TOPIC,
    Configs,
    ConfigShelf,
    hidden_topic,
    unknown_configs,
)
from reconciler.backends.clusters.topics.name_batches import VISIBILITY_PROBE, batched
from reconciler.backends.connections import errors
from reconciler.backends.connections.librdkafka import CONNECT_SECONDS, REQUEST_SECONDS, AdminConnection, kafka_error_of
from reconciler.errors import ClusterError, Unknown
from reconciler.kafka.protocol.metadata_and_configs import ConfigOf
from reconciler.model.live import Broker, LiveCluster, LivePartition, LiveTopic

DESCRIBE_TOPICS_BATCH = 2_000
DESCRIBE_CONFIGS_BATCH = 250
CONFIG_REQUESTS_IN_FLIGHT = 3


def read_cluster(
    connection: AdminConnection,
    topics: Collection[str] | None = None,
    config_broker: int | None = None,
    within: float = CONNECT_SECONDS,
) -> LiveCluster:
    """All topics the principal may see, or only those of ``topics`` that exist.

    ``config_broker``: the broker to ask for configs, None for any. ``within``: seconds for the first answer. Raises
    ClusterError.
    """
    connection.wait_out_throttle()
    described = connection.cluster(within)
    name = connection.speaker.cluster
    names = _all_names(connection) if topics is None else sorted(set(topics))
    by_name, hidden, sees_all = _topics(connection, names)
    configs = _configs(connection, list(by_name), config_broker)
    return LiveCluster(
        name=name,
        cluster_id=described.cluster_id,
        brokers=brokers_of(described),
        topics=MappingProxyType(
            {
                topic: LiveTopic(topic, topic_id, partitions, configs[topic], internal)
                for topic, (topic_id, partitions, internal) in by_name.items()
                if topic in configs
            }
        ),
        sees_all=sees_all,
        hidden=MappingProxyType(hidden),
    )


def brokers_of(described: Any) -> tuple[Broker, ...]:
    """``described``: confluent_kafka.admin.DescribeClusterResult."""
    nodes = sorted(described.nodes, key=lambda node: node.id)
    return tuple(Broker(node.id, node.host, node.port, node.rack or None) for node in nodes)


def _all_names(connection: AdminConnection) -> list[str]:
    try:
        return sorted(connection.admin.list_topics(timeout=REQUEST_SECONDS).topics)
    except KafkaException as error:
        raise connection.error(error.args[0], errors.DESCRIBE_CLUSTER) from None


Described = tuple[str, tuple[LivePartition, ...], bool]


def _topics(connection: AdminConnection, names: Sequence[str]) -> tuple[dict[str, Described], dict[str, Unknown], bool]:
    """Topic id, partitions and internal flag by name; those it may not see; and whether it may see every topic."""
    ids: dict[tuple[int, ...], tuple[int, ...]] = {}
    topics: dict[str, Described] = {}
    hidden: dict[str, Unknown] = {}
    sees_all = True
    for topic, described in describe_topics(connection, names):
        sees_all = sees_all and not isinstance(described, ClusterError)
        if topic == VISIBILITY_PROBE:
            continue
        if isinstance(described, ClusterError):
            hidden[topic] = hidden_topic(connection.speaker, topic, described)
        else:
            topics[topic] = _described(described, ids)
    return topics, hidden, sees_all


def describe_topics(
    connection: AdminConnection, names: Iterable[str], **options: bool
) -> Iterator[tuple[str, Any | ClusterError]]:
    """``TopicDescription`` of each name and of ``VISIBILITY_PROBE``, or that it may not be seen; what does not exist is
    left out. Raises ClusterError."""
    for batch in batched([*names, VISIBILITY_PROBE], DESCRIBE_TOPICS_BATCH):
        futures = connection.admin.describe_topics(TopicCollection(batch), request_timeout=REQUEST_SECONDS, **options)
        connection.settle(futures.values())
        for topic, future in futures.items():
            failed = connection.failure(future, errors.describe_topic(topic))
            if failed is None or failed.kind == "denied":
                yield topic, failed or future.result()
            elif failed.kind not in ("missing", "invalid"):
                raise failed


def _described(topic: Any, ids: dict[tuple[int, ...], tuple[int, ...]]) -> Described:
    def shared(nodes: Iterable[Any]) -> tuple[int, ...]:
        key = tuple(node.id for node in nodes)
        return ids.setdefault(key, key)

    partitions = tuple(
        LivePartition(
            part.id, part.leader.id if part.leader is not None else -1, shared(part.replicas), shared(part.isr)
        )
        for part in sorted(topic.partitions, key=lambda part: part.id)
    )
    topic_id = str(topic.topic_id).replace("+", "-").replace("/", "_")  # as Kafka itself prints it
    return topic_id, partitions, bool(topic.is_internal)


def _configs(connection: AdminConnection, names: Sequence[str], broker: int | None) -> dict[str, Configs]:
    """By topic; a topic deleted meanwhile is left out, one whose configs are refused is Unknown."""
    shelf = ConfigShelf()
    steer = {} if broker is None else {"broker": broker}
    answers: dict[str, Configs] = {}
    for group in batched(batched(names, DESCRIBE_CONFIGS_BATCH), CONFIG_REQUESTS_IN_FLIGHT):
        asked: dict[ConfigResource, Any] = {}
        for batch in group:
            resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in batch]
            asked |= connection.admin.describe_configs(resources, request_timeout=REQUEST_SECONDS, **steer)
        connection.settle(asked.values())
        while asked:
            resource, future = asked.popitem()
            error = kafka_error_of(future)
            if error is None:
                answers[resource.name] = shelf.mapping(_entries(future.result()))
                continue
            failed = connection.error(error, errors.describe_configs(resource.name))
            if failed.kind == "unreachable":
                raise failed
            if failed.kind != "missing":
                answers[resource.name] = unknown_configs(connection.speaker, resource.name, failed)
    return answers


def _entries(fields: Mapping[str, Any]) -> tuple[ConfigOf, ...]:
    """librdkafka's number 0 of a source is "unknown": an old broker that returns none."""
    return tuple(
        ConfigOf(
            name,
            entry.value,
            int(entry.source) or (BUILT_IN if entry.is_default else TOPIC),
            bool(entry.is_sensitive),
            bool(entry.is_read_only),
        )
        for name, entry in fields.items()
    )
