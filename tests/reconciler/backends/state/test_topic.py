"""The topic of the lock is made so that one broker may be away, also when one is away at that moment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.backends import wait_lines
from reconciler.backends.connections.errors import KINDS_BY_CODE, Asked
from reconciler.backends.state.records import LockLog, command_to_make, make_topic
from reconciler.errors import ClusterError
from reconciler.kafka.client.errors import BrokerError
from reconciler.model.state.lock import lock_topic_configs, lock_topic_factors
from tests.support.builders import cluster

EXISTS, NO_FACTOR, DENIED, POLICY = 36, 38, 29, 44


class Broker:
    """Answers requests for a new topic with one error code after the other; None: not at all."""

    def __init__(self, brokers: int, *answers: int | None) -> None:
        self.wire = SimpleNamespace(controller=7)
        self.brokers = lambda: tuple(range(brokers))
        self.answers = list(answers)
        self.asked: list[tuple[int, str]] = []

    def send(self, asked: Asked, kind: object, broker: int, *, topics: list[Any], **_: object) -> SimpleNamespace:
        assert broker == self.wire.controller
        configs = {config.name: config.value for config in topics[0].configs}
        self.asked.append((topics[0].replication_factor, configs.get("min.insync.replicas", "")))
        code = self.answers.pop(0)
        if code is None:
            raise ClusterError("east", "unreachable", asked.verb)
        return SimpleNamespace(topics=[SimpleNamespace(error_code=code, error_message=None)])

    def refused(self, code: int, asked: Asked, words: str | None) -> ClusterError:
        return ClusterError("east", KINDS_BY_CODE[code], asked.verb)


@pytest.mark.parametrize(
    ("brokers", "answers", "asked", "failed"),
    [
        (5, [0], [(3, "2")], None),
        (3, [EXISTS], [(3, "2")], None),
        (1, [0], [(1, "1")], None),
        (2, [0], [(3, "2")], None),
        (2, [NO_FACTOR, 0], [(3, "2"), (2, "1")], None),
        (2, [DENIED], [(3, "2")], "denied"),
        (2, [NO_FACTOR] * 4, [(3, "2"), (2, "1"), (3, ""), (2, "")], "invalid"),
        (3, [POLICY, 0], [(3, "2"), (3, "")], None),  # it refuses what is only wished
        (3, [None, EXISTS], [(3, "2"), (3, "2")], None),
    ],
)
def test_as_many_replicas_as_there_are_brokers_for_and_one_may_be_away(
    brokers: int, answers: list[int | None], asked: list[tuple[int, str]], failed: str | None
) -> None:
    seen = Broker(brokers, *answers)
    error = make_topic(cast(Any, seen), "__reconciler", {})
    assert seen.asked == asked
    assert (error.kind if error else None) == failed


def test_the_command_for_others_makes_the_same() -> None:
    told = command_to_make("b:1", "__reconciler", 1)
    assert "--replication-factor 1 " in told
    assert all(f"--config {key}={value}" in told for key, value in lock_topic_configs(1).items())
    assert lock_topic_factors(9) == (3,)


def test_a_write_that_too_few_replicas_keep_away_is_reported_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_what_a_lock_waits_for_is_reported_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
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
