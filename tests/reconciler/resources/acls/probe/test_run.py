"""A wave of access changes is probed; a failed one is undone to the last rule, and an unknown one stays."""

from __future__ import annotations

import json
from collections.abc import Callable

import jsonschema
import pytest

from reconciler.engine.apply.limits import exit_code
from reconciler.engine.drift.causes import cause_of
from reconciler.engine.loop import Corrections, corrected, looked, uncontested
from reconciler.errors import ClusterError, ExitCode
from reconciler.model.changes import CreateAcl
from reconciler.model.environment.topology import Principal, Topology
from reconciler.model.plan import Result
from reconciler.model.principals import AclBinding
from reconciler.model.reports.drift import Cause, History
from reconciler.model.reports.probe import Needs, Probe, ProbeCheck, ProbeVerdict
from reconciler.model.schemas import schema as schema_of
from reconciler.render.reports.apply import outcomes_json
from reconciler.resources.acls.probe.rights import MOST, ask_for, wanted
from reconciler.resources.acls.probe.verdict import by_hand
from tests.support.access.acls import rule, rules
from tests.support.access.probes import BEFORE, DO, LOOK, VIEWS, access_of, run, strangers
from tests.support.access.secured import PLAIN, env
from tests.support.builders import World, world

SOME = """
access:
  - {role: consumer, principal: "User:a", clusters: [east], topics: [orders], groups: []}
  - {role: producer, principal: "User:b", clusters: [east], topics: [orders]}
  - {principal: "User:old", clusters: [east], resource: topic, names: [orders], operations: [read], absent: true}
"""
READ_A, WRITE_B, OLD = (
    rule("allow User:a read topic orders"),
    rule("allow User:b write topic orders"),
    rule("allow User:old read topic orders"),
)


def begun() -> World:
    seen = world()
    seen.clusters["east"].put("orders")
    seen.clusters["east"].acls |= {OLD}
    return seen


def vanishing(seen: World, acl: AclBinding) -> Callable[[], None]:
    east = seen.clusters["east"]
    return lambda: east.at_call(VIEWS, lambda: east.acls.discard(acl))


def failing(seen: World, call: int) -> Callable[[], None]:
    error = ClusterError("east", "unreachable", "cluster east does not answer")
    return lambda: seen.clusters["east"].fail_on(call, error)


def test_each_wave_is_probed_before_it_counts_as_done() -> None:
    seen, wished = begun(), env(PLAIN, SOME)
    ended = run(seen, wished)
    assert [(one.stage, one.rules, one.verdict) for one in ended.probes] == [
        ("access", 2, ProbeVerdict.PASSED),
        ("removals", 1, ProbeVerdict.PASSED),
    ]
    assert exit_code(ended.outcomes, ended.plan) is ExitCode.DONE
    assert seen.clusters["east"].pending == {}
    assert seen.plan(wished).exit_code is ExitCode.DONE


def test_a_rule_that_vanishes_after_its_wave_takes_the_wave_back_and_stops_the_cluster() -> None:
    seen, wished = begun(), env(PLAIN, SOME, "topics: {orders: {clusters: [east]}, fresh: {clusters: [east, west]}}")
    before = access_of(seen)
    ended = run(seen, wished, vanishing(seen, READ_A))
    assert ended.results[str(READ_A)] == ended.results[str(WRITE_B)] == "undone"
    assert ended.results[str(OLD)] == "skipped"
    assert ended.results["create:east/fresh"] == ended.results["create:west/fresh"] == "done"
    assert access_of(seen) == before
    assert exit_code(ended.outcomes, ended.plan) is ExitCode.PARTIAL
    for word in (f"'{READ_A}' is missing on broker 1", "All is as before this ACL batch", "no further access change"):
        assert word in ended.words
    assert run(seen, wished).results[str(OLD)] == "done", "the next apply does it all"


def test_other_clusters_continue_when_the_probe_of_one_fails() -> None:
    seen = begun()
    wished = env(PLAIN, SOME.replace("clusters: [east], topics", "clusters: [east, west], topics"))
    ended = run(seen, wished, vanishing(seen, READ_A))
    told = {one.id: one.result.value for one in ended.outcomes}
    assert {result for name, result in told.items() if ":west:" in name} == {"done"}
    assert {result for name, result in told.items() if name.startswith("create-acl:east")} == {"undone"}


def test_a_denial_by_a_stranger_in_the_middle_is_against_the_plan() -> None:
    seen, wished = begun(), env(PLAIN, SOME)
    theirs = rule("deny User:a read topic ord*")
    before = access_of(seen)
    ended = run(seen, wished, strangers(seen, "deny User:a read topic ord*"))
    assert access_of(seen) == (before[0] | {theirs}, before[1]), "a stranger's rule is never touched"
    assert "User:a may not read on topic orders" in ended.words
    assert f"'{theirs}' is there" in ended.words
    assert by_hand(theirs, False, "east:9092") in ended.words


def test_what_strangers_do_elsewhere_meanwhile_fails_nothing() -> None:
    seen, wished = begun(), env(PLAIN, SOME)
    theirs = ("deny User:z read topic orders", "allow User:a read topic other", "allow User:a write topic orders")
    ended = run(seen, wished, strangers(seen, *theirs))
    assert set(ended.results.values()) == {"done"}
    assert "3 rules of others changed meanwhile and decides none of it" in ended.probes[0].checks[1].text


def test_brokers_may_take_their_time() -> None:
    seen, wished = begun(), env(PLAIN, SOME)
    ended = run(seen, wished, lambda: seen.clusters["east"].show_late(1, reads=2), patience=60)
    assert set(ended.results.values()) == {"done"}


def test_a_broker_that_never_shows_it_fails_the_wave() -> None:
    seen, wished = begun(), env(PLAIN, SOME)
    ended = run(seen, wished, lambda: seen.clusters["east"].show_late(1, reads=10_000))
    assert ended.results[str(READ_A)] == "undone"


def test_an_unknown_part_stays_and_is_planned_again() -> None:
    seen, wished = begun(), env(PLAIN, SOME)
    ended = run(seen, wished, failing(seen, VIEWS))
    assert ended.results == {str(READ_A): "unproven", str(WRITE_B): "unproven", str(OLD): "skipped"}
    assert exit_code(ended.outcomes, ended.plan) is ExitCode.PARTIAL
    assert "cluster east does not answer" in ended.words
    again = seen.plan(wished)
    assert {one.change.reason.code for one in again.changes if isinstance(one.change, CreateAcl)} == {"not-probed"}
    assert set(run(seen, wished).results.values()) == {"done"}
    assert seen.plan(wished).exit_code is ExitCode.DONE


@pytest.mark.parametrize("call", [LOOK, BEFORE, DO])
def test_a_wave_that_cannot_begin_changes_nothing(call: int) -> None:
    seen, wished = begun(), env(PLAIN, SOME)
    before = access_of(seen)
    ended = run(seen, wished, failing(seen, call))
    assert ended.results[str(READ_A)] == "failed"
    assert access_of(seen)[0] == before[0] - {OLD}
    assert seen.clusters["east"].owned == {}


STEPS = 12
"""More calls than the two waves have."""


@pytest.mark.parametrize("call", range(LOOK, LOOK + STEPS))
@pytest.mark.parametrize("fails", [False, True])
def test_killed_at_any_call_and_gone_on_with(call: int, fails: bool) -> None:
    """Whatever a killed run leaves, the next one probes it, and leaves what a run that was not killed leaves."""
    seen, wished = begun(), env(PLAIN, SOME)
    east = seen.clusters["east"]
    arranged = [vanishing(seen, READ_A)] if fails else []
    killed = run(seen, wished, *arranged, lambda: east.fail_on(call, KeyboardInterrupt()))
    east._failures.clear()
    unproven = {one.id for one in killed.outcomes if one.result is Result.UNPROVEN}
    assert unproven <= {one.id for one in seen.plan(wished).changes}, "nothing unconfirmed is forgotten"
    done = {one.id for one in killed.outcomes if one.result is Result.DONE}
    assert not done & {one.id for one in seen.plan(wished).changes}
    ended = run(seen, wished)
    assert set(ended.results.values()) <= {"done"}
    assert access_of(seen)[0] == {READ_A, WRITE_B}
    assert set(seen.clusters["east"].owned) == {READ_A, WRITE_B}
    assert seen.clusters["east"].pending == {}


@pytest.mark.parametrize("after", range(6))
def test_killed_between_any_two_rules_and_undone_later(after: int) -> None:
    """The undo of a wave that was cut off twice leads back to what was there before both."""
    seen, wished = begun(), env(PLAIN, SOME)
    east, before = seen.clusters["east"], access_of(seen)
    run(seen, wished, lambda: east.kill_after(after))
    if not any(one.change.reason.code == "not-probed" for one in seen.plan(wished).changes):
        return
    east._left = None
    texts = ("deny User:a read topic orders", "allow User:old read topic o*")
    theirs = rules(*texts)
    ended = run(seen, wished, strangers(seen, *texts, call=DO))
    cut_off = {one.id for one in ended.plan.changes if one.change.reason.code == "not-probed"}
    undone = {one.id for one in ended.outcomes if one.result is Result.UNDONE}
    assert cut_off <= undone
    if after < 3:
        assert access_of(seen) == (before[0] | theirs, before[1])
    else:
        assert OLD in east.acls
        assert OLD not in east.owned, "a stranger's rule that comes back is no rule of ours"


@pytest.mark.parametrize("rule_of_undo", [0, 1])
def test_killed_while_it_is_being_undone_and_gone_on_with(rule_of_undo: int) -> None:
    seen, wished = begun(), env(PLAIN, SOME)
    east = seen.clusters["east"]
    killed = run(seen, wished, vanishing(seen, READ_A), lambda: east.kill_after(2 + rule_of_undo))
    told = killed.results
    assert told[str(READ_A)] == "undone", "it is not there"
    assert told[str(WRITE_B)] == ("unproven" if WRITE_B in east.acls else "undone")
    assert east.pending.keys() == {READ_A, WRITE_B}
    assert set(run(seen, wished).results.values()) == {"done"}
    assert access_of(seen)[0] == {READ_A, WRITE_B}
    assert (set(east.owned), east.pending) == ({READ_A, WRITE_B}, {})


def test_a_rule_that_comes_back_while_it_is_deleted_is_reported() -> None:
    seen = begun()
    wished = owned_and_strange(seen)
    before, east = access_of(seen), seen.clusters["east"]
    ended = run(seen, wished, lambda: east.at_call(VIEWS, lambda: east.acls.add(READ_A)))
    assert f"'{READ_A}' still exists on broker 1" in ended.words
    assert access_of(seen) == before


def owned_and_strange(seen: World) -> Topology:
    """East has a rule of ours that is declared no longer, and a stranger's that is declared absent."""
    wished = env(PLAIN, SOME.replace("absent: true", "permission: allow"))
    seen.clusters["east"].acls.discard(OLD)
    run(seen, wished)
    theirs = rule("allow User:stranger read topic orders")
    seen.clusters["east"].acls.add(theirs)
    gone = 'principal: "User:stranger", clusters: [east], resource: topic, names: [orders], operations: [read]'
    return env(PLAIN, f"access: [{{{gone}, absent: true}}]")


def test_an_undone_deletion_gives_everything_back_to_whom_it_was() -> None:
    seen = begun()
    wished = owned_and_strange(seen)
    before = access_of(seen)
    assert len(before[1]) == 3
    theirs = rule("allow User:stranger read topic o*")
    ended = run(seen, wished, strangers(seen, "allow User:stranger read topic o*"))
    assert set(ended.results.values()) == {"undone"}
    assert access_of(seen) == (before[0] | {theirs}, before[1])


def test_without_the_lock_nothing_is_undone_and_that_is_said() -> None:
    seen, wished = begun(), env(PLAIN, SOME)
    ended = run(seen, wished, vanishing(seen, READ_A), held=lambda: "the lock was taken by ada")
    assert ended.results[str(WRITE_B)] == "left"
    assert "the lock was taken by ada" in ended.words
    assert WRITE_B in seen.clusters["east"].acls


def test_a_probe_costs_the_same_few_requests_for_any_number_of_rules() -> None:
    counts = []
    for number in (1, 200, 1_001):
        seen = world()
        names = ", ".join(f"t{one}" for one in range(number))
        entry = f'{{role: producer, principal: "User:a", clusters: [east], topics: [{names}]}}'
        before = seen.clusters["east"].calls
        run(seen, env(PLAIN, f"access: [{entry}]"))
        counts.append(seen.clusters["east"].calls - before)
    # One of the plan's three asks for the topics that rules name.
    assert counts == [9, 9, 9 + 5], "three of the plan, one for the id, five of each wave of a thousand"


def test_what_a_wave_touches_is_asked_about_first() -> None:
    rights = tuple(rule(f"allow User:m read topic t{number:03}") for number in range(300))
    needs = Needs(Principal.MIRROR, "User:m", (*rights, rule("allow User:m write topic east.*")), frozenset({"east.z"}))
    some = wanted([needs], [*rules("deny User:x read topic t299", "allow User:x read topic east.*")])
    asked = ask_for(some).topics
    assert len(asked) == MOST
    assert {"t299", "east.z"} <= set(asked)


def test_json_of_an_apply_has_the_probes_as_its_schema_says() -> None:
    seen, wished = begun(), env(PLAIN, SOME)
    ended = run(seen, wished, vanishing(seen, READ_A))
    document = json.loads(outcomes_json(ended.plan, ended.outcomes, ended.probes))
    schema = schema_of("outcome")
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document["exit_code"] == 5
    assert [one["verdict"] for one in document["probes"]] == ["failed"]


def test_a_loop_does_not_do_and_undo_for_ever() -> None:
    seen, wished, history = begun(), env(PLAIN, SOME), Corrections()
    for at in range(3):
        ended = run(seen, wished, vanishing(seen, READ_A))
        history = corrected(looked(history, ended.plan, at), ended.plan, ended.outcomes, at)
    held = uncontested(seen.plan(wished), looked(history, seen.plan(wished), 4.0)).held
    assert f"create-acl:east: {READ_A}" in {one.id for one in held}


def test_drift_says_that_a_run_was_cut_off_before_its_probe() -> None:
    seen, wished = begun(), env(PLAIN, SOME)
    run(seen, wished, failing(seen, VIEWS))
    [cause] = {cause_of(one, History()).cause for one in seen.plan(wished).changes if isinstance(one.change, CreateAcl)}
    assert cause is Cause.HALF_FINISHED


def test_a_probe_is_as_bad_as_its_worst_check() -> None:
    passed, unknown, failed = (
        ProbeCheck("x", one, str(one)) for one in (ProbeVerdict.PASSED, ProbeVerdict.UNKNOWN, ProbeVerdict.FAILED)
    )
    skipped = ProbeCheck("x", ProbeVerdict.SKIPPED, "s")
    assert Probe("east", "access", 1, (passed, skipped)).verdict is ProbeVerdict.PASSED
    assert Probe("east", "access", 1, (passed, unknown)).verdict is ProbeVerdict.UNKNOWN
    assert Probe("east", "access", 1, (unknown, failed)).why == "failed"
