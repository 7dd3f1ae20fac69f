"""Why something drifted: only what the record of earlier runs and the plan itself say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reconciler.engine.drift.causes import cause_of, history
from reconciler.model.changes import AddPartitions, AlterConfigs, ConfigChange, CreateTopic, Reason, Role, Why
from reconciler.model.environment.topology import TopicRef
from reconciler.model.plan import Outcome, Planned, Result
from reconciler.model.reports.drift import Cause, History
from reconciler.operations.apply.audit import changed, ended
from reconciler.resources.topics.kind import grown_outside

REF = TopicRef("east", "orders")
BECAUSE = Reason(Why.DECLARED, "declared")
ID = "configs:east/orders"


def config(before: str = "60000", after: str = "70000", source: str = "topic") -> ConfigChange:
    return ConfigChange("retention.ms", before, source, after, "declared")


def planned(one: ConfigChange | None = None) -> Planned:
    change = AlterConfigs(REF, "id", (one or config(),), Role.DECLARED, BECAUSE)
    return Planned(ID, change, "source topics", "low", "", "")


def creation(one: ConfigChange) -> Planned:
    change = CreateTopic(REF, 1, 1, (replace(one, before=None, goal=None),), Role.DECLARED, BECAUSE)
    return Planned("create:east/orders", change, "", "low", "", "")


def run(
    number: int, one: ConfigChange | None, result: Result = Result.DONE, end: bool = True
) -> list[Mapping[str, Any]]:
    """The lines of one run that touched one config, as the audit record has them."""
    name = f"run-{number}"
    changes = 1 if one and end else 2  # one that was cut off had more to do
    begun = {"kind": "begin", "run": name, "at": f"2026-01-0{number}", "plan_digest": "d", "changes": changes}
    outcome = Outcome(ID, result, "" if result is Result.DONE else "no answer\nand more")
    touched = [] if one is None else [changed(name, number * 86_400.0, outcome, planned(one))]
    return [begun, *touched, *([ended(name, number * 86_400.0, (outcome,), "")] if end else [])]


def cause(one: ConfigChange, *runs: list[Mapping[str, Any]]) -> Cause:
    return cause_of(planned(one), history(line for lines in runs for line in lines), one).cause


def test_a_value_we_set_once_and_that_is_another_now_was_edited_outside() -> None:
    assert cause(config(), run(1, config(before="1"))) is Cause.EDITED_OUTSIDE
    assert cause(config(source="broker default"), run(1, config(before="1"))) is Cause.EDITED_OUTSIDE


def test_a_value_that_went_back_after_every_apply_is_normalised_by_the_vendor() -> None:
    assert cause(config(), run(1, config(before="1")), run(2, config())) is Cause.NORMALISED
    assert cause(config(before="5"), run(1, config(before="1")), run(2, config())) is Cause.EDITED_OUTSIDE


@pytest.mark.parametrize("result", [Result.FAILED, Result.SKIPPED])
def test_a_change_that_the_last_run_did_not_do_is_half_finished(result: Result) -> None:
    told = cause_of(planned(), history(run(1, config(), result)), config())
    assert told.cause is Cause.HALF_FINISHED
    assert told.why.endswith("did not do it: no answer")
    assert cause(config(), run(1, config(), result), run(2, config(before="1"))) is Cause.EDITED_OUTSIDE


def test_without_an_override_the_brokers_default_speaks() -> None:
    assert cause(config(source="static broker")) is Cause.DEFAULT_CHANGED


def test_two_stories_that_fit_are_not_reported_as_one() -> None:
    assert cause(config()) is Cause.UNDETERMINED
    assert cause(config(after="80000"), run(1, config())) is Cause.UNDETERMINED, "git changed since"


def test_steps_of_retention_are_our_own_doing_until_someone_sets_another_value() -> None:
    """A step sets neither what was nor what is wished; that alone is no edit by others."""
    first = ConfigChange("retention.ms", "90000", "topic", "60000", "declared, 1 of 3 steps", "10000")
    next_one = replace(first, before="60000", after="30000")
    told = cause_of(planned(next_one), history(run(1, first)), next_one)
    assert told.cause is Cause.HALF_FINISHED
    assert told.why.startswith("the apply of 1970-01-02T00:00:00.000Z lowered it by one step")
    made = changed("r", 0.0, Outcome("create:east/orders", Result.DONE), creation(first))
    assert cause(next_one, [made], run(1, first)) is Cause.HALF_FINISHED, "later than what it was made with"
    assert cause(replace(next_one, before="95000"), run(1, first)) is Cause.EDITED_OUTSIDE
    assert cause(replace(next_one, before_source="broker default"), run(1, first)) is Cause.EDITED_OUTSIDE


def test_what_an_earlier_run_left_there_is_no_edit_by_others() -> None:
    """Git went back to a value that an apply before the last one had set."""
    there = config(before="60000", after="70000")
    runs = (run(1, config(before="1", after="70000")), run(2, config(before="70000", after="60000")))
    told = cause_of(planned(there), history(line for lines in runs for line in lines), there)
    assert told.cause is Cause.UNDETERMINED
    assert told.why == "as the apply of 1970-01-03T00:00:00.000Z left it: git declares another value since then"


def test_a_topic_that_was_made_and_a_run_that_was_cut_off() -> None:
    create = creation(config())
    grow = Planned("partitions:east/orders", AddPartitions(REF, "id", 1, 2, Role.DECLARED, BECAUSE), "", "low", "", "")
    made = changed("r", 0.0, Outcome(create.id, Result.DONE), create)
    assert cause_of(create, history([made])).cause is Cause.EDITED_OUTSIDE
    assert cause(config(), [made]) is Cause.EDITED_OUTSIDE, "what it was made with counts as set by us"
    assert cause_of(grow, history(run(1, None, end=False))).cause is Cause.HALF_FINISHED
    assert cause_of(grow, history(run(1, None))).cause is Cause.UNDETERMINED


def test_a_run_that_was_cut_off_says_nothing_for_certain_once_others_ended() -> None:
    """It stood in the record for ever, and each wish that was new since then was called half-finished."""
    grow = Planned("partitions:east/orders", AddPartitions(REF, "id", 1, 2, Role.DECLARED, BECAUSE), "", "low", "", "")
    killed, whole = run(1, None, end=False), run(2, config())
    told = cause_of(grow, history([*killed, *whole]))
    assert told.cause is Cause.UNDETERMINED
    assert told.why.endswith("new in git, changed outside, or left by the run of 2026-01-01, which was cut off")
    assert cause_of(grow, history([*whole, *killed])).cause is Cause.HALF_FINISHED


def test_only_a_run_that_had_something_left_to_do_was_cut_off() -> None:
    """A command by hand plans nothing, and a run may be killed after its last change."""
    grow = Planned("partitions:east/orders", AddPartitions(REF, "id", 1, 2, Role.DECLARED, BECAUSE), "", "low", "", "")
    begun, touched = run(1, config(), end=False)
    assert cause_of(grow, history([{**begun, "plan_digest": None, "changes": 1}])).cause is Cause.UNDETERMINED
    assert cause_of(grow, history([{**begun, "plan_digest": "d", "changes": 1}, touched])).cause is Cause.UNDETERMINED
    assert cause_of(grow, history([{**begun, "plan_digest": "d", "changes": 2}, touched])).cause is Cause.HALF_FINISHED


def test_lines_of_another_shape_are_passed_over() -> None:
    odd: list[Mapping[str, Any]] = [{}, {"kind": "change"}, {"kind": "change", "id": ID, "result": "done", "change": 7}]
    assert cause(config(), odd) is Cause.UNDETERMINED
    assert history([]) == History()


def growing(after: int, why: Why = Why.DECLARED, result: Result = Result.DONE) -> tuple[Planned, Mapping[str, Any]]:
    """From two partitions, and its line in the audit record."""
    change = AddPartitions(REF, "id", 2, after, Role.DECLARED, Reason(why, "because"))
    grow = Planned(change.id, change, "", "low", "", "")
    return grow, changed("r", 0.0, Outcome(grow.id, result), grow)


def test_partitions_that_git_declares_anew_are_no_edit_by_others() -> None:
    """An apply had added some before; git then declared more, or the source of a copy got more."""
    (_, two), (four, _) = growing(2), growing(4)
    told = cause_of(four, history([two]))
    assert (told.cause, "git declares another value since then" in told.why) == (Cause.UNDETERMINED, True)
    copy, _ = growing(4, Why.SOURCE_HAS_MORE_PARTITIONS)
    for lines in ([], [two]):
        told = cause_of(copy, history(lines))
        assert (told.cause, "its source has more" in told.why) == (Cause.UNDETERMINED, True)
    assert cause_of(four, history([two, *run(1, None, end=False)])).cause is Cause.HALF_FINISHED


def test_a_topic_with_fewer_partitions_than_an_apply_left_was_recreated() -> None:
    (four, done), (six, _) = growing(4), growing(6)
    for grow in (four, six):
        told = cause_of(grow, history([done]))
        assert told.cause is Cause.EDITED_OUTSIDE
        assert told.why.endswith("left 4 partitions, so the topic was recreated with fewer")


def test_partitions_above_what_we_made_were_added_outside() -> None:
    made: Mapping[str, Any] = {"kind": "change", "id": f"create:{REF}", "result": "done", "at": "2026-01-01"}
    assert grown_outside(str(REF), history([made])).cause is Cause.EDITED_OUTSIDE
    assert grown_outside(str(REF), history([{**made, "result": "failed"}])).cause is Cause.UNDETERMINED
    assert grown_outside(str(REF), History()).cause is Cause.UNDETERMINED
