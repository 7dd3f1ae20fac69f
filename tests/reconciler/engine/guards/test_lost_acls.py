"""A lost file with access rules is no wish to take everybody's rights away."""

from __future__ import annotations

import pytest

from reconciler.engine.guards import released, unjudged
from reconciler.engine.plan.file import dumps, loads
from reconciler.engine.plan.select import known_part
from reconciler.errors import ExitCode
from reconciler.model.environment.topology import Topology
from reconciler.model.state.last_apply import Consent
from tests.support.access.acls import env
from tests.support.builders import World, codes, world

LIMIT = "access-above-limit"


def consumers(*names: str, more: str = "") -> Topology:
    """One rule each."""
    entries = [
        f'  - {{role: consumer, principal: "User:{name}", clusters: [east], topics: [orders], groups: []}}\n'
        for name in names
    ]
    return env("access:\n" + "".join(entries) if entries else "access: []\n", *([more] if more else []))


TWENTY = [f"app{number:02}" for number in range(20)]


@pytest.fixture
def owning() -> World:
    seen = world()
    seen.apply(consumers(*TWENTY))
    assert len(seen.clusters["east"].acls) == 20
    return seen


@pytest.mark.parametrize(("left", "refused"), [(20, False), (16, False), (15, True), (1, True), (0, True)])
def test_more_than_a_fifth_and_at_least_five(owning: World, left: int, refused: bool) -> None:
    made = owning.plan(consumers(*TWENTY[:left]))
    assert (LIMIT in codes(made)) == refused
    assert (made.exit_code is ExitCode.BLOCKED) == refused


def test_the_refusal_names_what_is_gone_and_how_to_agree(owning: World) -> None:
    made = owning.plan(consumers(*TWENTY[:4]))
    [refused] = made.refused
    assert str(refused.subject) == "declared access rules of east"
    assert refused.reason.text.startswith("16 of 20 access rules that earlier runs made on east are no longer needed: ")
    assert "allow User:app04 read on topic orders" in refused.reason.text
    assert "--allow-shrink" in refused.todo
    assert not released(made, Consent(shrink=True)).refused


def test_no_one_loses_a_right_by_partial_or_run_either(owning: World) -> None:
    assert not known_part(owning.plan(consumers(*TWENTY[:4]))).plan.changes


def test_rules_that_are_replaced_are_not_lost(owning: World) -> None:
    """A principal that is renamed everywhere leaves as many rules as it had."""
    made = owning.plan(consumers(*(f"new-{name}" for name in TWENTY)))
    assert len(made.changes) == 40
    assert not made.refused


def test_few_rules_may_all_go_so_that_access_ceases_to_be_managed() -> None:
    seen = world()
    seen.apply(consumers(*TWENTY[:4]))
    assert not seen.plan(consumers()).refused


def test_the_limit_is_the_environments_own(owning: World) -> None:
    roomy = consumers(*TWENTY[:4], more="shrink_limit: {percent: 90, least: 5}\n")
    assert not owning.plan(roomy).refused


def test_what_is_declared_absent_is_said_outright_and_counts_for_nothing(owning: World) -> None:
    gone = [
        f'  - {{principal: "User:{name}", clusters: [east], resource: topic, names: [orders], operations: [read],'
        " absent: true}\n"
        for name in TWENTY
    ]
    made = owning.plan(env("access:\n" + "".join(gone)))
    assert len(made.changes) == 20
    assert LIMIT not in codes(made)


def test_a_saved_plan_keeps_the_refusal_until_the_user_agrees(owning: World) -> None:
    saved = loads(dumps(owning.plan(consumers(*TWENTY[:4]))))
    assert codes(unjudged(saved)) == {LIMIT}
    assert not released(unjudged(saved), Consent(shrink=True)).refused
