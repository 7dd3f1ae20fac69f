"""The map shows git, answers and a plan; unknown parts stay unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.engine.topology_map import moved_on, topology_map
from reconciler.errors import Unknown
from reconciler.model.environment.flow_settings import OffsetsKept
from reconciler.model.live import LiveState
from reconciler.model.plan import Basis, Plan, SeenCluster
from reconciler.model.reports.topology_map import Chain, PlanMark, State
from reconciler.model.state.rollout_progress import ClusterRollout, Promotion, SoakState
from tests.support.builders import topic, world
from tests.support.documents.maps import changed_plan, copying, observed, regions, regions_world, running


def test_from_git_alone_nothing_is_known_to_be_well_or_empty() -> None:
    drawn = topology_map(regions())
    states = [*(each.state for each in drawn.clusters), *(each.state for each in drawn.flows)]
    assert set(states) == {State.UNKNOWN}
    assert [(each.name, each.region, each.declared, each.brokers, each.topics) for each in drawn.clusters] == [
        ("east", "us-east", 2, None, None),
        ("west", "us-west", 1, None, None),
        ("hub", "eu", 0, None, None),
    ]
    assert all(flow.records_lag is None and flow.records_per_second is None for flow in drawn.flows)
    assert {flow.name: flow.topics for flow in drawn.flows}["west-to-hub"] == 1
    assert all(cluster.planned is None and cluster.outside is None for cluster in drawn.clusters)
    assert drawn.verdict == ""


def test_a_topic_is_followed_hop_by_hop() -> None:
    assert topology_map(regions()).chains == (Chain(("east", "west", "hub"), ("east-to-west", "west-to-hub"), 1),)


def test_what_answered_is_reported_and_what_did_not_stays_unknown() -> None:
    declared = regions()
    live = observed(declared)
    silent = Unknown("cluster hub", "no broker answers. That is why", "Start it.")
    drawn = topology_map(declared, LiveState({**live.clusters, "hub": silent}, live.mirrors))
    clusters = {each.name: each for each in drawn.clusters}
    flows = {each.name: each for each in drawn.flows}
    assert (clusters["east"].state, clusters["east"].brokers) == (State.OK, 3)
    assert (clusters["hub"].state, clusters["hub"].brokers, clusters["hub"].topics) == (State.UNKNOWN, None, None)
    assert clusters["hub"].problems == ("unknown: no broker answers",)
    assert (flows["east-to-west"].state, flows["east-to-west"].records_lag) == (State.OK, 0)
    assert (flows["west-to-east"].state, flows["west-to-east"].conditions) == (State.PROBLEM, 1)
    assert (flows["east-to-hub"].state, flows["east-to-hub"].topics) == (State.UNKNOWN, None)


def test_a_job_without_a_recent_report_has_no_lag() -> None:
    declared = regions()
    live = observed(declared)
    late = running("west", copying("east-to-west", records_lag=0), late_ms=60_000)
    drawn = topology_map(declared, LiveState(live.clusters, {**live.mirrors, "west": late}))
    flow = next(each for each in drawn.flows if each.name == "east-to-west")
    assert (flow.state, flow.records_lag, flow.records_per_second) == (State.UNKNOWN, None, None)


def test_partitions_without_leader_are_a_problem_of_their_cluster() -> None:
    declared = regions()
    live = observed(declared)
    east = live.known("east")
    assert east is not None
    orders = east.topics["orders"]
    broken = replace(orders, partitions=tuple(replace(part, leader=-1) for part in orders.partitions))
    hurt = replace(east, topics={**east.topics, "orders": broken})
    drawn = topology_map(declared, LiveState({**live.clusters, "east": hurt}, live.mirrors))
    assert (drawn.clusters[0].state, drawn.clusters[0].problems) == (State.PROBLEM, ("6 offline partitions",))


def test_a_plan_marks_what_it_adds_changes_and_restarts() -> None:
    declared, plan = regions(lanes=4), changed_plan()
    drawn = topology_map(declared, None, plan)
    marks = {each.name: each.mark for each in drawn.flows}
    assert marks == {
        "east-to-west": PlanMark.RESTARTING,
        "west-to-east": None,
        "west-to-hub": None,
        "east-to-hub": None,
    }
    west = next(each for each in drawn.clusters if each.name == "west")
    assert west.planned is not None
    assert (west.planned.added, west.mark, west.outside) == (1, PlanMark.ADDED, 0)
    assert [(wave.name, wave.changes) for wave in drawn.waves] == [("canary", 0), ("rest", 2)]
    assert drawn.verdict.startswith("2 changes")


def test_of_flows_in_one_restart_those_that_differ_are_marked_as_what_they_are() -> None:
    seen, declared = regions_world(), regions()
    seen.apply(declared)
    changed = regions(lanes=4)
    extra = replace(changed.flows["east-to-hub"], name="extra", target="west")
    west = replace(changed.mirrors["west"], flows=("east-to-west", "extra"))
    wished = replace(changed, flows={**changed.flows, "extra": extra}, mirrors={**changed.mirrors, "west": west})
    drawn = topology_map(wished, seen.look(wished), seen.plan(wished))
    marks = {each.name: each.mark for each in drawn.flows}
    assert (marks["east-to-west"], marks["extra"], marks["east-to-hub"]) == (PlanMark.CHANGED, PlanMark.ADDED, None)


def test_a_first_plan_adds_every_flow() -> None:
    declared = regions()
    drawn = topology_map(declared, None, regions_world().plan(declared))
    assert {each.mark for each in drawn.flows} == {PlanMark.ADDED}


def test_what_a_plan_could_not_read_is_unknown_on_the_map() -> None:
    declared = regions()
    seen = tuple(SeenCluster(name, None if name == "hub" else f"id-{name}", 3, 7) for name in declared.clusters)
    drawn = topology_map(declared, None, Plan(Basis("shop", "0", clusters=seen)))
    clusters = {each.name: each for each in drawn.clusters}
    assert (clusters["east"].mark, clusters["east"].brokers) == (None, 3)
    assert (clusters["hub"].mark, clusters["hub"].brokers, clusters["hub"].outside) == (PlanMark.UNKNOWN, None, None)
    assert {each.name for each in drawn.flows if each.mark is PlanMark.UNKNOWN} == {"west-to-hub", "east-to-hub"}


@pytest.mark.parametrize("unread", ["quotas west", "remote topics on west", "positions of flow east-to-west on west"])
def test_whatever_could_not_be_read_of_a_cluster_is_unknown_there(unread: str) -> None:
    declared = regions()
    seen = tuple(SeenCluster(name, f"id-{name}", 3, 7) for name in declared.clusters)
    plan = Plan(Basis("shop", "0", clusters=seen), unknown=(Unknown(unread, "no answer"),))
    marks = {each.name: each.mark for each in topology_map(declared, None, plan).clusters}
    assert marks == {"east": None, "west": PlanMark.UNKNOWN, "hub": None}


def test_a_refusal_blocks_its_cluster() -> None:
    seen, declared = world("east", "west", "hub"), regions()
    seen.apply(declared)
    wished = replace(declared, topics={**declared.topics, "orders": topic("orders", partitions=1)})
    drawn = topology_map(wished, None, seen.plan(wished))
    assert drawn.clusters[0].mark is PlanMark.BLOCKED


def test_waves_show_the_progress_of_the_rollout() -> None:
    kept = Promotion("shop", clusters={"east": ClusterRollout("canary", SoakState.SOAKING, 1_000)})
    assert [wave.state for wave in topology_map(regions(), progress=kept).waves] == ["soaking", "not begun"]
    assert [wave.state for wave in topology_map(regions()).waves] == ["", ""]
    unread = topology_map(regions(), progress=Unknown("rollout", "no answer"))
    assert [wave.state for wave in unread.waves] == ["unknown", "unknown"]


def test_the_live_page_draws_the_same_answers_as_the_map() -> None:
    """A copy at the same offsets included: what git declares does not change while the page is open."""
    plain = regions()
    same = replace(plain.flows["west-to-east"], offsets=OffsetsKept.SAME)
    declared = replace(plain, flows={**plain.flows, same.name: same})
    live = observed(plain)
    for plan in (None, changed_plan()):
        drawn = topology_map(declared, live, plan)
        assert [each.name for each in drawn.flows if each.offsets == "same"] == [same.name]
        assert moved_on(drawn, declared, live) == drawn
