"""The plan after an apply: what only has no leader yet is read again, what stays unknown or changed is printed."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from reconciler.errors import Unknown
from reconciler.model.live import LiveState
from reconciler.operations.apply import run
from reconciler.operations.session.session import Seen
from reconciler.replication.status import ReportedCondition
from tests.support.builders import flow, topic, topology, world

NO_LEADER = Unknown("remote topics on west", "NOT_LEADER_OR_FOLLOWER (6)", "Plan again")


@pytest.mark.parametrize(
    ("unknown_reads", "waited", "said"),
    [
        (0, [], "checked: a new plan is empty"),
        (1, [1.0], "checked: a new plan is empty"),
        (3, [1.0, 2.0, 4.0], "checked: a new plan is empty"),
        (4, [1.0, 2.0, 4.0], "after the apply, a new plan is not empty:"),
    ],
)
def test_unknown_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    unknown_reads: int,
    waited: list[float],
    said: str,
) -> None:
    made = world("east")
    wished = topology(topic("orders", partitions=2))
    made.apply(wished, made.plan(wished))
    empty = made.plan(wished)
    answers = iter([*[replace(empty, unknown=(NO_LEADER,))] * unknown_reads, empty])
    waits: list[float] = []
    monkeypatch.setattr(run, "make_plan", lambda *_, **__: next(answers))
    monkeypatch.setattr("reconciler.operations.apply.run.time.sleep", waits.append)
    run._verify(SimpleNamespace(last=Seen()), empty)  # type: ignore[arg-type]
    printed = capsys.readouterr()
    assert waits == waited
    assert said in printed.out + printed.err
    assert ("NOT_LEADER_OR_FOLLOWER" in printed.out + printed.err) == (unknown_reads == 4)


def test_flows_that_a_started_mirror_does_not_copy_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = world("east", "west")
    made.clusters["east"].put("orders")
    wished = topology(flow("east", "west", "orders"))
    applied = made.plan(wished)
    made.apply(wished, applied)
    refused = ReportedCondition(
        code="record_refused", text="t", todo="d", since_ms=1, stops=True, topic="orders", partition=0
    )
    [job] = made.runner.jobs.values()
    stopped = replace(job.flows["east-to-west"], state="degraded", conditions=(refused,))
    seen = LiveState({}, {"west": replace(job, flows={"east-to-west": stopped})})
    monkeypatch.setattr(run, "make_plan", lambda *_, **__: made.plan(wished))
    run._verify(SimpleNamespace(last=Seen(seen)), applied)  # type: ignore[arg-type]
    assert "but flow east-to-west: record_refused on orders-0." in capsys.readouterr().err
