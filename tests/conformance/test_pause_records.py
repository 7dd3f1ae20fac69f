"""A pause on its way: written by apply, read back by the CLI, obeyed by the job's reader; each with no more rights."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_mirror.driver.pause_reader import PauseReader
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.mirror_jobs.status.records import StatusRecords, write_records
from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Principal
from reconciler.replication.handover import Endpoint, StatusPlace
from reconciler.replication.names import STATUS_TOPIC
from reconciler.replication.records.pauses import Pause, Scope, dumps, pause_key
from tests.support.clusters import real_cluster
from tests.support.waiting import until

CreateTopic = Callable[..., str]


def _status_topic(cluster: ClusterHandle, create_topic: CreateTopic) -> None:
    with contextlib.suppress(KafkaException):  # another test has made it
        create_topic(cluster, STATUS_TOPIC, 1, cleanup_policy="compact")


@contextmanager
def _reading(
    cluster: ClusterHandle, principal: str, environment: str, topic: str = STATUS_TOPIC, flows: Iterable[str] = ()
) -> Iterator[tuple[PauseReader, list[object]]]:
    client = cluster.client(principal)
    servers = tuple(client.pop("bootstrap.servers").split(","))
    heard: list[object] = []
    place = StatusPlace(Endpoint(cluster.name, servers, client), topic, "key")
    reader, end = PauseReader(place, environment, heard.append, (), flows), threading.Event()
    thread = threading.Thread(target=reader.run, args=(end,))
    thread.start()
    try:
        yield reader, heard
    finally:
        end.set()
        thread.join(30)


def _until(heard: list[object], wanted: object) -> None:
    give_up = time.monotonic() + 30
    while not heard or heard[-1] != wanted:
        assert time.monotonic() < give_up, heard
        time.sleep(0.05)


@pytest.mark.kafka
@pytest.mark.parametrize("profile", ["plain", "secure"])
def test_a_pause_reaches_the_job_and_is_lifted_by_a_tombstone(
    profile: str, request: pytest.FixtureRequest, create_topic: CreateTopic, unique: str
) -> None:
    sandbox: Sandbox = request.getfixturevalue(profile)
    west = sandbox["west"]
    _status_topic(west, create_topic)
    writer = real_cluster(west, "apply") if west.passwords else real_cluster(west)
    pause = Pause(Scope("f", "orders", 3), 1, "ann@host", "why")
    key = pause_key(unique, pause.scope)
    write_records(writer, Principal.APPLY, {key: dumps(pause), pause_key(f"{unique}x", pause.scope): b"{}"})
    with _reading(west, "mirror" if west.passwords else "admin", unique) as (reader, heard):
        _until(heard, {pause.scope: pause})
        assert reader.known.is_set()
        assert reader.trouble is None
        records = StatusRecords(writer, unique)
        assert records.pauses() == {pause.scope: pause}
        write_records(writer, Principal.APPLY, {key: None})
        _until(heard, {})
        assert records.pauses() == {}
        records.close()


@pytest.mark.kafka
def test_a_pause_holds_on_where_its_record_is_lost_and_is_written_again(
    plain: Sandbox, create_topic: CreateTopic, unique: str
) -> None:
    """Nothing may flow again because a topic was deleted: the flow may have been failed over."""
    west = plain["west"]
    admin, pause = AdminClient(west.super_client()), Pause(Scope("f"), 1, "ann@host", "failover to west")
    other = Pause(Scope("another mirror's"), 1, "ann@host")
    create_topic(west, unique, 1, cleanup_policy="compact,delete")
    _put(west, unique, {pause_key(unique, each.scope): dumps(each) for each in (pause, other)})
    records = StatusRecords(real_cluster(west), unique, topic=unique)
    with _reading(west, "admin", unique, unique, ["f"]) as (reader, heard):
        _until(heard, {pause.scope: pause, other.scope: other})
        admin.delete_topics([unique])[unique].result(30)
        until(lambda: reader.condition("f") is not None, 60)
        assert records.pauses() == {}
        create_topic(west, unique, 1, cleanup_policy="compact,delete")
        until(lambda: records.pauses() == {pause.scope: pause}, 60)
        until(lambda: reader.condition("f") is None, 60)
        assert heard[-1] == {pause.scope: pause, other.scope: other}, "the other one is not its own"

        beyond = TopicPartition(unique, 0, -1)
        admin.delete_records([beyond])[beyond].result(30)
        _put(west, unique, {pause_key(unique, pause.scope): None})
        _until(heard, {other.scope: other})
    records.close()


@pytest.mark.kafka
def test_where_no_topic_is_there_at_the_start_nothing_is_known_and_flows_are_paused(
    plain: Sandbox, create_topic: CreateTopic, unique: str
) -> None:
    west = plain["west"]
    records = StatusRecords(real_cluster(west), unique, topic=unique)
    with _reading(west, "admin", unique, unique, ["f", "g"]) as (reader, heard):
        until(lambda: reader.trouble is not None, 60)
        assert not reader.known.is_set()
        create_topic(west, unique, 1, cleanup_policy="compact")
        until(lambda: records.pauses().keys() == {Scope("f"), Scope("g")}, 60)
        assert "was deleted, so what was paused is not known" in records.pauses()[Scope("f")].reason
        _put(west, unique, {pause_key(unique, Scope("f")): None})
        until(lambda: bool(heard) and isinstance(heard[-1], dict) and heard[-1].keys() == {Scope("g")}, 60)
    records.close()


def _put(cluster: ClusterHandle, topic: str, records: Mapping[str, bytes | None]) -> None:
    made = Producer(cluster.super_client())
    for key, value in records.items():
        made.produce(topic, key=key, value=value)
    assert made.flush(30) == 0


def test_who_may_not_read_or_write_learns_what_is_missing(
    secure: Sandbox, create_topic: CreateTopic, unique: str
) -> None:
    west = secure["west"]
    _status_topic(west, create_topic)
    with pytest.raises(ClusterError) as caught:
        write_records(real_cluster(west, "plan"), Principal.APPLY, {f"control/{unique}/f": b"{}"})
    assert caught.value.kind == "denied"
    assert f"--operation Write --topic {STATUS_TOPIC}" in caught.value.todo
    with _reading(west, "user", unique) as (reader, _heard):
        assert reader.known.wait(30)
        give_up = time.monotonic() + 30
        while reader.trouble is None:
            assert time.monotonic() < give_up
            time.sleep(0.05)
        assert reader.trouble.code == "pauses_unreadable"
        assert "READ" in reader.trouble.todo
        assert not reader.trouble.stops
