"""The status topic is gone: each write fails, and leaves nothing behind."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from reconciler_mirror.clients import librdkafka as clients
from reconciler_mirror.report.status import StatusWriter

from reconciler.replication.handover import Endpoint, StatusPlace


def test_a_write_that_fails_keeps_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client has four threads: the driver had 57 after half an hour without its status topic."""
    place = StatusPlace(Endpoint("west", ("127.0.0.1:1",)), "gone", "test/west")
    made: list[weakref.ref[Any]] = []

    class Admin:
        def __init__(self) -> None:
            made.append(weakref.ref(self))

        def describe_topics(self, topics: object, **_: object) -> dict[str, Any]:
            del topics
            return {"gone": Failed()}

    class Failed:
        """As ``concurrent.futures.Future``: what it raises it holds, and what was raised holds the frames it passed."""

        error = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))

        def __init__(self) -> None:
            self.mine = KafkaException(*self.error.args)

        def exception(self) -> KafkaException:
            return self.mine

        def result(self) -> None:
            raise self.mine

    monkeypatch.setattr(clients, "admin", lambda _: Admin())
    writer = StatusWriter(place)
    gc.disable()
    try:
        assert [writer.write({"n": n}) for n in range(5)] == [False] * 5
        assert len(made) == 5
        assert [client() for client in made] == [None] * 5
    finally:
        gc.enable()
