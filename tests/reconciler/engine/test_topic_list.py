"""The list of topics: whose each one is, and what is wrong with it."""

from __future__ import annotations

from dataclasses import replace

from reconciler.engine.topic_list import topic_list
from reconciler.errors import Unknown
from reconciler.model.live import LiveState
from tests.support.builders import flow, topic, topology, world


def test_each_topic_says_whose_it_is() -> None:
    declared = topology(topic("orders", "east", partitions=2), flow("east", "west", "orders"))
    seen = world("east", "west")
    seen.apply(declared)
    seen.clusters["east"].put("stray", 1)
    seen.clusters["east"].put("_schemas", 1)
    owners = {(row.cluster, row.name): row.owner for row in topic_list(declared, seen.look(declared))}
    assert owners["east", "orders"].startswith("declared in ")
    assert owners["west", "east.orders"] == "made by east-to-west"
    assert owners["east", "stray"] == "unmanaged"
    assert owners["east", "_schemas"] == "of a companion of Kafka"
    assert owners["west", "__mirror_status"] == "of mirror jobs and this program"


def test_missing_and_hidden_topics_are_distinguished() -> None:
    declared = topology(topic("orders", "east", partitions=2))
    seen = world("east")
    live = seen.look(declared)
    east = live.known("east")
    assert east is not None
    [missing] = topic_list(declared, live)
    assert (missing.partitions, missing.problem) == (None, "not there")
    [hidden] = topic_list(declared, LiveState({"east": replace(east, sees_all=False)}, {}))
    assert hidden.problem == "unknown: it may be hidden"
    [silent] = topic_list(declared, LiveState({"east": Unknown("cluster east", "no answer")}, {}))
    assert silent.problem == "unknown: its cluster was not read"


def test_partitions_without_a_leader_or_replicas_are_a_problem() -> None:
    declared = topology(topic("orders", "east", partitions=2, replication_factor=1))
    seen = world("east")
    seen.apply(declared)
    live = seen.look(declared)
    east = live.known("east")
    assert east is not None
    orders = east.topics["orders"]
    first, second = orders.partitions
    sick = replace(orders, partitions=(replace(first, leader=-1), replace(second, isr=())))
    [row] = topic_list(declared, LiveState({"east": replace(east, topics={"orders": sick})}, {}))
    assert row.problem == "1 without a leader, 1 under-replicated"
    assert row.factor == 1
