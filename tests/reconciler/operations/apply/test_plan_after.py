"""The plan after an apply: what only has no leader yet is read again, what stays unknown or changed is printed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.errors import Unknown
from reconciler.operations.apply import run
from tests.support.builders import topic, topology, world

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
    run._verify(None, empty)  # type: ignore[arg-type]
    printed = capsys.readouterr()
    assert waits == waited
    assert said in printed.out + printed.err
    assert ("NOT_LEADER_OR_FOLLOWER" in printed.out + printed.err) == (unknown_reads == 4)
