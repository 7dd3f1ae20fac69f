"""A plan is carried out as shown; a failure stops only what needs it; an interruption is reported exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.engine.apply.limits import Silent, exit_code, refuse_if_blocked
from reconciler.engine.apply.run import apply
from reconciler.engine.plan.build import basis_now, still_true
from reconciler.errors import BlockedError, ExitCode, Moved, ReconcilerError, RunnerError, Unknown
from reconciler.model.environment.topology import Tombstone, Topology
from reconciler.model.plan import Outcome, Result
from reconciler.model.principals import ScramUser
from reconciler.resources.mirrors.handover import handovers
from tests.support.builders import World, cluster, flow, ids, topic, topology, world
from tests.support.fakes.cluster import unreachable

WISHED = topology(topic("orders", partitions=2), topic("pay", partitions=2), flow("east", "west", "orders", "pay"))


class Heard(Silent):
    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def outcome(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def results(outcomes: tuple[Outcome, ...]) -> dict[str, str]:
    return {one.id: one.result.value for one in outcomes}


def error_of(outcomes: tuple[Outcome, ...], change: str) -> str:
    return next(one.error for one in outcomes if one.id == change)


def test_progress_and_answer_follow_the_plan() -> None:
    seen, heard = world(), Heard()
    planned = seen.plan(WISHED)
    outcomes = apply(planned, seen.clusters, seen.runner, handovers(WISHED), heard)
    assert [one.id for one in outcomes] == ids(planned) == [one.id for one in heard.outcomes]
    assert exit_code(outcomes) is ExitCode.DONE
    assert seen.runner.log == ["start west"]


def test_neighbours_of_one_kind_and_cluster_travel_in_one_call() -> None:
    seen = world()
    planned = seen.plan(WISHED)
    before = seen.clusters["west"].calls
    seen.apply(WISHED, planned)
    assert seen.clusters["west"].calls - before == 2, "one check of the cluster id, one request"


def test_a_failure_skips_only_what_needs_it() -> None:
    seen = world()
    seen.clusters["west"].refuse("east.pay", "no topics called pay")
    outcomes = seen.apply(WISHED)
    assert results(outcomes) == {
        "create:west/__mirror_offsets": "done",
        "create:west/__mirror_status": "done",
        "create:west/east.orders": "done",
        "create:west/east.pay": "failed",
        "create:east/orders": "done",
        "create:east/pay": "done",
        "start:west": "skipped",
    }
    assert "create:west/east.pay" in error_of(outcomes, "start:west")
    assert "no topics called pay" in error_of(outcomes, "create:west/east.pay")
    assert exit_code(outcomes) is ExitCode.PARTIAL
    seen.clusters["west"].accept("east.pay")
    assert ids(seen.plan(WISHED)) == ["create:west/east.pay", "start:west"]


def test_a_source_does_not_grow_when_its_remote_topic_could_not() -> None:
    seen = world()
    seen.apply(WISHED)
    more = topology(topic("orders", partitions=5), topic("pay", partitions=5), flow("east", "west", "orders", "pay"))
    seen.clusters["west"].refuse("east.orders", "quota")
    outcomes = seen.apply(more)
    assert results(outcomes)["partitions:east/orders"] == "skipped"
    assert results(outcomes)["partitions:east/pay"] == "done"
    assert len(seen.clusters["east"].topics["orders"].assignment) == 2


def test_a_cluster_that_vanishes_fails_its_changes_and_no_others() -> None:
    seen = world()
    planned = seen.plan(WISHED)
    seen.clusters["east"].fail_on(2, unreachable("east"))
    outcomes = seen.apply(WISHED, planned)
    assert {one.result for one in outcomes if one.id.startswith("create:east")} == {Result.FAILED}
    assert results(outcomes)["start:west"] == "done"


def test_nothing_is_written_to_another_cluster_behind_the_same_address() -> None:
    seen = world()
    planned = seen.plan(WISHED)
    seen.clusters["east"].cluster_id = "somebody else"
    outcomes = seen.apply(WISHED, planned)
    assert seen.clusters["east"].topics == {}
    assert "somebody else" in error_of(outcomes, "create:east/orders")
    assert "id-of-east" in error_of(outcomes, "create:east/orders")


def test_a_plan_with_refusals_or_unknowns_changes_nothing() -> None:
    seen = world()
    blocked = topology(topic("orders", replication_factor=9), topic("pay"))
    with pytest.raises(BlockedError) as refused:
        seen.apply(blocked)
    assert refused.value.exit_code == 3
    assert "Set a replication factor of at most 1" in str(refused.value), "what to do: a saved plan is not shown again"
    many = topology(*(topic(f"t{number}", replication_factor=9) for number in range(50)))
    with pytest.raises(BlockedError, match="and 30 more"):
        seen.apply(many)
    seen.clusters["east"].fail_on(1, unreachable("east"))
    with pytest.raises(ReconcilerError, match="could not be read") as unknown:
        seen.apply(WISHED)
    assert unknown.value.exit_code == 1
    plan = seen.plan(WISHED)
    silent = Unknown("cluster west", "cluster west does not answer at w:1. Refused", "Check it.")
    dead = replace(
        plan, unknown=(silent, replace(silent, subject="mirror west", error="cluster west does not answer at w:1"))
    )
    with pytest.raises(ReconcilerError) as once:
        refuse_if_blocked(dead)
    assert once.value.why == "  cluster west, mirror west: cluster west does not answer at w:1. Refused", "told once"
    assert seen.clusters["east"].topics == {}


@pytest.mark.parametrize("step", range(1, 5))
def test_an_interruption_says_exactly_what_was_done(step: int) -> None:
    seen = world()
    planned = seen.plan(WISHED)
    seen.clusters["west"].kill_after(step)
    seen.clusters["east"].kill_after(step - 3 if step > 3 else -1)
    outcomes = seen.apply(WISHED, planned)
    done = {one.id for one in outcomes if one.result is Result.DONE}
    there = {f"create:{where}/{name}" for where, fake in seen.clusters.items() for name in fake.topics}
    assert done == there | ({"start:west"} if seen.runner.log else set())
    assert set(ids(seen.plan(WISHED))) == set(ids(planned)) - done


@pytest.mark.parametrize(
    ("signal", "name"), [(KeyboardInterrupt("SIGTERM"), "SIGTERM"), (KeyboardInterrupt(), "SIGINT")]
)
def test_a_signal_is_nothing_to_fix(signal: KeyboardInterrupt, name: str) -> None:
    seen = world()
    planned = seen.plan(WISHED)
    seen.clusters["west"].fail_on(1, signal)
    outcomes = seen.apply(WISHED, planned)
    left = {one.error for one in outcomes if one.result is Result.SKIPPED}
    assert left == {f"not begun: {name} ended the run; nothing is to fix, run apply again"}


def test_what_landed_although_the_answer_was_lost_counts_as_done() -> None:
    seen = world()
    planned = seen.plan(WISHED)
    west = seen.clusters["west"]
    perform = west.perform

    def cut_off(*args: object) -> None:
        perform(*args)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    west.perform = cut_off  # type: ignore[method-assign,assignment]
    outcomes = apply(planned, seen.clusters, seen.runner, handovers(WISHED), Silent())
    assert {one.id for one in outcomes if one.result is Result.DONE} == {i for i in ids(planned) if ":west/" in i}


@pytest.mark.parametrize("section", ["deletions", "configs", "users"])
def test_what_cannot_be_read_after_an_interrupt_is_neither_done_nor_left_out(
    section: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = world("east")
    east = seen.clusters["east"]
    topic_id = east.put("old", 1).topic_id
    wished = topology(cluster("east"))
    if section == "deletions":
        wished = replace(wished, deletions=(Tombstone("east", "old", topic_id, "moved", "2099-01-01"),))
    elif section == "configs":
        wished = topology(topic("old", configs={"retention.ms": "90000"}))
    else:
        user = ScramUser(1, ("east",), "app", version=1, password="${env:P}")
        wished = replace(wished, users=(user,), users_declared=True)
    [planned] = seen.plan(wished).changes

    def cut_off(*_: object) -> None:
        east.users_unreadable = east.configs_unreadable = Unknown("it", "no answer")
        if section == "deletions":
            east.hide("old")
        raise KeyboardInterrupt

    monkeypatch.setattr(east, "perform", cut_off)
    [outcome] = seen.apply(wished, replace(seen.plan(wished), changes=(planned,)))
    assert outcome.result is Result.FAILED
    assert "whether it was done is not known" in outcome.error


@pytest.mark.parametrize("second", [KeyboardInterrupt(), unreachable("west")])
def test_interrupted_again_or_without_an_answer_it_still_reports_every_change(second: BaseException) -> None:
    """Whoever cancels a job may signal twice; and a silent cluster is asked once, not once for each change."""
    seen = world()
    planned = seen.plan(WISHED)
    west, asked = seen.clusters["west"], []
    read = west.read

    def cut_off(*_: object) -> None:
        west.read = silent  # type: ignore[method-assign,assignment]
        raise KeyboardInterrupt

    def silent(topics: object = None) -> object:
        asked.append(topics)
        raise second

    west.perform = cut_off  # type: ignore[method-assign,assignment]
    outcomes = apply(planned, seen.clusters, seen.runner, handovers(WISHED), Silent())
    west.read = read  # type: ignore[method-assign]
    assert len(asked) == 1
    there = [one for one in outcomes if ":west/" in one.id]
    assert len(there) > 1
    assert all(one.result is Result.FAILED and "is not known" in one.error for one in there)
    assert {one.result for one in outcomes if one not in there} == {Result.SKIPPED}


def test_a_restart_that_is_interrupted_is_planned_again_while_the_old_job_runs_on() -> None:
    seen = world()
    seen.apply(WISHED)
    now = topology(topic("orders", partitions=2), topic("pay", partitions=2), flow("east", "west", "orders"))
    seen.runner.fail("restart west", KeyboardInterrupt())
    outcomes = seen.apply(now)
    assert results(outcomes) == {"restart:west": "failed"}
    assert ids(seen.plan(now)) == ["restart:west"]
    assert seen.runner.log == ["start west", "restart west"], "nothing was stopped"


def test_a_job_that_does_not_start_is_reported_with_what_that_means() -> None:
    seen = world()
    seen.apply(WISHED)
    now = topology(topic("orders", partitions=2), topic("pay", partitions=2), flow("east", "west", "orders"))
    lost = RunnerError("spark-submit ended with 1", "java is missing; the old job runs on", "Install Java 17.")
    seen.runner.fail("restart west", lost)
    outcomes = seen.apply(now)
    text = error_of(outcomes, "restart:west")
    assert "java is missing" in text
    assert "the old job runs on" in text
    assert exit_code(outcomes) is ExitCode.ERROR


def test_a_job_that_runs_with_another_definition_is_a_failure() -> None:
    seen = world()
    planned = seen.plan(WISHED)
    other = handovers(topology(flow("east", "west", "something else")))
    outcomes = apply(planned, seen.clusters, seen.runner, other, Silent())
    assert "planned was" in error_of(outcomes, "start:west")


def moved(seen: World, wished: Topology = WISHED) -> list[str]:
    planned = seen.plan(WISHED)
    return [one.subject for one in still_true(planned, basis_now(planned, wished, seen.look(wished)))]


def test_an_untouched_world_keeps_a_plan_true() -> None:
    seen = world()
    seen.clusters["east"].put("pay", 2)
    assert moved(seen) == []


def test_a_plan_of_another_environment_is_said_to_be_one() -> None:
    seen, other = world(), replace(WISHED, environment="staging")
    planned = seen.plan(WISHED)
    told = still_true(planned, basis_now(planned, other, seen.look(other)))
    assert told == (Moved("environment", WISHED.environment, "staging"),)


def test_a_strangers_topic_does_not_spoil_a_plan() -> None:
    seen = world()
    planned = seen.plan(WISHED)
    seen.clusters["east"].put("stray")
    assert still_true(planned, basis_now(planned, WISHED, seen.look(WISHED))) == ()


def test_every_kind_of_movement_is_named_with_before_and_after() -> None:
    seen = world()
    seen.clusters["east"].put("pay", 2)
    planned = seen.plan(WISHED)
    seen.clusters["east"].put("orders", 7)
    seen.clusters["east"].topics["pay"].overrides["retention.ms"] = "604800000"
    seen.clusters["west"].cluster_id = "another"
    seen.runner.start("west", handovers(WISHED)["west"], lambda text: None)
    other = topology(topic("orders", partitions=9), flow("east", "west", "orders", "pay"))
    found = {
        one.subject: (one.before, one.after) for one in still_true(planned, basis_now(planned, other, seen.look(other)))
    }
    assert set(found) == {"topology files", "topic east/orders", "topic east/pay", "cluster west", "mirror west"}
    assert found["topic east/orders"][0] == "absent"
    assert "7 partitions" in found["topic east/orders"][1]
    assert "retention.ms=7d" in found["topic east/pay"][1], "in the units of the plan"
