"""Reads a whole cluster, or named topics, into a LiveCluster. Never creates a topic by asking for it.

Topics come from one Metadata request for all names, then ids, partitions and configs in batches. Equal values are
kept once: ten thousand topics mostly share the same thirty config entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType

from reconciler.edges.kafka import errors
from reconciler.edges.kafka.asked_names import VISIBILITY_PROBE, batched
from reconciler.edges.kafka.config_shelf import BUILT_IN, TOPIC, Configs, ConfigShelf, hidden_topic, unknown_configs
from reconciler.edges.kafka.connection import CONNECT_SECONDS, REQUEST_SECONDS, Connection, kafka_error_of
from reconciler.errors import Unknown
from reconciler.live import Broker, LiveCluster, LivePartition, LiveTopic
from wire.topics import ConfigOf

DESCRIBE_TOPICS_BATCH = 2_000
DESCRIBE_CONFIGS_BATCH = 250
CONFIG_REQUESTS_IN_FLIGHT = 3


def read_cluster(
    connection: Connection,
    topics: Collection[str] | None = None,
    config_broker: int | None = None,
    within: float = CONNECT_SECONDS,
) -> LiveCluster:
    """All topics the principal may see, or only those of ``topics`` that exist.

    ``config_broker``: the broker to ask for configs, None for any. ``within``: seconds for the first answer. Raises
    ClusterError.
    """
    connection.wait_out_throttle()
    request = connection.admin.describe_cluster(request_timeout=within)
    described = connection.first(request, errors.DESCRIBE_CLUSTER, within)
    name = connection.speaker.cluster
    names = _all_names(connection) if topics is None else sorted(set(topics))
    found, hidden, sees_all = _topics(connection, names)
    configs = _configs(connection, list(found), config_broker)
    return LiveCluster(
        name=name,
        cluster_id=described.cluster_id,
        brokers=brokers_of(described),
        topics=MappingProxyType(
            {
                topic: LiveTopic(topic, topic_id, partitions, configs[topic], internal)
                for topic, (topic_id, partitions, internal) in found.items()
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


def _all_names(connection: Connection) -> list[str]:
    try:
        return sorted(connection.admin.list_topics(timeout=REQUEST_SECONDS).topics)
    except KafkaException as error:
        raise connection.error(error.args[0], errors.DESCRIBE_CLUSTER) from None


Described = tuple[str, tuple[LivePartition, ...], bool]


def _topics(connection: Connection, names: Sequence[str]) -> tuple[dict[str, Described], dict[str, Unknown], bool]:
    """Topic id, partitions and internal flag by name; those it may not see; and whether it may see every topic."""
    ids: dict[tuple[int, ...], tuple[int, ...]] = {}
    found: dict[str, Described] = {}
    hidden: dict[str, Unknown] = {}
    sees_all = True
    for batch in batched([*names, VISIBILITY_PROBE], DESCRIBE_TOPICS_BATCH):
        futures = connection.admin.describe_topics(TopicCollection(batch), request_timeout=REQUEST_SECONDS)
        connection.settle(futures.values())
        for topic, future in futures.items():
            failed = connection.failure(future, errors.describe_topic(topic))
            if failed is None:
                if topic != VISIBILITY_PROBE:
                    found[topic] = _described(future.result(), ids)
            elif failed.kind == "denied":
                sees_all = False
                if topic != VISIBILITY_PROBE:
                    hidden[topic] = hidden_topic(connection.speaker, topic, failed)
            elif failed.kind not in ("missing", "invalid"):
                raise failed
    return found, hidden, sees_all


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


def _configs(connection: Connection, names: Sequence[str], broker: int | None) -> dict[str, Configs]:
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


def _entries(told: Mapping[str, Any]) -> tuple[ConfigOf, ...]:
    """librdkafka's number 0 of a source is "unknown": an old broker that tells none."""
    return tuple(
        ConfigOf(
            name,
            entry.value,
            int(entry.source) or (BUILT_IN if entry.is_default else TOPIC),
            bool(entry.is_sensitive),
            bool(entry.is_read_only),
        )
        for name, entry in told.items()
    )
