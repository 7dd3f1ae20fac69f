"""What is at stake, as real brokers tell it: bytes, records, what expires, who reads; and what one may not ask."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, TopicPartition
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.clusters.impact import read_nature, read_stakes
from reconciler.backends.clusters.permissions import cluster_facts
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.plan import ImpactQuery
from tests.support.clusters import DAY, CreateTopic, newest, produce, real_cluster


def desired(cluster: ClusterHandle) -> Cluster:
    return Cluster("east", (cluster.bootstrap_servers,))


def test_bytes_records_and_what_a_shorter_retention_takes(
    plain: Sandbox, create_topic: CreateTopic, unique: str
) -> None:
    east = plain["east"]
    create_topic(east, unique, 2, retention_ms="-1")
    produce(east, unique, {40: 30, 20: 20, 0: 10})
    told = read_stakes(desired(east), Principal.PLAN, [ImpactQuery(unique, 2, 30 * DAY), ImpactQuery(f"{unique}x", 1)])
    found = told[unique]
    assert (found.records, found.expiring, found.unknown) == (60, 30, ())
    assert found.bytes is not None
    assert 60 * 200 <= found.bytes < 60 * 400
    assert found.readers == ()
    assert told[f"{unique}x"].records is None, "a topic that is not there tells nothing"


def test_groups_with_members_and_those_that_only_committed(
    plain: Sandbox, create_topic: CreateTopic, unique: str
) -> None:
    east = plain["east"]
    create_topic(east, unique, 2, retention_ms="-1")
    produce(east, unique, {0: 50})
    settings = {**east.super_client(), "auto.offset.reset": "earliest"}
    idle = Consumer({**settings, "group.id": f"{unique}-idle"})
    idle.commit(offsets=[TopicPartition(unique, 0, 20)], asynchronous=False)
    idle.close()
    position = Consumer({**settings, "group.id": f"mirror.{unique}"})
    position.commit(offsets=[TopicPartition(unique, 0, 50)], asynchronous=False)
    position.close()
    busy = Consumer({**settings, "group.id": f"{unique}-busy"})
    busy.subscribe([unique])
    try:
        until = time.monotonic() + 90
        while not busy.assignment() and time.monotonic() < until:
            busy.poll(0.2)
        assert busy.assignment(), "the broker gave the consumer nothing to read"
        readers = read_stakes(desired(east), Principal.PLAN, [ImpactQuery(unique, 2)])[unique].readers
    finally:
        busy.close()
    assert readers is not None
    assert [(one.group, one.members, one.lag) for one in readers] == [
        (f"{unique}-busy", 1, None),
        (f"{unique}-idle", 0, 30),
    ]


def test_a_principal_without_the_rights_learns_what_it_may_not_ask(
    secure: Sandbox, create_topic: CreateTopic, unique: str
) -> None:
    east = secure["east"]
    name = f"user.{unique}"
    create_topic(east, name)
    limited = real_cluster(east, "user")
    found = read_stakes(limited, Principal.PLAN, [ImpactQuery(name, 1)])[name]
    assert found.bytes is None
    assert any("may not ask" in one for one in found.unknown)
    assert found.records == 0
    assert read_nature(limited, Principal.PLAN).authorizer is True


@newest  # its metadata.version
def test_what_kind_of_cluster_it_is(plain: Sandbox) -> None:
    found = read_nature(desired(plain["east"]), Principal.PLAN)
    assert found.authorizer is False
    assert cluster_facts(desired(plain["east"]), Principal.PLAN).authorizer is False, "doctor says the same"
    assert found.metadata_version is not None
    assert found.metadata_version >= 22


def test_a_cluster_that_does_not_answer_costs_no_traceback() -> None:
    silent = Cluster("east", ("127.0.0.1:1",))
    assert read_nature(silent, Principal.PLAN).metadata_version is None
    [found] = read_stakes(silent, Principal.PLAN, [ImpactQuery("a", 1)]).values()
    assert found.unknown
