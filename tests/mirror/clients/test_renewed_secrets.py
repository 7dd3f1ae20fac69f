"""Who holds a connection for weeks makes it anew when it is lost, so that a renewed password or certificate counts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from reconciler_mirror.clients import own
from reconciler_mirror.driver import discovery as cluster_topics
from reconciler_mirror.driver.discovery import WireTopics
from reconciler_mirror.driver.heartbeats import Heartbeats
from reconciler_mirror.driver.pause_reader import PauseReader
from reconciler_mirror.model.lane import Condition

from reconciler.kafka.client.errors import AuthenticationFailedError, BrokerError, ConnectionLostError
from reconciler.kafka.protocol.metadata_and_configs import TopicOf
from reconciler.replication.handover import Endpoint, StatusPlace
from reconciler.replication.records.compacted_topic import AbsentTopicError, CompactedTopic, Newest
from reconciler.replication.records.pauses import Pause, Scope, dumps, pause_key
from tests.support.waiting import until

HERE = Endpoint("west", ("nowhere:1",), {})


@pytest.mark.parametrize("lost", [AuthenticationFailedError("x"), ConnectionLostError("x"), OSError("x")], ids=repr)
def test_pauses_are_read_over_a_new_connection_once_the_old_one_is_not_let_in(
    monkeypatch: pytest.MonkeyPatch, lost: Exception
) -> None:
    made: list[object] = []

    def cluster_of(_: Endpoint) -> Any:
        made.append(SimpleNamespace(cluster_id="", close=lambda: None))
        return made[-1]

    async def follow(topic: CompactedTopic) -> AsyncIterator[frozenset[str]]:
        last = len(made) > 1
        for _ in range(3):
            yield frozenset()
        while last:
            await asyncio.sleep(0.005)
            yield frozenset()
        raise lost

    monkeypatch.setattr(own, "cluster_of", cluster_of)
    monkeypatch.setattr(own, "AGAIN_S", 0.01)
    monkeypatch.setattr(CompactedTopic, "follow", follow)
    heard: list[Mapping[Scope, Pause]] = []
    reader, end = PauseReader(StatusPlace(HERE, "status", "key"), "e", heard.append), threading.Event()
    thread = threading.Thread(target=reader.run, args=(end,))
    thread.start()
    try:
        until(lambda: len(made) == 2)
    finally:
        end.set()
        thread.join(10)
    assert reader.trouble is None
    assert heard == [{}], "what was read still holds meanwhile"


def test_a_request_that_came_to_a_broker_without_the_topic_lifts_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been reassigned. Nor does a topic that is gone: only a record ends a pause."""
    told: list[Mapping[Scope, Pause]] = []
    reader = PauseReader(StatusPlace(HERE, "status", "key"), "e", told.append)
    scope = Scope("f", "orders", 3)
    reader._heard(*_topic_with({pause_key("e", scope): dumps(Pause(scope, 1, "ann", "why"))}))
    reader._failed(BrokerError(3, "reading status-0"))
    assert list(told[-1]) == [scope]
    assert reader.condition("f") is None
    reader._failed(AbsentTopicError(3, "topic status"))
    reader._heard(*_topic_with({}))  # it was created again
    assert list(told[-1]) == [scope]
    gone = reader.condition("f")
    assert gone is not None
    assert "no record any more of partition orders-3 of flow f being paused" in gone.text
    assert reader.condition("g") is None
    reader._heard(*_topic_with({pause_key("e", scope): None}))
    assert (told[-1], reader.condition("f")) == ({}, None)


def test_a_topic_that_is_missing_at_the_start_is_waited_for() -> None:
    """Apply creates it before the job starts, so it was deleted: which pauses it held is not known."""
    told: list[Mapping[Scope, Pause]] = []
    reader = PauseReader(StatusPlace(HERE, "status", "key"), "e", told.append)
    reader._failed(AbsentTopicError(3, "topic status"))
    unknown = reader.condition("f")
    assert unknown is not None
    assert (told, reader.known.is_set(), unknown.code, unknown.stops) == ([], False, "pauses_unreadable", True)
    reader._was_absent = True
    reader._heard(*_topic_with({}))
    assert (told, reader.known.is_set(), reader.condition("f")) == ([{}], True, None), "no flow is its own"


def test_a_pause_outlives_a_rename_of_its_environment() -> None:
    """Else a flow that was failed over would copy again, into topics that consumers write to now."""
    told: list[Mapping[Scope, Pause]] = []
    reader = PauseReader(StatusPlace(HERE, "status", "key"), "new", told.append, ("old",))
    scope, other = Scope("f"), Scope("g")
    before = {pause_key("old", each): dumps(Pause(each, 1, "ann", "before")) for each in (scope, other)}
    reader._heard(*_topic_with(before))
    assert {each.reason for each in told[-1].values()} == {"before"}
    reader._heard(*_topic_with({**before, pause_key("new", scope): dumps(Pause(scope, 2, "ann", "now"))}))
    assert [told[-1][each].reason for each in (scope, other)] == ["now", "before"]
    reader._heard(*_topic_with({**before, pause_key("new", scope): None}))
    assert list(told[-1]) == [other]


def _topic_with(records: Mapping[str, bytes | None]) -> tuple[Any, frozenset[str]]:
    newest = {key: Newest(0, number, 0, value) for number, (key, value) in enumerate(records.items())}
    values = {key: value for key, value in records.items() if value is not None}
    return SimpleNamespace(newest=newest, values=lambda: values), frozenset(records)


def test_topics_are_listed_over_a_new_connection_after_one_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []

    def cluster_of(_: Endpoint) -> Any:
        opened.append(1)
        return SimpleNamespace(cluster_id="", close=lambda: None)

    class Listing:
        def __init__(self, _: object) -> None:
            self._refused = len(opened) == 1

        async def read(self) -> tuple[TopicOf, ...]:
            if self._refused:
                raise AuthenticationFailedError("the password was changed")
            return ()

    monkeypatch.setattr(cluster_topics, "cluster_of", cluster_of)
    monkeypatch.setattr(cluster_topics, "TopicListing", Listing)
    topics = WireTopics(HERE)
    with pytest.raises(AuthenticationFailedError):
        topics.topics()
    assert topics.topics() == {}
    assert topics.topics() == {}
    assert len(opened) == 2
    topics.close()


def test_a_heartbeat_that_was_not_taken_is_followed_by_one_over_a_new_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[object] = []
    closed: list[object] = []

    def cluster_of(_: Endpoint) -> Any:
        cluster = SimpleNamespace(topics={}, cluster_id="")
        cluster.close = lambda: closed.append(cluster)
        made.append(cluster)
        return cluster

    async def append(topic: CompactedTopic, entries: object, *, at_ms: int) -> None:
        if topic.cluster in made[:2]:  # the first of both clusters
            raise AuthenticationFailedError("the password was changed")
        beats.append(at_ms)

    beats: list[int] = []
    monkeypatch.setattr(own, "cluster_of", cluster_of)
    monkeypatch.setattr(CompactedTopic, "append", append)
    mirrormaker = SimpleNamespace(heartbeats_ms=10)
    end, told = threading.Event(), list[Condition | None]()
    flow: Any = SimpleNamespace(source=HERE, target=replace(HERE, cluster="east"), mirrormaker=mirrormaker, name="f")
    writing = threading.Thread(target=Heartbeats(flow, end, told.append).run)
    writing.start()
    until(lambda: len(beats) > 20)  # several of its intervals
    end.set()
    writing.join(10)
    assert len(made) == 4, "one that is taken stays"
    assert all(cluster in closed for cluster in made)
    assert told[-1] is None, "the condition has ended"
    assert any(condition is not None and "west: the password was changed" in condition.text for condition in told)
