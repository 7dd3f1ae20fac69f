"""A retention that is lowered in steps: one an apply, here and on remote topics, until what is wished is reached."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.plan.select import retention_steps_only, within
from reconciler.errors import ExitCode
from reconciler.model.environment.topology import Topology
from reconciler.model.options import Autonomy
from reconciler.render.plan.text import plan_text
from tests.support.builders import World, altered, codes, flow, topic, topology, world

DAY = 86_400_000


def desired(retention: int, by: int = 5 * DAY, **more: object) -> Topology:
    lowered = topic(
        "orders", partitions=1, configs={"retention.ms": str(retention)}, lower_retention_by={"retention.ms": str(by)}
    )
    return topology(lowered, flow("east", "west", "orders"))


def kept(days: int) -> World:
    seen = world()
    seen.clusters["east"].put("orders", 1, retention_ms=str(days * DAY))
    seen.clusters["west"].put("east.orders", 1, retention_ms=str(days * DAY))
    return seen


def test_each_apply_is_one_step_and_the_plan_says_how_many_there_are() -> None:
    seen, found = kept(30), []
    for _ in range(7):
        made = seen.plan(desired(DAY))
        if not made.changes:
            break
        found.append(seen.clusters["east"].topics["orders"].overrides["retention.ms"])
        if len(found) == 1:
            [change] = altered(made, "east/orders").values()
            assert change.goal == str(DAY)
            assert "retention.ms: 30d (topic) -> 25d (declared, 1 of 6 steps to 1d, one an apply)" in plan_text(made)
            assert "HIGH risk" in plan_text(made)
        seen.apply(desired(DAY), made)
    assert [int(one) // DAY for one in found] == [30, 25, 20, 15, 10, 5]
    assert seen.plan(desired(DAY)).exit_code is ExitCode.DONE
    assert seen.clusters["west"].topics["east.orders"].overrides["retention.ms"] == str(DAY)


def test_the_remote_topic_goes_down_with_its_source() -> None:
    made = kept(30).plan(desired(DAY))
    assert altered(made, "west/east.orders")["retention.ms"].after == str(25 * DAY)


def test_after_each_apply_only_steps_are_left_and_after_the_last_one_nothing() -> None:
    seen = world()
    made = seen.plan(desired(12 * DAY))
    seen.apply(desired(12 * DAY), made)
    for days in (30, 20):
        seen.clusters["east"].topics["orders"].overrides["retention.ms"] = str(days * DAY)
    seen.clusters["west"].topics["east.orders"].overrides["retention.ms"] = str(20 * DAY)
    left: list[int] = []
    while (made := seen.plan(desired(7 * DAY))).changes:
        seen.apply(desired(7 * DAY), made)
        left.append(retention_steps_only(seen.plan(desired(7 * DAY)), made))
    assert left == [2, 2, 0]


def test_another_edit_beside_the_steps_is_none_of_them() -> None:
    seen = kept(30)
    made = seen.plan(desired(20 * DAY))
    seen.apply(desired(20 * DAY), made)
    assert retention_steps_only(seen.plan(desired(20 * DAY)), made) == 2
    assert retention_steps_only(seen.plan(desired(19 * DAY)), made) == 0


def test_what_a_killed_apply_did_at_the_remote_topic_is_a_step_as_well() -> None:
    seen = kept(30)
    seen.clusters["west"].topics["east.orders"].overrides["retention.ms"] = str(25 * DAY)
    seen.apply(desired(20 * DAY), made := seen.plan(desired(20 * DAY)))
    assert retention_steps_only(seen.plan(desired(20 * DAY)), made) == 2


def test_run_leaves_the_steps_of_remote_topics_with_those_of_their_sources() -> None:
    made = kept(30).plan(desired(DAY))
    held = {one.id for one in within(made, Autonomy.ALL).held}
    assert {"configs:east/orders", "configs:west/east.orders"} <= held


def test_raising_is_not_stepped_and_a_new_topic_gets_what_is_wished() -> None:
    assert altered(kept(1).plan(desired(30 * DAY)), "east/orders")["retention.ms"].after == str(30 * DAY)
    assert '"goal"' not in plan_text(world().plan(desired(DAY)))
    seen = world()
    seen.apply(desired(DAY))
    assert seen.clusters["east"].topics["orders"].overrides["retention.ms"] == str(DAY)


def test_unlimited_has_no_value_to_begin_from() -> None:
    seen = world()
    seen.clusters["east"].put("orders", 1, retention_ms="-1")
    made = seen.plan(desired(DAY))
    assert "retention-without-start" in codes(made)
    assert not altered(made, "east/orders")
    assert all(one.after != str(DAY) for one in altered(made, "west/east.orders").values())


def test_run_leaves_steps_to_apply() -> None:
    made = kept(30).plan(desired(DAY))
    assert retention_steps_only(made, made) == 0  # the mirror starts too
    held = {one.id for one in within(made, Autonomy.ALL).held}
    assert "configs:east/orders" in held


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**6))
def test_it_arrives_in_as_many_steps_as_said(now: int, goal: int, by: int) -> None:
    by = max(by, max(now - goal, 1) // 20 + 1)  # not too many to go through
    seen, steps = world("east"), 0
    seen.clusters["east"].put("orders", 1, retention_ms=str(now))
    wished = topology(
        topic("orders", partitions=1, configs={"retention.ms": str(goal)}, lower_retention_by={"retention.ms": str(by)})
    )
    said = -(-(now - goal) // by) if now > goal else int(now != goal)
    last = now
    while (made := seen.plan(wished)).changes:
        seen.apply(wished, made)
        here = int(seen.clusters["east"].topics["orders"].overrides["retention.ms"])
        assert last - here <= by or goal > last
        last, steps = here, steps + 1
    assert (last, steps) == (goal, said)


@pytest.mark.parametrize("key", ["retention.ms", "retention.bytes"])
def test_both_limits_can_be_stepped(key: str) -> None:
    seen = world("east")
    seen.clusters["east"].put("orders", 1).overrides[key] = "1000"
    wished = topology(topic("orders", partitions=1, configs={key: "100"}, lower_retention_by={key: "300"}))
    assert altered(seen.plan(wished), "east/orders")[key].after == "700"
