"""The list of topics: whose each one is, and what is wrong with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.engine.topic_list import owners, topic_list
from reconciler.errors import Unknown
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import LiveState
from reconciler.resources.flows.routes import TopicHop
from tests.support.builders import cluster, flow, topic, topology, world


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


def test_of_two_flows_into_one_topic_the_same_one_always_decides_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    made = TopicRef("hub", "orders")
    hops = [TopicHop(TopicRef(name, "orders"), made, f"{name}-to-hub") for name in ("east", "west")]
    labelled = [topic("orders", name, labels={"owner": f"team-{name}"}) for name in ("east", "west")]
    declared = replace(
        topology(*map(cluster, ("east", "west", "hub"))), topics={each.clusters[0]: each for each in labelled}
    )
    for some in (hops, hops[::-1]):
        monkeypatch.setattr("reconciler.engine.topic_list.hops_between", lambda *_, some=some: some)
        assert owners(declared, LiveState({}, {}))[made] == "team-east"
