"""A copy that another hand lets delete or compact more than its source makes the verdict worse than OK."""

from __future__ import annotations

from dataclasses import replace

from reconciler.engine.diff import diff
from reconciler.engine.drift.causes import losing_copies, with_losing_copies
from reconciler.engine.observe.verdict import verdict_of
from reconciler.model.environment.topology import Topology
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.model.reports.health import Health, Verdict
from reconciler.replication.status import FlowStatus
from tests.support.builders import World, flow, topic, topology, world

ORDERS = topic("orders", "east", partitions=2, replication_factor=1, configs={"retention.ms": "604800000"})
FLOW = flow("east", "west", "orders|pay.*", replication_factor=1)
DECLARED = topology(ORDERS, FLOW)


def applied(declared: Topology = DECLARED) -> World:
    seen = world("east", "west")
    seen.apply(declared)
    return seen


def verdict(seen: World, declared: Topology = DECLARED) -> Verdict:
    job = FlowStatus("east-to-west", "f", "running", records_lag=0, seconds_lag=0.0)
    mirror = LiveMirror("west", JobState.RUNNING, "app-1", flows={"east-to-west": job})
    live = LiveState(seen.look(declared).clusters, {"west": mirror})
    changes = diff(declared, live)[0].changes
    return with_losing_copies(verdict_of(declared, live), losing_copies(declared, live), changes, "environments/prod")


def test_a_copy_as_git_has_it_is_ok() -> None:
    assert verdict(applied()) == Verdict()


def test_a_copy_that_another_hand_compacts_is_degraded_with_both_values_and_the_command() -> None:
    seen = applied()
    seen.clusters["west"].topics["east.orders"].overrides["cleanup.policy"] = "compact"
    degraded = verdict(seen)
    [cause] = degraded.causes
    assert (degraded.health, cause.subject) == (Health.DEGRADED, "flow east-to-west")
    assert cause.text == (
        "1 copy (west/east.orders): cleanup.policy is compact (topic) on west, delete (broker default) on east: the "
        "copy loses what the source keeps"
    )
    assert cause.todo == (
        "Set it back: reconciler apply environments/prod. Find what is gone: reconciler verify environments/prod "
        "east-to-west"
    )


def test_a_lower_retention_is_named_and_a_higher_one_is_not() -> None:
    seen = applied()
    seen.clusters["west"].topics["east.orders"].overrides["retention.ms"] = "1000"
    assert "retention.ms is 1s (topic) on west, 7d (topic) on east" in verdict(seen).causes[0].text
    seen.clusters["west"].topics["east.orders"].overrides["retention.ms"] = "-1"
    assert verdict(seen) == Verdict()


def test_a_source_that_another_hand_lets_keep_more_waits_for_a_decision() -> None:
    seen = applied()
    seen.clusters["east"].put("payments", 1)
    seen.apply(DECLARED)
    assert verdict(seen) == Verdict()
    seen.clusters["east"].topics["payments"].overrides["cleanup.policy"] = "compact"
    [cause] = verdict(seen).causes
    assert cause.todo.startswith("Decide whether the source's value counts: reconciler plan environments/prod.")


def test_a_copy_that_keeps_less_because_git_says_so_is_ok() -> None:
    shorter = topic("east.orders", "west", partitions=2, replication_factor=1, configs={"retention.ms": "1000"})
    declared = topology(ORDERS, shorter, FLOW)
    assert verdict(applied(declared), declared) == Verdict()


def test_an_edit_that_is_not_applied_yet_is_no_loss() -> None:
    seen = applied()
    longer = topology(replace(ORDERS, configs={"retention.ms": "-1"}), FLOW)
    assert verdict(seen, longer) == Verdict(), "the copy keeps what the source keeps now"
