"""Reads all topics of a live cluster, or named ones, with partitions and configs. Never auto-creates a topic.

Topics come from one Metadata request for all names, then ids, partitions and configs in batches. Equal values are
kept once: ten thousand topics mostly share the same thirty config entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType

from reconciler.backends.clusters.topics.config_cache import (
    BUILT_IN,
    TOPIC,
    VISIBILITY_PROBE,
    Configs,
    ConfigShelf,
    hidden_topic,
    unknown_configs,
)
from reconciler.backends.connections import errors
from reconciler.backends.connections.librdkafka import CONNECT_SECONDS, REQUEST_SECONDS, AdminConnection, kafka_error_of
from reconciler.errors import ClusterError, Unknown
from reconciler.kafka.protocol.metadata_and_configs import ConfigOf
from reconciler.model.live import Broker, LiveCluster, LivePartition, LiveTopic
from reconciler.text import batched

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
    if topics is not None:
        names = sorted(set(topics))
    else:
        try:
            names = sorted(connection.admin.list_topics(timeout=REQUEST_SECONDS).topics)
        except KafkaException as error:
            raise connection.error(error.args[0], errors.DESCRIBE_CLUSTER) from None
    # Each answer becomes our own values at once: the objects of librdkafka are large, and equal lists of brokers are
    # kept once.
    ids: dict[tuple[int, ...], tuple[int, ...]] = {}
    by_name: dict[str, tuple[str, tuple[LivePartition, ...], bool]] = {}
    hidden: dict[str, Unknown] = {}
    sees_all = True

    def shared(nodes: Iterable[Any]) -> tuple[int, ...]:
        key = tuple(node.id for node in nodes)
        return ids.setdefault(key, key)

    for topic, answer in describe_topics(connection, names):
        sees_all = sees_all and not isinstance(answer, ClusterError)
        if topic == VISIBILITY_PROBE:
            continue
        if isinstance(answer, ClusterError):
            hidden[topic] = hidden_topic(connection.speaker, topic, answer)
            continue
        partitions = tuple(
            LivePartition(
                part.id, part.leader.id if part.leader is not None else -1, shared(part.replicas), shared(part.isr)
            )
            for part in sorted(answer.partitions, key=lambda part: part.id)
        )
        topic_id = str(answer.topic_id).replace("+", "-").replace("/", "_")  # as Kafka itself prints it
        by_name[topic] = topic_id, partitions, bool(answer.is_internal)
    configs = _configs(connection, list(by_name), config_broker)
    live = {
        topic: LiveTopic(topic, topic_id, partitions, configs[topic], internal)
        for topic, (topic_id, partitions, internal) in by_name.items()
        if topic in configs  # else deleted meanwhile
    }
    return LiveCluster(
        name=connection.speaker.cluster,
        cluster_id=described.cluster_id,
        brokers=brokers_of(described),
        topics=MappingProxyType(live),
        sees_all=sees_all,
        hidden=MappingProxyType(hidden),
    )


def brokers_of(described: Any) -> tuple[Broker, ...]:
    """``described``: confluent_kafka.admin.DescribeClusterResult."""
    nodes = sorted(described.nodes, key=lambda node: node.id)
    return tuple(Broker(node.id, node.host, node.port, node.rack or None) for node in nodes)


def describe_topics(
    connection: AdminConnection, names: Iterable[str], **options: bool
) -> Iterator[tuple[str, Any | ClusterError]]:
    """``TopicDescription`` of each name and of ``VISIBILITY_PROBE``, or the refusal if the principal may not describe
    it; topics that do not exist are left out. Raises ClusterError."""
    for batch in batched([*names, VISIBILITY_PROBE], DESCRIBE_TOPICS_BATCH):
        futures = connection.admin.describe_topics(TopicCollection(batch), request_timeout=REQUEST_SECONDS, **options)
        connection.settle(futures.values())
        for topic, future in futures.items():
            failed = connection.failure(future, errors.describe_topic(topic))
            if failed is None or failed.kind == "denied":
                yield topic, failed or future.result()
            elif failed.kind not in ("missing", "invalid"):
                raise failed


def _configs(connection: AdminConnection, names: Sequence[str], broker: int | None) -> dict[str, Configs]:
    """By topic. A topic that was deleted meanwhile is left out; Unknown if the principal may not read its configs."""
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
                entries = tuple(
                    ConfigOf(
                        name,
                        entry.value,
                        # librdkafka's number 0 of a source is "unknown": an old broker that returns none
                        int(entry.source) or (BUILT_IN if entry.is_default else TOPIC),
                        bool(entry.is_sensitive),
                        bool(entry.is_read_only),
                    )
                    for name, entry in future.result().items()
                )
                answers[resource.name] = shelf.mapping(entries)
                continue
            failed = connection.error(error, errors.describe_configs(resource.name))
            if failed.kind == "unreachable":
                raise failed
            if failed.kind != "missing":
                answers[resource.name] = unknown_configs(connection.speaker, resource.name, failed)
    return answers
