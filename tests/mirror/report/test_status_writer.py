"""The status record is written while brokers are cut off and killed; a write that fails leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from reconciler_mirror.clients import own
from reconciler_mirror.report.status import StatusWriter
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.replication.handover import Endpoint, StatusPlace
from reconciler.replication.records.compacted_topic import AbsentTopicError, CompactedTopic
from tests.support.lanes.cutting_proxy import Cut, cutting
from tests.support.lanes.raw import cluster_of
from tests.support.waiting import until

CreateTopic = Callable[..., str]
METADATA, PRODUCE = 3, 0


def place(handle: ClusterHandle, topic: str, address: str = "") -> StatusPlace:
    servers = (address or handle.bootstrap_servers).split(",")
    return StatusPlace(Endpoint(handle.name, tuple(servers), handle.super_client()), topic, "test/west")


def newest(handle: ClusterHandle, topic: str) -> Mapping[str, Any]:
    async def read() -> bytes:
        with closing(cluster_of(handle)) as cluster:
            records = CompactedTopic(cluster, topic)
            await records.read(required=True)
            return records.values()["test/west"]

    found: dict[str, Any] = json.loads(asyncio.run(read()))
    return found


def test_a_write_that_fails_keeps_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    closed: list[object] = []

    def connect(_: Endpoint) -> Any:
        cluster = SimpleNamespace(cluster_id="", topics={})
        cluster.close = lambda: closed.append(cluster)
        made.append(cluster)
        return cluster

    async def append(*_: object, **__: object) -> None:
        if len(made) < 5:
            raise AbsentTopicError(3, "topic gone on west")

    monkeypatch.setattr(own, "cluster_of", connect)
    monkeypatch.setattr(CompactedTopic, "append", append)
    with closing(StatusWriter(StatusPlace(Endpoint("west", ("127.0.0.1:1",)), "gone", "test/west"))) as writer:
        assert [writer.write({"n": n}) for n in range(6)] == [False] * 4 + [True] * 2
        assert len(made) == 5, "a connection that works is kept"
        assert closed == made[:4]
    assert closed == made


def test_a_topic_that_is_missing_is_not_made(plain: Sandbox, unique: str) -> None:
    topic = f"status-{unique}"
    with closing(StatusWriter(place(plain["west"], topic))) as writer:
        assert not writer.write({"n": 1})
        assert "UNKNOWN_TOPIC" in writer._complained
    with pytest.raises(AbsentTopicError):
        newest(plain["west"], topic)


@pytest.mark.parametrize("cut", Cut)
def test_it_is_written_though_any_of_its_requests_is_cut(
    plain: Sandbox, unique: str, create_topic: CreateTopic, cut: Cut
) -> None:
    west, topic = plain["west"], create_topic(plain["west"], f"status-{unique}", cleanup_policy="compact")
    with (
        cutting(west.brokers[0].port) as (address, wishes),
        closing(StatusWriter(place(west, topic, address))) as writer,
    ):
        until(lambda: writer.write({"n": 0}), 60)
        for number, api in enumerate((METADATA, PRODUCE, METADATA, PRODUCE), 1):
            wishes.wanted[api] = cut
            assert writer.write({"n": number}), (api, writer._complained)
            assert wishes.done[api, cut] == (number + 1) // 2
            assert newest(west, topic) == {"n": number}


@pytest.mark.long
def test_it_is_written_again_with_each_broker_killed_and_started(
    ha: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    east, topic = ha["east"], create_topic(ha["east"], f"status-{unique}", cleanup_policy="compact")
    with closing(StatusWriter(place(east, topic))) as writer:
        until(lambda: writer.write({"n": 0}), 60)
        for broker in (1, 2, 3):
            east.kill(broker)
            try:
                until(partial(writer.write, {"n": broker}), 60)
                assert newest(east, topic) == {"n": broker}
            finally:
                east.start(broker)
            until(partial(writer.write, {"n": 0}), 60)
