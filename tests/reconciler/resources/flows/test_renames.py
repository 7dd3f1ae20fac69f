"""A renamed flow keeps everything with its name on the clusters; an undeclared rename gets a hint."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reconciler.engine.doctor.rights import group_needs
from reconciler.engine.edits.compare import compare
from reconciler.engine.explain import explain
from reconciler.errors import ExitCode, ReconcilerError
from reconciler.model.changes import RestartMirror, Risk, Why
from reconciler.model.environment.topology import Flow, Principal, Topology
from reconciler.replication import handover
from reconciler.replication.handover import CODEC, FlowSettings
from reconciler.resources.flows.renames import KEEPS
from reconciler.resources.mirrors.handover import flow_handover
from tests.support.builders import World, flow, ids, topology, world


def renamed(one: Flow, name: str = "orders-to-west") -> Flow:
    return replace(one, name=name, moved_from=one.state_name)


OLD = flow("east", "west", "orders")
NEW = renamed(OLD)
OTHER = flow("east", "west", "pay", name="pay-to-west")


def running(*flows: Flow) -> World:
    seen = world()
    for name in ("orders", "pay"):
        seen.clusters["east"].put(name)
    seen.apply(topology(*flows))
    return seen


def restart(seen: World, wished: Topology) -> RestartMirror:
    planned = seen.plan(wished, previous=previous(seen))
    (change,) = [one.change for one in planned.changes if isinstance(one.change, RestartMirror)]
    return change


def previous(seen: World) -> dict[str, dict[str, object]]:
    return {name: json.loads(text) for name, text in seen.runner.handovers.items()}


def test_the_job_gets_both_names_and_its_state_has_the_first_one() -> None:
    before, after = (topology(one, OTHER) for one in (OLD, NEW))
    was, now = flow_handover(before, OLD), flow_handover(after, NEW)
    assert "moved_from" not in was
    assert (now["name"], now["moved_from"]) == ("orders-to-west", "east-to-west")
    settings = CODEC.decoded(FlowSettings, now)
    assert settings.state_name == "east-to-west"
    twice = renamed(NEW, "third")
    assert flow_handover(topology(twice), twice)["moved_from"] == "east-to-west", "the first name, not the last one"
    assert handover.fingerprint(was) != handover.fingerprint(now)


def test_a_rename_is_one_restart_that_says_that_everything_stays() -> None:
    seen = running(OLD, OTHER)
    change = restart(seen, topology(NEW, OTHER))
    assert change.because == (f"flow orders-to-west: renamed from east-to-west; {KEEPS}",)
    blind = seen.plan(topology(NEW, OTHER))  # where the hand-over is not known, as on another machine
    (change,) = [one.change for one in blind.changes if isinstance(one.change, RestartMirror)]
    assert change.because == (f"flow orders-to-west: renamed from east-to-west; {KEEPS}",)
    assert not blind.notes
    assert not blind.refused


def test_a_rename_with_an_edit_says_both() -> None:
    change = restart(running(OLD), topology(replace(NEW, lanes=4)))
    assert f"flow orders-to-west: renamed from east-to-west; {KEEPS}" in change.because
    assert "flow orders-to-west: lanes 2 -> 4" in change.because
    assert not any("waits with" in line or "now also mirrors" in line for line in change.because)


def test_without_moved_the_plan_hints_at_it() -> None:
    seen = running(OLD, OTHER)
    planned = seen.plan(topology(replace(OLD, name="orders-to-west"), OTHER), previous=previous(seen))
    (note,) = [note for note in planned.notes if "exactly like" in note]
    assert "moved: [{flow: orders-to-west, from: east-to-west}]" in note
    edited = seen.plan(topology(replace(OLD, name="orders-to-west", lanes=4), OTHER), previous=previous(seen))
    assert not [note for note in edited.notes if "exactly like" in note], "with other content nobody knows"


def test_two_that_look_alike_are_no_hint() -> None:
    twin = replace(OLD, name="twin")
    seen = running(OLD)
    planned = seen.plan(topology(replace(OLD, name="a"), twin), previous=previous(seen))
    assert not [note for note in planned.notes if "exactly like" in note]


def test_an_entry_that_leaves_while_its_flow_stays_is_blocked() -> None:
    seen = running(NEW)
    wished = topology(replace(NEW, moved_from=""))
    planned = seen.plan(wished, previous=previous(seen))
    (refused,) = [one for one in planned.refused if one.reason.code is Why.FLOW_STATE_LEFT]
    assert planned.exit_code is ExitCode.BLOCKED
    assert "under the name east-to-west" in refused.reason.text
    assert "moved: [{flow: orders-to-west, from: east-to-west}]" in refused.todo


def test_an_entry_for_a_flow_that_has_state_of_its_own_is_blocked() -> None:
    seen = running(OTHER)
    planned = seen.plan(topology(replace(OTHER, moved_from="elsewhere")), previous=previous(seen))
    (refused,) = [one for one in planned.refused if one.reason.code is Why.FLOW_STATE_LEFT]
    assert "seek ENV pay-to-west --topic T --from-flow elsewhere" in refused.todo


def test_rights_stay_those_of_the_first_name() -> None:
    before, after = (topology(one, OTHER) for one in (OLD, NEW))
    for cluster in ("east", "west"):
        assert group_needs(before, cluster, Principal.MIRROR) == group_needs(after, cluster, Principal.MIRROR)


def test_an_edit_shows_a_rename_as_one_and_not_as_a_flow_that_goes_and_one_that_comes() -> None:
    found = compare(topology(OLD, OTHER), topology(NEW, OTHER))
    (item,) = [one for one in found.items if one.kind == "flow"]
    assert (item.name, [field.path for field in item.fields]) == ("orders-to-west", ["moved"])
    assert item.fields[0].means == f"renamed: {KEEPS}"
    assert found.flows == (), "no topic begins or ceases to travel"
    back = compare(topology(NEW, OTHER), topology(replace(NEW, moved_from=""), OTHER))
    (item,) = [one for one in back.items if one.kind == "flow"]
    assert item.fields[0].risk is Risk.HIGH


def test_explain_knows_both_names() -> None:
    wished = topology(NEW)
    (told,) = explain(wished, "orders-to-west").flows
    assert ("moved", "east-to-west") in told.settings
    with pytest.raises(ReconcilerError, match="flow east-to-west is called orders-to-west now"):
        explain(wished, "east-to-west")


def test_applied_and_planned_again_nothing_is_left_to_do() -> None:
    seen = running(OLD, OTHER)
    wished = topology(NEW, OTHER)
    seen.apply(wished)
    assert ids(seen.plan(wished, previous=previous(seen))) == []
