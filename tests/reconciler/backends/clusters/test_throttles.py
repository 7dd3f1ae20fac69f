"""A throttle is set or cleared when each broker that answers shows it: whichever is asked next must know of it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.backends.clusters import configs, replicas
from reconciler.backends.clusters.replicas import KafkaReplicas
from reconciler.errors import ClusterError
from reconciler.model.replicas import FOLLOWER_RATE, LEADER_REPLICAS, ThrottleEdit

AWAY = ClusterError("east", "unreachable", "it does not answer", "", "")
GONE = ClusterError("east", "missing", "there is no such topic", "", "")


def throttle(monkeypatch: pytest.MonkeyPatch, edit: ThrottleEdit, *of_second: object) -> tuple[list[str], int]:
    """What is said, and how often the second of two brokers was asked. It shows ``of_second`` in turn, and goes on with
    the last; the first shows at once what was done."""
    shown: Iterator[object] = iter(of_second)
    asked: list[object] = []

    def described(_: object, keys: set[configs.Key], broker: int) -> dict[configs.Key, Any]:
        [key] = keys
        value: object = {"subtract": "0:2", "append": "0:1,0:2", "set": "7", "delete": None}[edit.operation]
        if broker == 2:
            value = next(shown, asked[-1] if asked else None)
            asked.append(value)
        if value is AWAY:
            raise AWAY
        if value is GONE:
            return {key: GONE}
        source = 1 if key[0] == configs.TOPIC else 2
        return {key: [SimpleNamespace(name=edit.key, value=value, config_source=source if value else 5)]}

    monkeypatch.setattr(configs, "alter_configs", lambda *_: {})
    monkeypatch.setattr(configs, "described", described)
    monkeypatch.setattr(replicas, "SEEN_SECONDS", 0.2)
    east = object.__new__(KafkaReplicas)
    monkeypatch.setattr(KafkaReplicas, "name", "east")
    monkeypatch.setattr(KafkaReplicas, "brokers", lambda _: (1, 2))
    return [str(error) for error in east.throttle([edit])], len(asked)


ENTRIES = ThrottleEdit(LEADER_REPLICAS, "subtract", "0:1", topic="orders")


@pytest.mark.parametrize(
    ("edit", "before", "after"),
    [
        (ENTRIES, "0:1,0:2", "0:2"),
        (ENTRIES, "0:1", None),
        (ThrottleEdit(LEADER_REPLICAS, "append", "0:1", topic="orders"), "0:2", "0:2,0:1"),
        (ThrottleEdit(LEADER_REPLICAS, "delete", topic="orders"), "0:1", None),
        (ThrottleEdit(FOLLOWER_RATE, "set", "7", broker=2), None, "7"),
        (ThrottleEdit(FOLLOWER_RATE, "delete", broker=2), "7", None),
    ],
)
def test_a_broker_that_is_behind_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, edit: ThrottleEdit, before: str | None, after: str | None
) -> None:
    assert throttle(monkeypatch, edit, before, before, after) == ([], 3)


def test_what_a_broker_does_not_show_is_said_with_its_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    [said], asked = throttle(monkeypatch, ENTRIES, "0:1")
    assert f"broker 2 does not show {LEADER_REPLICAS} of topic orders as it was set" in said
    assert asked > 2


@pytest.mark.parametrize("answer", [AWAY, GONE])
def test_a_broker_that_is_away_and_a_topic_that_is_gone_hold_up_no_list(
    monkeypatch: pytest.MonkeyPatch, answer: ClusterError
) -> None:
    assert throttle(monkeypatch, ENTRIES, answer) == ([], 1)


def test_a_rate_of_a_broker_that_went_away_is_not_taken_for_set(monkeypatch: pytest.MonkeyPatch) -> None:
    [said], _ = throttle(monkeypatch, ThrottleEdit(FOLLOWER_RATE, "set", "7", broker=2), AWAY)
    assert f"broker 2 does not show {FOLLOWER_RATE} as it was set" in said
