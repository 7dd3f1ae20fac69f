"""Discovery over our own connection sees what librdkafka sees, and gives the same object while nothing changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from reconciler_mirror.driver.discovery import WireTopics
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.replication.handover import Endpoint

CreateTopic = Callable[..., str]


def endpoint(handle: ClusterHandle) -> Endpoint:
    return Endpoint(handle.name, tuple(handle.bootstrap_servers.split(",")), handle.super_client())


def test_topics_and_ids_are_those_of_librdkafka_and_a_new_topic_is_seen(
    plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    east = plain["east"]
    first = create_topic(east, f"{unique}-first", 3)
    other = AdminClient(east.super_client())
    with closing(WireTopics(endpoint(east))) as own:
        known = own.topics()
        assert own.topics() is known
        assert known[first].partitions == 3
        described = str(other.describe_topics(TopicCollection([first]))[first].result(20).topic_id)
        printed = described.replace("+", "-").replace("/", "_")  # as Kafka prints it
        assert known[first].topic_id == printed
        second = create_topic(east, f"{unique}-second", 1)
        until = time.monotonic() + 20
        while second not in own.topics():  # the controller answers before the broker knows
            assert time.monotonic() < until
        assert {name: one.partitions for name, one in own.topics().items() if unique in name} == {first: 3, second: 1}
        assert own.denied([first, f"{unique}-none"]) == frozenset()
        assert {name: one.partitions for name, one in own.topics().items()} == {
            name: len(one.partitions) for name, one in other.list_topics(timeout=20).topics.items()
        }
