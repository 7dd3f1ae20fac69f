"""Facts of brokers for flows that keep offsets: where topics begin, and support of DescribeProducers."""

from __future__ import annotations

from contextlib import closing, suppress

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.clusters.copy_facts import read_copy_facts
from reconciler.kafka.client.cluster import EARLIEST, LATEST
from reconciler.model.environment.topology import Principal
from reconciler.model.plan import CopyFacts
from tests.support.builders import cluster
from tests.support.clusters import EAST, CreateTopic
from tests.support.waiting import until


def committed(group: Consumer, place: TopicPartition) -> bool:
    """False while the coordinator of a cluster that has just started reads its log."""
    with suppress(KafkaException):
        group.commit(offsets=[place], asynchronous=False)
        return True
    return False


@pytest.mark.kafka
def test_where_topics_begin_and_what_brokers_know(plain: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    handle = plain["east"]
    create_topic(handle, unique, 2)
    producer = Producer(handle.client())
    for number in range(9):
        producer.produce(unique, b"%d" % number, partition=0)
    assert producer.flush(20) == 0
    admin, place = AdminClient(handle.client()), TopicPartition(unique, 0, 5)
    admin.delete_records([place])[place].result(20)
    declared = cluster("east", bootstrap_servers=(handle.client()["bootstrap.servers"],))
    told = read_copy_facts(declared, Principal.PLAN, {(unique, 0): EARLIEST, (unique, 1): LATEST})
    knows = EAST.number >= (3,)  # else the plan refuses it as a target
    assert told == CopyFacts(knows, {(unique, 0): 5, (unique, 1): 0})
    assert read_copy_facts(declared, Principal.PLAN, {}) == CopyFacts(knows)
    with closing(Consumer({**handle.client(), "group.id": f"mirror.{unique}"})) as group:
        until(lambda: committed(group, TopicPartition(unique, 0, 7, metadata="m")), 30)
    told = read_copy_facts(declared, Principal.PLAN, {}, {unique: "renamed", "never": "never"})
    assert {key: metadata.rstrip("\0") for key, metadata in told.positions["renamed"].items()} == {(unique, 0): "m"}
    assert told.positions["never"] == {}


def test_a_cluster_that_does_not_answer_is_unknown() -> None:
    told = read_copy_facts(cluster("east", bootstrap_servers=("127.0.0.1:1",)), Principal.PLAN, {("t", 0): EARLIEST})
    assert (told.reports_writers, told.offsets) == (None, {})
    assert told.unknown.startswith("where its topics begin: ")
