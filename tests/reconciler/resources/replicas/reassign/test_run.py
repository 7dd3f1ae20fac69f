"""Factor changes carried out on the fake cluster: throttled, in turns, gone on with after a kill at any call."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from reconciler.cli.main import main
from reconciler.engine.plan.build import basis_now, still_true
from reconciler.engine.plan.summary import verdict
from reconciler.errors import ClusterError, Unknown
from reconciler.model.changes import FinishReassignment, ReassignReplicas
from reconciler.model.environment.topology import AuditTopic, Mirror, TopicDefaults, Topology
from reconciler.model.live import Broker
from reconciler.model.plan import Outcome, Plan, Result
from reconciler.model.replicas import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Journal,
    ReassignmentPace,
    ReplicaFacts,
)
from reconciler.render.reports.reassignments import reassignments_json, under_way
from reconciler.resources.replicas.reassign.in_flight import ReassignmentWatch
from reconciler.resources.replicas.reassign.run import cancel
from tests.support.builders import World, changed, cluster, codes, flow, ids, topic, topology, world
from tests.support.fakes.cluster import FakeCluster
from tests.support.paths import SCHEMAS

SCHEMA = json.loads((SCHEMAS / "reports" / "reassignments.schema.json").read_text("utf-8"))
SLOW = ReassignmentPace(throttle=100, bytes_in_flight=2_000, partitions_in_flight=3)


def wished(factor: int, **fields: Any) -> Topology:
    return topology(cluster("east", reassignment=SLOW), topic("orders", replication_factor=factor, **fields))


def one_topic(factor: int = 1, partitions: int = 6, **overrides: str) -> World:
    seen = world("east", brokers=3)
    made = seen.clusters["east"].put("orders", partitions, factor, **overrides)
    made.sizes = dict.fromkeys(range(partitions), 250)
    return seen


def factors(fake: FakeCluster, name: str = "orders") -> set[int]:
    return {len(replicas) for replicas in fake.topics[name].assignment}


def nothing_left(fake: FakeCluster) -> bool:
    """A journal of nothing may stay after a kill in the last moment: the next reassignment takes it over."""
    if not fake.moves and not any(fake.rates.values()):
        fake.journals.clear()
    throttled = any(key in fake.topics["orders"].overrides for key in (LEADER_REPLICAS, FOLLOWER_REPLICAS))
    return not (fake.moves or fake.journals or throttled or any(fake.rates.values()))


def quiet(closed: Callable[[], str] = str) -> ReassignmentWatch:
    return ReassignmentWatch(note=lambda _: None, closed=closed, progress=lambda _: None)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (1, 2), (3, 2), (3, 1), (2, 3)])
def test_the_factor_changes_and_nothing_is_left_behind(before: int, after: int) -> None:
    seen = one_topic(before)
    (outcome,) = seen.apply(wished(after))
    east = seen.clusters["east"]
    assert (outcome.result, factors(east)) == (Result.DONE, {after})
    assert nothing_left(east)
    assert east.unthrottled == []
    assert seen.plan(wished(after)).changes == ()


def test_the_leaders_stay_the_preferred_ones() -> None:
    seen = one_topic(1)
    east = seen.clusters["east"]
    first = [replicas[0] for replicas in east.topics["orders"].assignment]
    seen.apply(wished(3))
    assert [replicas[0] for replicas in east.topics["orders"].assignment] == first


def test_never_more_on_the_way_than_the_pace_allows() -> None:
    seen = one_topic(1, 12)
    east = seen.clusters["east"]
    most: list[tuple[int, int]] = []
    copy = east.copy

    def watched() -> None:
        flying = list(east.moves.values())
        most.append((len(flying), sum(250 * len(move.adding) for move in flying)))
        copy()

    east.copy = watched  # type: ignore[method-assign]
    seen.apply(wished(3))
    assert max(count for count, _ in most) == 3
    assert max(size for _, size in most) <= SLOW.bytes_in_flight


def test_what_others_throttled_stays_as_it_was() -> None:
    seen = one_topic(1, leader_replication_throttled_replicas="0:9,1:9")
    east = seen.clusters["east"]
    east.rates[2] = {FOLLOWER_RATE: "77"}
    (outcome,) = seen.apply(wished(3))
    assert outcome.result is Result.DONE
    assert east.rates == {1: {}, 2: {FOLLOWER_RATE: "77"}, 3: {}}
    assert east.topics["orders"].overrides == {LEADER_REPLICAS: "0:9,1:9"}


def test_a_rate_that_others_set_meanwhile_is_theirs() -> None:
    seen = one_topic(1)
    east = seen.clusters["east"]
    plan = seen.plan(wished(3))
    east.fail_on(12, KeyboardInterrupt())
    seen.apply(wished(3), plan)
    assert LEADER_RATE in east.rates[1]
    east.rates[1][LEADER_RATE] = "12345"
    seen.apply(wished(3))
    assert factors(east) == {3}
    assert east.rates[1] == {LEADER_RATE: "12345"}


def test_kept_alive_through_a_kill_at_every_call() -> None:
    """Whatever call is the last: the next run ends it, and what it leaves is as if there had been one run."""
    for call in itertools.count(1):
        seen = one_topic(1)
        east = seen.clusters["east"]
        plan = seen.plan(wished(3))
        east.fail_on(call, _Killed())
        try:
            outcomes = seen.apply(wished(3), plan)
        except _Killed:
            outcomes = ()
        if outcomes and all(one.result is Result.DONE for one in outcomes):
            break
        east._failures.clear()
        again = seen.apply(wished(3))
        assert [one.error for one in again] == [""] * len(again), f"killed at call {call}"
        assert factors(east) == {3}, f"killed at call {call}"
        assert nothing_left(east), f"killed at call {call}"
        assert east.unthrottled == [], f"killed at call {call}"
        assert seen.plan(wished(3)).changes == ()
    assert call > 15


def test_a_cluster_that_does_not_answer_at_some_call_is_reported_and_the_next_run_ends_it() -> None:
    for call in range(2, 14):
        seen = one_topic(1)
        east = seen.clusters["east"]
        plan = seen.plan(wished(3))
        east.fail_on(call, ClusterError("east", "unreachable", "east does not answer"))
        (outcome,) = seen.apply(wished(3), plan)
        assert outcome.result is Result.DONE or "does not answer" in outcome.error
        east._failures.clear()
        seen.apply(wished(3))
        assert factors(east) == {3}
        assert nothing_left(east)


class _Killed(BaseException):
    """kill -9: nothing of ours runs any more."""


def interrupted(seen: World, call: int = 14) -> tuple[Plan, tuple[Outcome, ...]]:
    """An apply of factor 3 that ends while partitions are on the way."""
    plan = seen.plan(wished(3))
    seen.clusters["east"].fail_on(call, KeyboardInterrupt())
    outcomes = seen.apply(wished(3), plan)
    assert seen.clusters["east"].moves
    return plan, outcomes


def test_an_interrupted_one_says_how_it_continues_and_is_gone_on_with() -> None:
    seen = one_topic(1)
    _, (outcome,) = interrupted(seen)
    assert "continues, throttled" in outcome.error
    (planned,) = seen.plan(wished(3)).changes
    assert isinstance(planned.change, ReassignReplicas)
    assert planned.change.in_flight == len(seen.clusters["east"].moves)
    assert planned.change.reason.code == "reassignment-unfinished"


def test_a_wish_that_was_withdrawn_takes_it_back() -> None:
    seen = one_topic(1)
    interrupted(seen)
    east = seen.clusters["east"]
    seen.apply(wished(1))
    assert factors(east) == {1}
    assert nothing_left(east)


def test_a_topic_that_left_git_is_finished_and_cleared() -> None:
    seen = one_topic(1)
    interrupted(seen)
    gone = topology(cluster("east", reassignment=SLOW), topic("other", partitions=1))
    plan = seen.plan(gone)
    (found,) = [one.change for one in plan.changes if isinstance(one.change, FinishReassignment)]
    assert "finishes 1 reassignment" in verdict(plan)
    assert found.in_flight
    seen.apply(gone, plan)
    assert nothing_left(seen.clusters["east"])


def test_cancelling_takes_back_what_is_on_the_way() -> None:
    seen = one_topic(1)
    interrupted(seen)
    east = seen.clusters["east"]
    flying = list(east.moves)
    assert cancel("test", east.replicas("test"), quiet()) == len(flying)
    assert all(len(east.topics["orders"].assignment[index]) == 1 for _, index in flying)
    assert nothing_left(east)
    assert cancel("test", east.replicas("test"), quiet()) == 0


def test_a_reassignment_of_others_blocks_and_is_not_touched() -> None:
    seen = one_topic(1)
    east = seen.clusters["east"]
    east.put("theirs", 1, 1).sizes[0] = 10_000
    east.rates[2] = {FOLLOWER_RATE: "1"}
    east.reassign(("theirs", 0), (1, 2))
    assert codes(seen.plan(wished(3))) == {"reassignment-by-others"}
    assert cancel("test", east.replicas("test"), quiet()) == 0
    assert ("theirs", 0) in east.moves


def test_one_that_begins_between_plan_and_apply_stops_it() -> None:
    seen = one_topic(1)
    east = seen.clusters["east"]
    plan = seen.plan(wished(3))
    east.put("theirs", 1, 1).sizes[0] = 10_000
    east.reassign(("theirs", 0), (1, 2))
    (outcome,) = seen.apply(wished(3), plan)
    assert "theirs-0 is being reassigned by someone else" in outcome.error
    assert factors(east) == {1}


def test_a_saved_plan_is_stale_when_the_brokers_are_others() -> None:
    """Replicas were placed on those that lived: one that is gone cannot take them, and a new one would stay empty."""
    seen = one_topic(1)
    plan, east = seen.plan(wished(3)), seen.clusters["east"]
    assert still_true(plan, basis_now(plan, wished(3), seen.look(wished(3)))) == ()
    brokers = east.brokers
    for others in (brokers[:-1], (*brokers, Broker(9, "127.0.0.1", 9999, "rack-9"))):
        east.brokers = others
        (moved,) = still_true(plan, basis_now(plan, wished(3), seen.look(wished(3))))
        assert moved.subject == "brokers east"
        assert f"was {'; '.join(f'{one.id} (rack {one.rack})' for one in brokers)}, is" in str(moved)
        assert str(moved).endswith("; ".join(f"{one.id} (rack {one.rack})" for one in others))


def test_what_is_on_the_way_is_reported_to_people_and_programs() -> None:
    seen = one_topic(1)
    east = seen.clusters["east"]
    east.put("theirs", 1, 1).sizes[0] = 10_000
    east.put("untold", 1, 1)
    east.reassign(("theirs", 0), (1, 2))
    east.reassign(("untold", 0), (1, 2))
    facts = east.replica_facts("test")
    sizes = {key: size for key, size in facts.sizes.items() if key[0] != "untold"}
    facts = replace(facts, sizes=sizes, journal=Journal("test", 0, brokers=((2, LEADER_RATE),)))
    told = json.loads(reassignments_json("test", {"east": facts, "west": ReplicaFacts()}))
    jsonschema.validate(told, SCHEMA)
    assert told["clusters"]["west"] == {"begun_by_apply": False, "throttled_brokers": [], "reassignments": []}
    assert (told["clusters"]["east"]["begun_by_apply"], told["clusters"]["east"]["throttled_brokers"]) == (True, [2])
    moves = {one["topic"]: one for one in told["clusters"]["east"]["reassignments"]}
    assert [moves["theirs"][key] for key in ("before", "after", "ours")] == [[1], [1, 2], False]
    assert (moves["theirs"]["bytes_left"] or 0) > 0
    assert moves["untold"]["bytes_left"] is None
    assert (told["exit_code"], told["unknown"]) == (0, [])
    silent = Unknown("replicas of west", "cluster west does not answer", "Mend it.")
    told = json.loads(reassignments_json("test", {"east": facts, "west": silent}))
    jsonschema.validate(told, SCHEMA)
    assert (told["exit_code"], set(told["clusters"])) == (1, {"east"}), "one that is silent hides no other"
    assert told["unknown"][0]["subject"] == "replicas of west"
    assert list(under_way("west", silent)) == ["west: unknown: cluster west does not answer", "  Mend it."]
    words = list(under_way("east", facts))
    assert "east: untold-0 -> 1, 2, how much is left is not known, someone else's" in words


@pytest.mark.parametrize(
    ("factor", "break_it", "code"),
    [
        (3, lambda east: east.away.add(2), "broker-away"),
        (4, lambda east: None, "replication-factor-above-brokers"),
    ],
)
def test_an_unclean_cluster_blocks_with_the_reason(factor: int, break_it: Callable[..., None], code: str) -> None:
    seen = one_topic(1)
    break_it(seen.clusters["east"])
    found = codes(seen.plan(wished(factor)))
    assert code in found or (code == "broker-away" and "replication-factor-above-brokers" in found)


def test_replicas_out_of_sync_block() -> None:
    seen = one_topic(2)
    seen.clusters["east"].away.add(3)
    assert "replica-offline" in codes(seen.plan(wished(1)))


def test_below_min_insync_is_refused_unless_git_lowers_it_first() -> None:
    seen = one_topic(3, min_insync_replicas="2")
    assert codes(seen.plan(wished(1))) == {"factor-below-min-insync"}
    lowered = wished(1, configs={"min.insync.replicas": "1"})
    plan = seen.plan(lowered)
    assert ids(plan) == ["configs:east/orders", "replicas:east/orders"]
    assert plan.changes[1].needs == ("configs:east/orders",)


def test_min_insync_is_raised_after_the_replicas_are_there() -> None:
    seen = one_topic(1)
    raised = wished(3, configs={"min.insync.replicas": "2"})
    plan = seen.plan(raised)
    assert ids(plan) == ["replicas:east/orders", "configs:east/orders"]
    assert plan.changes[1].needs == ("replicas:east/orders",)
    seen.apply(raised, plan)
    assert seen.plan(raised).changes == ()


def test_new_partitions_of_the_same_plan_get_the_factor_too() -> None:
    seen = one_topic(1)
    more = wished(3, partitions=9)
    plan = seen.plan(more)
    assert ids(plan) == ["partitions:east/orders", "replicas:east/orders"]
    seen.apply(more, plan)
    assert factors(seen.clusters["east"]) == {3}
    assert len(seen.clusters["east"].topics["orders"].assignment) == 9
    assert nothing_left(seen.clusters["east"])


def test_new_partitions_that_no_longer_find_enough_brokers_fail_their_change_alone() -> None:
    """A broker dies between the partitions and their replicas, where they cannot be placed any more."""
    seen = one_topic(1)
    east, more = seen.clusters["east"], wished(3, partitions=9)
    plan = seen.plan(more)
    east.at_call(3, lambda: east.away.add(3))  # behind the look at the cluster and the new partitions
    grown, moved = seen.apply(more, plan)
    assert (grown.result, moved.result) == (Result.DONE, Result.FAILED)
    assert "2 brokers" in moved.error
    assert factors(east) == {1}
    assert nothing_left(east)


def test_remote_topics_follow_the_factor_of_their_flow() -> None:
    seen = world("east", "west", brokers=3)
    seen.clusters["east"].put("orders", 2)
    seen.clusters["west"].put("east.orders", 2, 1)
    plan = seen.plan(topology(flow("east", "west", "orders", replication_factor=3)))
    assert list(changed(plan, ReassignReplicas)) == ["west/east.orders"]


@pytest.mark.parametrize("begun", [False, True])
def test_without_a_topics_configs_no_throttle_is_set_nor_forgotten(begun: bool) -> None:
    """Its lists of throttled replicas are among them: others may have set some, and ours have to go."""
    seen = one_topic(1)
    east, plan = seen.clusters["east"], seen.plan(wished(3))
    if begun:
        interrupted(seen)
        plan = seen.plan(wished(3))
    throttled = dict(east.topics["orders"].overrides)
    east.configs_unreadable = Unknown("configs", "no answer")
    [outcome] = seen.apply(wished(3), plan)
    assert outcome.result is Result.FAILED
    assert "configs of orders could not be read" in outcome.error
    assert east.topics["orders"].overrides == throttled
    assert bool(east.journals) is begun
    east.configs_unreadable = None
    seen.apply(wished(3))
    assert factors(east) == {3}
    assert nothing_left(east)


@pytest.mark.parametrize("audited", [False, True])
def test_topics_of_the_program_follow_a_default_wherever_they_are(audited: bool) -> None:
    """Of a mirror with two targets, one has an offset map and no status topic."""

    def declared(factor: int) -> Topology:
        defaults = TopicDefaults(replication_factor=factor)
        clusters = [cluster(name, defaults=defaults) for name in ("east", "west", "hub")]
        flows = [flow("east", name, "orders", replication_factor=1) for name in ("west", "hub")]
        made = topology(*clusters, *flows, Mirror("both", tuple(each.name for each in flows)))
        return replace(made, rules=replace(made.rules, audit=AuditTopic("runs", "east") if audited else None))

    seen = world("east", "west", "hub", brokers=3)
    seen.apply(declared(1))
    plan = seen.plan(declared(3))
    assert not plan.unknown
    wanted = ["hub/__mirror_offsets", "hub/__mirror_status", "west/__mirror_offsets"]
    assert sorted(changed(plan, ReassignReplicas)) == [*(["east/runs"] if audited else []), *wanted]


def test_a_broker_that_goes_away_meanwhile_leaves_a_record_that_the_next_run_clears() -> None:
    seen = one_topic(1)
    east = seen.clusters["east"]
    interrupted(seen)
    flying = next(iter(east.moves.values()))
    lost = flying.adding[0]
    east.away.add(lost)
    plan = seen.plan(wished(3))
    assert plan.refused
    assert east.journals
    east.away.clear()
    seen.apply(wished(3))
    assert factors(east) == {3}
    assert nothing_left(east)


def test_load_of_each_broker_is_reported_before_during_and_after() -> None:
    seen = one_topic(1)
    plan = seen.plan(wished(3))
    assert [(one.before.replicas, one.during.replicas, one.after.replicas) for one in plan.loads] == [(2, 6, 6)] * 3
    assert [one.after.bytes for one in plan.loads] == [6 * 250] * 3
    (planned,) = plan.changes
    assert planned.change.bytes_to_copy == 6 * 2 * 250  # type: ignore[union-attr]
    assert planned.change.seconds == 10  # type: ignore[union-attr]


@pytest.mark.parametrize("begun", [True, False])
def test_a_silent_cluster_holds_back_no_cancel_on_another(
    begun: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    east, west = one_topic(1).clusters["east"], one_topic(1).clusters["east"]
    facts = replace(east.replica_facts("test"), journal=Journal("test", 0) if begun else None)
    monkeypatch.setattr(east, "replica_facts", lambda _: facts)

    def silent(_: str) -> ReplicaFacts:
        raise ClusterError("west", "unreachable", "cluster west does not answer")

    monkeypatch.setattr(west, "replica_facts", silent)
    asked: list[str] = []
    session = SimpleNamespace(clusters={"east": east, "west": west}, topology=SimpleNamespace(environment="test"))
    execute = SimpleNamespace(session=session, perform=lambda change, _: asked.append(change))
    monkeypatch.setattr("reconciler.operations.apply.run.changing", lambda *_: nullcontext(execute))
    with pytest.raises(SystemExit) as ended:
        main(["reassignments", "cancel", "env", "--yes"])
    assert asked == (["cancel-reassignment:east"] if begun else [])
    said = capsys.readouterr()
    assert (ended.value.code, "west: unknown, so nothing is cancelled there" in said.err) == (1, True)
    assert ("nothing of this environment is under way on the clusters that answered" in said.out) is not begun
