"""Texts people read and machines parse, kept as files: a changed word is a visible difference.

To accept new words: ``UPDATE_GOLDEN=1 pytest tests/golden``, then review the files.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from reconciler.engine.plan import file as planfile
from reconciler.errors import ExitCode, RunnerError
from reconciler.model.plan import Outcome, Result
from reconciler.model.schemas import schema as schema_of
from reconciler.render.markup import Format, Style
from reconciler.render.plan.text import plan_text
from reconciler.render.reports.apply import Rolled, outcomes_in, outcomes_json, outcomes_text
from reconciler.render.reports.drift import drift_json, drift_text
from tests.support.builders import world
from tests.support.documents.plans import PLANS, agrees, first, troubled, wished


def valid(schema: str, text: str) -> Any:
    document = json.loads(text)
    shape = schema_of(schema)
    jsonschema.Draft202012Validator.check_schema(shape)
    jsonschema.Draft202012Validator(shape).validate(document)
    return document


@pytest.mark.parametrize("name", PLANS)
def test_plan(name: str) -> None:
    plan = PLANS[name]()
    agrees(f"{name}.plan.txt", plan_text(plan))
    agrees(f"{name}.plan.json", planfile.dumps(plan))
    assert valid("plan", planfile.dumps(plan))["exit_code"] == plan.exit_code
    assert planfile.loads(planfile.dumps(plan)) == plan


@pytest.mark.parametrize("name", PLANS)
def test_drift(name: str) -> None:
    plan = PLANS[name]()
    agrees(f"{name}.drift.txt", drift_text(plan))
    agrees(f"{name}.drift.json", drift_json(plan))
    document = valid("drift", drift_json(plan))
    assert bool(document["differences"]) == bool(plan.changes)


def test_outcomes() -> None:
    seen = world()
    seen.runner.fail("start west", RunnerError("spark-submit ended with 1", "java is missing", "Install Java 17."))
    seen.clusters["east"].refuse("pay", "names need a prefix")
    plan = seen.plan(wished())
    outcomes = tuple(replace(one, seconds=0.5) for one in seen.apply(wished(), plan))
    agrees("partly.outcome.txt", outcomes_text(plan, outcomes))
    agrees("partly.outcome.json", outcomes_json(plan, outcomes))
    assert valid("outcome", outcomes_json(plan, outcomes))["exit_code"] == 5


def test_outcomes_when_all_is_done() -> None:
    seen = world()
    plan = seen.plan(wished())
    assert outcomes_text(plan, seen.apply(wished(), plan)).startswith(
        "Applied: 8 changes on 2 clusters: creates 7 topics; starts "
    )
    empty = seen.plan(wished())
    assert outcomes_text(empty, seen.apply(wished(), empty)) == "Nothing to apply: everything is as declared\n"


def test_a_rollout_that_halted_is_reported_in_each_format() -> None:
    plan = PLANS["rollout"]()
    outcomes = [Outcome(one.id, Result.SKIPPED, "not begun: wave rest may not begin") for one in plan.changes]
    outcomes[0] = replace(outcomes[0], result=Result.DONE, error="")
    rolled = Rolled(ExitCode.PARTIAL, "wave rest may not begin: cluster east: 2 offline partitions")
    document = valid("outcome", outcomes_json(plan, outcomes, rolled=rolled))
    assert (document["exit_code"], document["rollout"]) == (5, {"halted": rolled.halted})
    text = outcomes_text(plan, outcomes, rolled=rolled)
    assert text.count("wave rest may not begin") == 2, "once as the halt, once for all that was not begun"
    for form in (Format.MARKDOWN, Format.HTML):
        page = outcomes_in(plan, outcomes, form, rolled=rolled)
        assert "Rollout halted: wave rest may not begin: cluster east: 2 offline partitions" in page
    assert "Fix it and run apply again" in text
    by = "SIGTERM ended the run before its waves were over"
    ended = outcomes_text(plan, outcomes, rolled=Rolled(ExitCode.PARTIAL, by, ended_by="SIGTERM"))
    assert f"Rollout halted: {by}\nNothing is to fix: run apply again" in ended
    assert "Fix it" not in ended
    left = outcomes_text(plan, outcomes, rolled=Rolled(ExitCode.CHANGES))
    assert "Later waves are left." in left
    assert "halted" not in left


def test_one_reason_for_many_changes_is_reported_once_with_all_that_failed() -> None:
    plan = first()
    ids = [one.id for one in plan.changes]
    assert len(ids) > 12
    down = "cluster west does not answer\nRun plan again to see what is left."
    failed = outcomes_text(plan, [Outcome(one, Result.FAILED, down) for one in ids])
    assert failed.count("does not answer") == 1
    assert all(one in failed for one in ids)
    left = outcomes_text(plan, [Outcome(one, Result.SKIPPED, "not begun: the run was interrupted") for one in ids])
    assert f"and {len(ids) - 8} more\n      the run was interrupted\n" in left
    apart = outcomes_text(plan, [Outcome(one, Result.FAILED, f"no room for {one}") for one in ids])
    assert apart.count("failed: ") == len(ids)


@pytest.mark.parametrize("name", PLANS)
def test_colour_only_adds_colour(name: str) -> None:
    plan = PLANS[name]()
    for render in (plan_text, drift_text):
        coloured = render(plan, Style(colour=True))
        assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render(plan)
        assert "\x1b[" in coloured


def test_full_names_everything() -> None:
    text = plan_text(troubled(), Style(full=True))
    assert all(f"stray-{number:02}" in text for number in range(12))
    assert "more" not in text
