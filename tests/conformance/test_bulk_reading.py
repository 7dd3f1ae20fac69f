"""A read of a whole cluster agrees with what librdkafka reads, and outlives a lost connection. Real: every sandbox."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.clusters.topics import read as reading
from reconciler.backends.clusters.topics.read import NAMES
from reconciler.errors import ClusterError, Unknown
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import (
    ConnectionLostError,
    MalformedResponseError,
    UnsupportedBrokerError,
    WireError,
)
from reconciler.kafka.protocol.metadata_and_configs import ClusterOf
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import LiveCluster, LiveTopic
from tests.support.clusters import CreateTopic, real_cluster

pytestmark = pytest.mark.kafka


def read(cluster: Cluster, topics: list[str] | None = None) -> LiveCluster:
    with KafkaCluster(cluster, Principal.PLAN) as reader:
        return reader.read(topics)


def as_librdkafka_reads(east: ClusterHandle, topic: str) -> tuple[object, ...]:
    admin = AdminClient({**east.super_client(), "log_level": "0"})
    until = time.monotonic() + 30
    while (asked := admin.describe_topics(TopicCollection([topic]))[topic]).exception(30) is not None:
        assert time.monotonic() < until, "one of the brokers has not heard of it yet"
    described = asked.result()
    [configs] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    parts = [
        (part.id, part.leader.id, tuple(node.id for node in part.replicas), tuple(sorted(node.id for node in part.isr)))
        for part in sorted(described.partitions, key=lambda part: part.id)
    ]
    topic_id = str(described.topic_id).replace("+", "-").replace("/", "_")
    entries = {
        entry.name: (entry.value, entry.is_sensitive, entry.is_read_only) for entry in configs.result(30).values()
    }
    return topic_id, parts, entries


def as_we_read(topic: LiveTopic) -> tuple[object, ...]:
    assert not isinstance(topic.configs, Unknown)
    parts = [(part.index, part.leader, part.replicas, tuple(sorted(part.isr))) for part in topic.partitions]
    entries = {name: (value.value, value.sensitive, value.read_only) for name, value in topic.configs.items()}
    return topic.topic_id, parts, entries


def test_each_partition_and_config_is_as_librdkafka_reads_it(
    ha_east: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    east = ha_east.clusters["east"]
    wide = create_topic(east, f"{unique}.wide", 12, 3, retention_ms="60000", cleanup_policy="compact")
    narrow = create_topic(east, f"{unique}.narrow", 1, 2)
    until = time.monotonic() + 30
    while len(found := {n: t for n, t in read(real_cluster(east)).topics.items() if n in (wide, narrow)}) < 2:
        assert time.monotonic() < until, "one of the brokers has not heard of both yet"
    for name, topic in found.items():
        assert as_we_read(topic) == as_librdkafka_reads(east, name)
    assert found[wide].overrides == {"retention.ms": "60000", "cleanup.policy": "compact"}


def test_named_topics_are_read_and_those_that_do_not_exist_are_left_out(
    plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    there = create_topic(plain.clusters["east"], f"{unique}.there")
    named = [there, *(f"{unique}.missing-{n}" for n in range(NAMES)), "not a topic's name!"]
    assert list(read(real_cluster(plain.clusters["east"]), named).topics) == [there]


def test_over_tls_and_scram_what_is_hidden_or_denied_is_reported(
    secure: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    east: ClusterHandle = secure.clusters["east"]
    denied, hidden = create_topic(east, f"user.{unique}", 2), create_topic(east, f"{unique}.hidden")
    user = real_cluster(east, "user")
    whole, named = read(user), read(user, [denied, hidden])
    assert hidden not in whole.topics
    assert list(named.hidden) == [hidden]
    assert not whole.sees_all
    assert isinstance(whole.topics[denied].configs, Unknown)
    assert named.topics == {denied: whole.topics[denied]}


@pytest.mark.parametrize(
    ("error", "outlived"),
    [(ConnectionLostError, True), (MalformedResponseError, True), (UnsupportedBrokerError, False)],
)
def test_a_read_that_breaks_off_is_done_again_once(
    plain: Sandbox, monkeypatch: pytest.MonkeyPatch, error: type[WireError], outlived: bool
) -> None:
    failed: list[int] = []
    whole = reading.metadata

    async def fail_once(line: Connection, names: list[str] | None) -> ClusterOf:
        if names is None and not failed:
            failed.append(1)
            raise error("broken off")
        return await whole(line, names)

    monkeypatch.setattr(reading, "metadata", fail_once)
    cluster = real_cluster(plain.clusters["east"])
    if outlived:
        assert read(cluster).cluster_id == plain.clusters["east"].cluster_id
    else:
        with pytest.raises(ClusterError, match="Broken off"):
            read(cluster)
    assert failed
