"""Which notices a command or a round has: one of each state, however long it lasts, and none where all is well."""

from __future__ import annotations

from reconciler.engine.loop import Round
from reconciler.errors import ExitCode
from reconciler.model.environment.hooks import Notice, NoticeEvent
from reconciler.model.plan import Outcome, Plan, Result
from reconciler.model.reports.health import Health, Verdict, VerdictCause
from reconciler.render.notices import MOST_DETAILS, Noticed, of_apply, of_drift, of_round
from tests.support.builders import topic, topology, world

WELL = Verdict()
STOPPED = VerdictCause(
    Health.STOPPED, "flow f", "flow f: record_refused on orders-0", "text", code="record_refused", topic="orders",
    partition=0,
)  # fmt: skip


def planned(count: int) -> Plan:
    return world("east").plan(topology(*(topic(f"t{number:02}", partitions=1) for number in range(count))))


def rounds(*seen: tuple[Plan | None, Verdict | None, tuple[Outcome, ...]]) -> list[list[tuple[str, str]]]:
    noticed, found = Noticed(), []
    for number, (plan, verdict, outcomes) in enumerate(seen):
        error = "" if plan else "east is silent"
        this = Round(number, 0.0, 0.1, plan, outcomes, error=error)
        notices, noticed = of_round(noticed, this, verdict, "prod")
        found.append([(notice.event.value, notice.state) for notice in notices])
    return found


def test_an_apply_names_what_failed_and_nothing_to_do_is_no_notice() -> None:
    plan = planned(12)
    first, *others = (one.id for one in plan.changes)
    outcomes = [Outcome(first, Result.FAILED, "east refused\nit"), *(Outcome(one, Result.DONE) for one in others)]
    [notice] = of_apply(plan, outcomes, ExitCode.PARTIAL)
    assert (notice.state, notice.details) == ("partial", (f"{first}: east refused it",))
    [notice] = of_apply(plan, [Outcome(one.id, Result.DONE) for one in plan.changes], ExitCode.DONE)
    assert (notice.state, len(notice.details), notice.details[-1]) == ("done", MOST_DETAILS + 1, "and 2 more")
    assert of_apply(planned(0), [], ExitCode.DONE) == ()


def test_drift_is_a_notice_and_its_absence_is_none() -> None:
    [notice] = of_drift(planned(1), ["east/t00 missing"], ExitCode.CHANGES)
    assert (notice.event, notice.state, notice.details) == (NoticeEvent.DRIFT, "drift", ("east/t00 missing",))
    assert of_drift(planned(0), [], ExitCode.DONE) == ()


def test_a_state_is_noticed_once_and_so_is_its_end() -> None:
    other = VerdictCause(Health.STOPPED, "flow f", "b", "t", code="record_refused", topic="orders", partition=1)
    stopped, more, quiet = Verdict((STOPPED,)), Verdict((STOPPED, other)), planned(0)
    assert rounds(
        (quiet, WELL, ()), (quiet, stopped, ()), (quiet, stopped, ()), (quiet, more, ()), (quiet, stopped, ()),
        (quiet, WELL, ()),
    ) == [[], [("verdict", "STOPPED")], [], [("verdict", "STOPPED")], [], [("verdict", "OK")]]  # fmt: skip


def test_rounds_that_fail_are_noticed_once() -> None:
    quiet = planned(0)
    assert rounds((None, None, ()), (None, None, ()), (quiet, WELL, ())) == [
        [("verdict", "UNKNOWN")], [], [("verdict", "OK")],
    ]  # fmt: skip


def test_changes_that_wait_are_noticed_when_they_come_and_what_was_done_each_time() -> None:
    two, none = planned(2), planned(0)
    done = tuple(Outcome(one.id, Result.DONE) for one in two.changes)
    assert rounds((two, WELL, ()), (two, WELL, ()), (two, WELL, done), (none, WELL, ()), (two, WELL, ())) == [
        [("drift", "drift")], [], [("apply", "done")], [], [("drift", "drift")],
    ]  # fmt: skip


def test_a_long_line_is_cut() -> None:
    plan = planned(1)
    [notice] = of_apply(plan, [Outcome(plan.changes[0].id, Result.FAILED, "x" * 5_000)], ExitCode.ERROR)
    assert isinstance(notice, Notice)
    assert len(notice.details[0]) == 400
