"""Our own read of a whole cluster says what librdkafka says, and steps aside where it cannot. Real: every sandbox."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.clusters.topics import read_fast as bulk_reading
from reconciler.backends.clusters.topics.read import read_cluster
from reconciler.backends.clusters.topics.read_fast import FROM_TOPICS, read_in_bulk
from reconciler.backends.connections.librdkafka import AdminConnection
from reconciler.errors import Unknown
from reconciler.kafka.client.errors import (
    ConnectionLostError,
    MalformedResponseError,
    UnsupportedBrokerError,
    WireError,
)
from reconciler.kafka.protocol.metadata_and_configs import ConfigsOf
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import LiveCluster
from tests.support.clusters import CreateTopic, real_cluster

pytestmark = pytest.mark.kafka


def bulk(cluster: Cluster, topics: list[str] | None = None) -> LiveCluster | None:
    return read_in_bulk(cluster, Principal.PLAN, topics)


def slow(cluster: Cluster, topics: list[str] | None = None) -> LiveCluster:
    connection = AdminConnection(cluster, Principal.PLAN)
    try:
        return read_cluster(connection, topics)
    finally:
        connection.close()


def mine(live: LiveCluster | None, prefix: str) -> dict[str, object]:
    assert live is not None
    return {name: topic for name, topic in live.topics.items() if name.startswith(prefix)}


def test_both_ways_tell_the_same_of_each_broker_topic_and_config(
    ha: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    east = ha.clusters["east"]
    create_topic(east, f"{unique}.wide", 12, 3, retention_ms="60000", cleanup_policy="compact")
    create_topic(east, f"{unique}.narrow", 1, 2)
    cluster, until = real_cluster(east), time.monotonic() + 30
    swift, thorough = bulk(cluster), slow(cluster)
    while len(mine(swift, unique)) + len(mine(thorough, unique)) < 4 and time.monotonic() < until:
        swift, thorough = bulk(cluster), slow(cluster)  # one of the brokers has not heard of both yet
    assert swift is not None
    assert mine(swift, unique) == mine(thorough, unique)
    assert len(mine(swift, unique)) == 2
    assert (swift.cluster_id, swift.brokers, swift.sees_all) == (
        thorough.cluster_id,
        thorough.brokers,
        thorough.sees_all,
    )


def test_named_topics_are_read_and_those_that_do_not_exist_are_left_out(
    plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    east = plain.clusters["east"]
    there = create_topic(east, f"{unique}.there")
    named = [there, *(f"{unique}.missing-{n}" for n in range(FROM_TOPICS)), "not a topic's name!"]
    assert bulk(real_cluster(east), named) == slow(real_cluster(east), named)
    found = bulk(real_cluster(east), named)
    assert found is not None
    assert list(found.topics) == [there]


def test_over_tls_and_scram_what_is_hidden_or_denied_is_told_the_same(
    secure: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    east: ClusterHandle = secure.clusters["east"]
    denied, hidden = create_topic(east, f"user.{unique}", 2), create_topic(east, f"{unique}.hidden")
    user = real_cluster(east, "user")
    swift = bulk(user)
    assert swift is not None
    assert swift == slow(user)
    assert hidden not in swift.topics
    assert not swift.sees_all
    assert isinstance(swift.topics[denied].configs, Unknown)


@pytest.mark.parametrize("broken", ["connect", "_configs"])
@pytest.mark.parametrize("error", [ConnectionLostError, MalformedResponseError, UnsupportedBrokerError])
def test_a_read_that_breaks_off_is_done_again_by_librdkafka(
    plain: Sandbox, monkeypatch: pytest.MonkeyPatch, broken: str, error: type[WireError]
) -> None:
    async def fail(*_words: object, **_settings: object) -> None:
        raise error("broken off")

    async def fail_half_way(*_words: object) -> AsyncIterator[list[ConfigsOf]]:
        yield []
        raise error("broken off")

    monkeypatch.setattr(bulk_reading, broken, fail_half_way if broken == "_configs" else fail)
    cluster = real_cluster(plain.clusters["east"])
    assert bulk(cluster) is None
    with KafkaCluster(cluster, Principal.PLAN) as reader:
        found = reader.read()
    assert (found.cluster_id, found.brokers) == (plain.clusters["east"].cluster_id, slow(cluster, []).brokers)


def test_settings_that_only_librdkafka_knows_close_this_way_and_the_cluster_is_read_all_the_same(
    plain: Sandbox,
) -> None:
    cluster = real_cluster(plain.clusters["east"], ssl_sigalgs_list="RSA+SHA512")
    assert bulk(cluster) is None
    assert slow(cluster).cluster_id == plain.clusters["east"].cluster_id
