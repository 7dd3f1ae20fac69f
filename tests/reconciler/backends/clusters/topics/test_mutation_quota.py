"""THROTTLING_QUOTA_EXCEEDED: only what was held back is sent again, as long as something moves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count

import pytest

from reconciler.changes import CreateTopic, Reason, Role
from reconciler.edges.kafka import writing
from reconciler.edges.kafka.batches import Item
from reconciler.edges.kafka.connection import Connection
from reconciler.errors import ClusterError
from reconciler.topology import Cluster, Principal, TopicRef

THROTTLED = ClusterError("east", "quota", "throttled")


class Controller:
    """Accepts ``pace`` items a request and throttles the rest."""

    def __init__(self, pace: int) -> None:
        self.pace = pace
        self.requests: list[list[str]] = []

    def send(
        self, _connection: Connection, items: Sequence[Item], validate_only: bool
    ) -> dict[str, ClusterError | None]:
        self.requests.append([item.id for item in items])
        return {item.id: None if place < self.pace else THROTTLED for place, item in enumerate(items)}


@pytest.fixture
def connection() -> Connection:
    return Connection(Cluster("east", ("east.invalid:9092",)), Principal.APPLY)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    clock = count()
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: 10.0 * next(clock))
    return slept


def items(number: int) -> list[Item]:
    reason = Reason("test", "")
    return [
        Item(f"c{i}", CreateTopic(TopicRef("east", f"t{i}"), 1, None, (), Role.DECLARED, reason)) for i in range(number)
    ]


def test_what_was_accepted_is_not_sent_again(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, no_waiting: list[float]
) -> None:
    controller = Controller(pace=2)
    monkeypatch.setattr(writing, "send", controller.send)
    answers = writing._send_patiently(connection, items(5), validate_only=False)
    assert answers == {f"c{i}": None for i in range(5)}
    assert controller.requests == [["c0", "c1", "c2", "c3", "c4"], ["c2", "c3", "c4"], ["c4"]]
    assert len(no_waiting) == 2


def test_when_nothing_moves_it_gives_up_and_says_so(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, no_waiting: list[float]
) -> None:
    controller = Controller(pace=0)
    monkeypatch.setattr(writing, "send", controller.send)
    answers = writing._send_patiently(connection, items(2), validate_only=False)
    assert set(answers.values()) == {THROTTLED}
    assert 1 < len(controller.requests) < 100
    assert max(no_waiting) <= 6
