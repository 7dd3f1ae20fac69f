"""A pause on its way: written by apply, read back by the CLI, obeyed by the job's reader; each with no more rights."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaException
from reconciler_mirror.driver.pause_reader import PauseReader
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.mirror_jobs.status.records import StatusRecords, write_records
from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Principal
from reconciler.replication.handover import Endpoint, StatusPlace
from reconciler.replication.names import STATUS_TOPIC
from reconciler.replication.records.pauses import Pause, Scope, dumps, pause_key
from tests.support.clusters import real_cluster

CreateTopic = Callable[..., str]


def _status_topic(cluster: ClusterHandle, create_topic: CreateTopic) -> None:
    with contextlib.suppress(KafkaException):  # another test has made it
        create_topic(cluster, STATUS_TOPIC, 1, cleanup_policy="compact")


@contextmanager
def _reading(cluster: ClusterHandle, principal: str, environment: str) -> Iterator[tuple[PauseReader, list[object]]]:
    client = cluster.client(principal)
    servers = tuple(client.pop("bootstrap.servers").split(","))
    heard: list[object] = []
    place = StatusPlace(Endpoint(cluster.name, servers, client), STATUS_TOPIC, "key")
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
