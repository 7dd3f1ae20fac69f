"""THROTTLING_QUOTA_EXCEEDED: only what was held back is sent again, as long as something moves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count

import pytest

from reconciler.backends.clusters.topics import write as writing
from reconciler.backends.clusters.topics.batches import PlannedTopicChange
from reconciler.backends.connections.requests import Requests
from reconciler.errors import ClusterError
from reconciler.model.changes import AddPartitions, CreateTopic, Reason, Role, TopicChange, Why
from reconciler.model.environment.topology import Cluster, Principal, TopicRef

THROTTLED = ClusterError("east", "quota", "throttled")


class Controller:
    """Accepts ``pace`` items a request and throttles the rest."""

    def __init__(self, pace: int) -> None:
        self.pace = pace
        self.requests: list[list[str]] = []

    def send(
        self, _requests: Requests, items: Sequence[PlannedTopicChange], validate_only: bool
    ) -> dict[str, ClusterError | None]:
        self.requests.append([item.id for item in items])
        return {item.id: None if place < self.pace else THROTTLED for place, item in enumerate(items)}


@pytest.fixture
def requests() -> Requests:
    return Requests(Cluster("east", ("east.invalid:9092",)), Principal.APPLY)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    clock = count()
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: 10.0 * next(clock))
    return slept


def items(number: int) -> list[PlannedTopicChange]:
    reason = Reason(Why.DECLARED, "")
    return [
        PlannedTopicChange(f"c{i}", CreateTopic(TopicRef("east", f"t{i}"), 1, None, (), Role.DECLARED, reason))
        for i in range(number)
    ]


def test_what_was_accepted_is_not_sent_again(
    requests: Requests, monkeypatch: pytest.MonkeyPatch, no_waiting: list[float]
) -> None:
    controller = Controller(pace=2)
    monkeypatch.setattr(writing, "send", controller.send)
    answers = writing._send_patiently(requests, items(5), validate_only=False)
    assert answers == {f"c{i}": None for i in range(5)}
    assert controller.requests == [["c0", "c1", "c2", "c3", "c4"], ["c2", "c3", "c4"], ["c4"]]
    assert len(no_waiting) == 2


def test_when_nothing_moves_it_gives_up_and_says_so(
    requests: Requests, monkeypatch: pytest.MonkeyPatch, no_waiting: list[float]
) -> None:
    controller = Controller(pace=0)
    monkeypatch.setattr(writing, "send", controller.send)
    answers = writing._send_patiently(requests, items(2), validate_only=False)
    assert set(answers.values()) == {THROTTLED}
    assert 1 < len(controller.requests) < 100
    assert max(no_waiting) <= 6


def test_a_topic_of_twelve_thousand_partitions_is_made_and_then_grown_until_a_step_fails(
    requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = Reason(Why.DECLARED, "")
    created = CreateTopic(TopicRef("east", "t"), 12_000, 1, (), Role.DECLARED, reason)
    large = PlannedTopicChange("c", created)
    refused = ClusterError("east", "invalid", "no more")
    for fails_at in (3, 1):
        sent: list[TopicChange] = []

        def send(
            _requests: Requests,
            items: Sequence[PlannedTopicChange],
            validate_only: bool,
            sent: list[TopicChange] = sent,
            fails_at: int = fails_at,
        ) -> dict[str, ClusterError | None]:
            assert not validate_only
            sent.append(items[0].change)
            return {"c": refused if len(sent) > fails_at else None}

        monkeypatch.setattr(writing, "send", send)
        monkeypatch.setattr(writing, "await_agreement", lambda *_: {})
        [outcome] = writing.perform(requests, [large], lambda _: None)
        assert outcome.error == ("" if fails_at == 3 else str(refused))
        counts = [
            e.partitions if isinstance(e, CreateTopic) else e.after
            for e in sent
            if isinstance(e, CreateTopic | AddPartitions)
        ]
        assert counts == [5_000, 10_000, 12_000][: fails_at + 1]
