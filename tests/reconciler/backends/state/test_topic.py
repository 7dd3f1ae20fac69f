"""The topic of the lock is made so that one broker may be away, also when one is away at that moment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka.admin import NewTopic

from reconciler.backends import wait_lines
from reconciler.backends.state.records import LockLog, command_to_make, make_topic
from reconciler.errors import ClusterError
from reconciler.kafka.client.errors import BrokerError
from reconciler.model.state.lock import lock_topic_configs, lock_topic_factors
from tests.support.builders import cluster


class Cluster:
    """Answers requests for a new topic with one failure after the other."""

    def __init__(self, *failures: str | None) -> None:
        self.failures = list(failures)
        self.asked: list[tuple[int, str]] = []
        self.admin = self

    def create_topics(self, new: list[NewTopic], **_: object) -> dict[str, str | None]:
        self.asked.append((new[0].replication_factor, new[0].config["min.insync.replicas"]))
        return {new[0].topic: self.failures.pop(0)}

    def settle(self, made: object) -> None:
        pass

    def failure(self, made: str | None, asked: object) -> ClusterError | None:
        return None if made is None else ClusterError("east", made, made)


@pytest.mark.parametrize(
    ("brokers", "answers", "asked", "failed"),
    [
        (5, [None], [(3, "2")], None),
        (3, ["exists"], [(3, "2")], None),
        (1, [None], [(1, "1")], None),
        (2, [None], [(3, "2")], None),
        (2, ["invalid", None], [(3, "2"), (2, "1")], None),
        (2, ["denied"], [(3, "2")], "denied"),
        (2, ["invalid", "invalid"], [(3, "2"), (2, "1")], "invalid"),
    ],
)
def test_as_many_replicas_as_there_are_brokers_for_and_one_may_be_away(
    brokers: int, answers: list[str | None], asked: list[tuple[int, str]], failed: str | None
) -> None:
    seen = Cluster(*answers)
    error = make_topic(cast(Any, seen), "__reconciler", brokers)
    assert seen.asked == asked
    assert (error.kind if error else None) == failed


def test_the_command_for_somebody_else_makes_the_same() -> None:
    told = command_to_make("b:1", "__reconciler", 1)
    assert "--replication-factor 1 " in told
    assert all(f"--config {key}={value}" in told for key, value in lock_topic_configs(1).items())
    assert lock_topic_factors(9) == (3,)


def test_a_write_that_too_few_replicas_keep_away_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def see(isr: int) -> None:
        part = SimpleNamespace(replica_nodes=[1, 2], isr_nodes=[1, 2][:isr])
        monkeypatch.setattr(log._records, "ask", lambda *_: part)

    log = LockLog(cluster("east"), "__reconciler", "lock/e", "reconciler.e")
    silent = ClusterError("east", "unreachable", "cluster east does not answer")
    see(1)
    told = log._less_in_sync(silent)
    assert "1 of its 2 replicas are in sync, without broker 2" in told.what
    assert "min.insync.replicas=1" in told.todo
    denied = ClusterError("east", "denied", "no")
    assert log._less_in_sync(denied) is denied
    see(2)
    assert log._less_in_sync(silent) is silent


def test_what_a_lock_waits_for_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_lines, "SOON_S", 0.0)
    said: list[str] = []
    log = LockLog(cluster("east"), "__reconciler", "lock/e", "reconciler.e", progress=said.append)
    log._lines = wait_lines.WaitLines(said.append)
    for code in (5, 5, 15):
        log._report_wait(BrokerError(code, "x"))
    assert said == [
        "cluster east: waiting for a leader of topic __reconciler",
        "cluster east: waiting for a coordinator of reconciler.e",
    ]
