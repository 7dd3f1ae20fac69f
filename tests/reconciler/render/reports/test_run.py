"""What ``run`` logs of a round: one line for one reason, and no alarm where nothing failed."""

from __future__ import annotations

import pytest

from reconciler.engine.loop import Round
from reconciler.engine.plan.select import within
from reconciler.model.options import Autonomy
from reconciler.model.plan import Outcome, Plan, Result
from reconciler.render.reports.apply import round_lines
from tests.support.builders import topic, topology, world


def planned(count: int) -> Plan:
    return world("east").plan(topology(*(topic(f"t{number}", partitions=1) for number in range(count))))


def test_what_is_held_back_for_one_reason_is_one_line_however_much_it_is() -> None:
    plan = planned(300)
    held = within(plan, Autonomy.NONE).held
    [line, last] = list(round_lines(Round(1, 0.0, 0.1, plan, held=held)))
    first = [one.id for one in plan.changes[:8]]
    assert line == ("info", "held back", {"changes": 300, "first": first, "why": "autonomy none only plans"})
    assert last[1] == "round"


@pytest.mark.parametrize(
    ("results", "told"),
    [
        ([Result.DONE, Result.SKIPPED], [("info", "done"), ("info", "not begun")]),
        ([Result.FAILED, Result.SKIPPED], [("error", "failed"), ("error", "skipped")]),
    ],
)
def test_what_a_wished_stop_leaves_is_no_error(results: list[Result], told: list[tuple[str, str]]) -> None:
    plan = planned(2)
    outcomes = [Outcome(one.id, result, "why") for one, result in zip(plan.changes, results, strict=True)]
    lines = [line[:2] for line in round_lines(Round(1, 0.0, 0.1, plan, tuple(outcomes)))]
    assert lines == [*told, ("info", "round")]
