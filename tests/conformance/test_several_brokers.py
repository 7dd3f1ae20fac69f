"""What only several brokers can show: racks, factors, reads that agree on each of them, a broker that is away."""

from __future__ import annotations

import pytest
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.engine.plan.build import plan
from reconciler.model.live import LiveState
from reconciler.model.plan import Result
from reconciler.resources.replicas.diff import with_replicas
from tests.support.builders import cluster, topic, topology
from tests.support.clusters import EAST, real_cluster
from tests.support.fakes.subjects import BrokerStranger, Subject


@pytest.fixture
def east(ha_east: Sandbox) -> ClusterHandle:
    return ha_east.clusters["east"]


@pytest.fixture
def subject(east: ClusterHandle, unique: str, create_topic: object) -> Subject:
    admin = KafkaCluster(real_cluster(east))
    return Subject(admin, BrokerStranger(east, create_topic, admin), 3, unique)  # type: ignore[arg-type]


def test_reads_every_broker_with_its_rack(subject: Subject, east: ClusterHandle) -> None:
    live = subject.admin.read(())
    assert [(broker.id, broker.rack) for broker in live.brokers] == [(b.node_id, b.rack) for b in east.brokers]


def test_creates_with_factor_three_and_four_is_refused(subject: Subject) -> None:
    outcomes = subject.perform(subject.create("three", 2, 3), subject.create("four", 1, 4))
    assert [outcome.result for outcome in outcomes] == [Result.DONE, Result.FAILED]
    topic = subject.known("three")
    assert topic.replication_factor == 3
    assert all(set(part.replicas) == {1, 2, 3} for part in topic.partitions)


def test_whichever_broker_answers_the_next_read_agrees_with_what_was_done(subject: Subject) -> None:
    for turn in range(3):
        subject.perform(subject.create(f"n{turn}", 3, 3, retention_ms="60000"))
        assert subject.known(f"n{turn}").overrides == {"retention.ms": "60000"}
        subject.perform(subject.grow(subject.known(f"n{turn}"), 6))
        assert len(subject.known(f"n{turn}").partitions) == 6
        subject.perform(subject.alter(subject.known(f"n{turn}"), retention_ms=None, segment_ms="90000"))
        assert subject.known(f"n{turn}").overrides == {"segment.ms": "90000"}


def test_with_one_broker_away_topics_are_read_and_changed(subject: Subject, east: ClusterHandle) -> None:
    subject.perform(subject.create("orders", 3, 3))
    east.stop(3)
    try:
        assert len(subject.known("orders").partitions) == 3
        health = KafkaCluster(real_cluster(east)).health()
        short = [one for one in health.short if one.topic == subject.known("orders").name]
        assert [(len(one.isr), len(one.replicas)) for one in short] == [(2, 3)] * 3, (
            "a gate of a rollout would not hold"
        )
        assert not any(one.startswith(subject.known("orders").name) for one in health.offline)
        (outcome,) = subject.perform(subject.alter(subject.known("orders"), retention_ms="60000"))
        assert (outcome.result, outcome.error) == (Result.DONE, "")
        assert subject.admin.read().place_for(9) == 3
        (made,) = subject.perform(subject.create("late", 2, 3))
        if EAST.zookeeper:
            assert "larger than available brokers: 2" in made.error
        else:
            assert (made.result, made.error) == (Result.DONE, ""), "it gets a replica on the broker that is away"
        wished = topology(cluster("east"), topic(subject.known("orders").name, replication_factor=2))
        live = LiveState({"east": subject.admin.read()}, {})
        (refused,) = plan(wished, with_replicas(wished, live, {"east": subject.admin})).refused
        assert refused.reason.code == "replica-offline"
    finally:
        east.start(3)
