"""Who holds a connection for weeks makes it anew when it is lost, so that a renewed password or certificate counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from reconciler_mirror.clients import librdkafka as clients
from reconciler_mirror.driver import discovery as cluster_topics
from reconciler_mirror.driver.discovery import WireTopics
from reconciler_mirror.driver.heartbeats import Heartbeats
from reconciler_mirror.driver.pause_reader import PauseReader

from reconciler.kafka.client.errors import AuthenticationFailedError
from reconciler.kafka.protocol.metadata_and_configs import TopicOf
from reconciler.replication.handover import Endpoint, StatusPlace
from reconciler.replication.pauses import Pause, Scope

HERE = Endpoint("west", ("nowhere:1",), {})


class Reader:
    """A consumer of an empty topic; ``lost`` is what its third poll hears beside the messages."""

    def __init__(self, trouble: Callable[[KafkaError], None], lost: int | None) -> None:
        self._trouble, self._lost, self._polls = trouble, lost, 0

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={})})

    def assign(self, _: Iterable[object]) -> None:
        pass

    def poll(self, _: float) -> None:
        self._polls += 1
        if self._polls == 3 and self._lost is not None:
            self._trouble(KafkaError(self._lost))
        time.sleep(0.005)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "lost", [KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._ALL_BROKERS_DOWN], ids=lambda code: str(code)
)
def test_pauses_are_read_by_a_new_client_once_the_old_one_is_not_let_in(
    monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    made: list[Reader] = []

    def control_reader(_: Endpoint, trouble: Callable[[KafkaError], None]) -> Reader:
        made.append(Reader(trouble, None if made else lost))
        return made[-1]

    monkeypatch.setattr(clients, "control_reader", control_reader)
    monkeypatch.setattr("reconciler_mirror.driver.pause_reader._AGAIN_S", 0.01)
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


def test_topics_are_listed_over_a_new_connection_after_one_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []

    def cluster_of(_: Endpoint) -> Any:
        opened.append(1)
        return SimpleNamespace(close=lambda: None)

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


def test_a_heartbeat_that_was_not_taken_is_followed_by_one_of_a_new_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    class Producer:
        def __init__(self) -> None:
            made.append(self)
            self._first = len(made) == 1

        def produce(self, *_: object, on_delivery: Callable[[KafkaError | None, object], None], **__: object) -> None:
            on_delivery(KafkaError(KafkaError._MSG_TIMED_OUT) if self._first else None, None)

        def flush(self, _: float) -> int:
            return 0

    monkeypatch.setattr(clients, "plain_producer", lambda _: Producer())
    mirrormaker = SimpleNamespace(heartbeats_ms=10)
    end = threading.Event()
    flow: Any = SimpleNamespace(source=HERE, target=HERE, mirrormaker=mirrormaker, name="f")
    writing = threading.Thread(target=Heartbeats(flow, end)._run, args=(HERE, "east", "west"))
    writing.start()
    until(lambda: len(made) == 2)
    time.sleep(0.1)  # several of its intervals
    end.set()
    writing.join(10)
    assert len(made) == 2, "one that is taken stays"


def test_what_librdkafka_tells_beside_messages_reaches_who_reads() -> None:
    told: list[KafkaError] = []
    consumer = clients.control_reader(Endpoint("west", ("127.0.0.1:1",), {}), told.append)
    try:
        until(lambda: consumer.poll(0.1) is None and bool(told))
        assert told[0].code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)
    finally:
        consumer.close()


def until(wanted: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not wanted():
        assert time.monotonic() < give_up
        time.sleep(0.01)
