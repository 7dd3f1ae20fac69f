"""A pause on its way: written by apply, read back by the CLI, obeyed by the job's reader; each with no more rights."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
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
    cluster: ClusterHandle, principal: str, environment: str, topic: str = STATUS_TOPIC
) -> Iterator[tuple[PauseReader, list[object]]]:
    client = cluster.client(principal)
    servers = tuple(client.pop("bootstrap.servers").split(","))
    heard: list[object] = []
    place = StatusPlace(Endpoint(cluster.name, servers, client), topic, "key")
    reader, end = PauseReader(place, environment, heard.append), threading.Event()
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
@pytest.mark.parametrize("way", ["deleted", "truncated"])
def test_a_pause_holds_on_where_its_record_is_lost(
    way: str, plain: Sandbox, create_topic: CreateTopic, unique: str
) -> None:
    """Nothing may flow again because a topic was deleted: the flow may have been failed over."""
    west = plain["west"]
    admin, pause = AdminClient(west.super_client()), Pause(Scope("f"), 1, "ann@host", "failover to west")
    create_topic(west, unique, 1, cleanup_policy="compact,delete")

    def write(value: bytes | None) -> None:
        made = Producer(west.super_client())
        made.produce(unique, key=pause_key(unique, pause.scope), value=value)
        assert made.flush(30) == 0

    write(dumps(pause))
    with _reading(west, "admin", unique, unique) as (reader, heard):
        _until(heard, {pause.scope: pause})
        if way == "deleted":
            admin.delete_topics([unique])[unique].result(30)
            until(lambda: reader.condition("f") is not None, 60)
            create_topic(west, unique, 1, cleanup_policy="compact,delete")
        else:
            beyond = TopicPartition(unique, 0, -1)
            admin.delete_records([beyond])[beyond].result(30)
        write(None if way == "truncated" else b"{}")
        if way == "deleted":
            until(lambda: reader.condition("f") is None, 60)
            assert list(reader_pauses(heard)) == [pause.scope]
            write(None)
        _until(heard, {})


def reader_pauses(heard: list[object]) -> Iterable[object]:
    last = heard[-1]
    assert isinstance(last, dict)
    return last


def test_who_may_not_read_or_write_is_told_what_is_missing(
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
