"""A clock two hours ahead, which Kafka 4 refuses by default: what the job tells of itself is written all the same."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing, suppress

import pytest
from confluent_kafka import Consumer, TopicPartition
from reconciler_mirror.report import status
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.errors import BrokerError
from reconciler.replication.handover import Endpoint, StatusPlace
from tests.support.clusters import CreateTopic
from tests.support.lanes.raw import cluster_of

AHEAD_S = 7_200


def told(cluster: ClusterHandle, topic: str, count: int) -> list[tuple[bytes, bytes, int]]:
    """Key, value and timestamp (-1: it has none) of the topic's first records."""
    consumer = Consumer({**cluster.super_client(), "group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(count, 60)
    consumer.close()
    return [(m.key(), m.value(), m.timestamp()[1]) for m in found if m.error() is None]


def test_an_appended_record_may_lack_a_time(
    plain: Sandbox, unique: str, create_topic: CreateTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create_topic(plain["west"], unique, 1, cleanup_policy="compact")
    ahead = time.time() + AHEAD_S
    monkeypatch.setattr(time, "time", lambda: ahead)

    async def run() -> None:
        cluster = cluster_of(plain["west"])
        try:
            for _ in range(100):  # a topic that was made a moment ago
                with suppress(BrokerError):
                    await logs.leaders(cluster, [topic])
                    break
                await asyncio.sleep(0.1)
            await logs.append(cluster, topic, {0: [(b"a", b"1"), (b"b", b"2")]})
        finally:
            cluster.close()

    asyncio.run(run())
    assert told(plain["west"], topic, 2) == [(b"a", b"1", -1), (b"b", b"2", -1)]


def test_a_status_record_may_lack_a_time(
    plain: Sandbox, unique: str, create_topic: CreateTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    west = plain["west"]
    topic = create_topic(west, unique, 1, cleanup_policy="compact")
    ahead = time.time() + AHEAD_S
    monkeypatch.setattr(time, "time", lambda: ahead)
    endpoint = Endpoint("west", tuple(west.bootstrap_servers.split(",")), west.super_client())
    with closing(status.StatusWriter(StatusPlace(endpoint, topic, "test/west"))) as writer:
        assert [until_written(writer, n) for n in range(2)] == [True, True]
    assert told(west, topic, 2) == [(b"test/west", b'{"n":%d}' % n, -1) for n in range(2)]


def until_written(writer: status.StatusWriter, number: int) -> bool:
    """A topic that was made a moment ago may have no leader yet."""
    return any(writer.write({"n": number}) for _ in range(5))
