"""Which wave each change comes in, for every topology and every state of the clusters."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from reconciler.engine.plan import file as planfile
from reconciler.engine.plan.build import plan
from reconciler.engine.plan.select import Narrowed, known_part
from reconciler.engine.rollout.waves import course_of, ending
from reconciler.model.changes import Stage
from reconciler.model.environment.rollout import Gates, Rollout, RolloutWave
from reconciler.model.environment.topology import Topology
from reconciler.model.plan import Plan, Result
from reconciler.operations.apply.run import uncovered
from tests.support.builders import flow, ids, topic, topology, world
from tests.support.worlds import CLUSTERS, LiveParts, live_parts, topologies

filters_much = settings(suppress_health_check=[HealthCheck.filter_too_much])


@st.composite
def rollouts(draw: st.DrawFn) -> Rollout:
    """Every cluster in one of one to three waves."""
    order = draw(st.permutations(CLUSTERS))
    cuts = sorted(draw(st.sets(st.integers(1, len(order) - 1), max_size=2)))
    parts = [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    return Rollout(tuple(RolloutWave(f"w{i}", clusters=tuple(part)) for i, part in enumerate(parts)))


def in_two(wished: Topology, first: str, second: str, **fields: object) -> Topology:
    waves = (RolloutWave("canary", clusters=(first,)), RolloutWave("rest", clusters=(second,)))
    return replace(wished, rollout=Rollout(waves, **fields))  # type: ignore[arg-type]


@filters_much
@given(topologies(), live_parts, rollouts())
def test_each_wave_keeps_what_it_rests_on(wished: Topology, before: LiveParts, rollout: Rollout) -> None:
    planned = before.build().plan(replace(wished, rollout=rollout))
    course = planned.rollout
    assert course is not None
    own = {name: index for index, wave in enumerate(course.waves) for name in wave.clusters}
    at = {one.id: course.index(one.wave) for one in planned.changes}
    assert [at[one.id] for one in planned.changes] == sorted(at.values()), "wave by wave"
    seen: set[str] = set()
    for one in planned.changes:
        assert set(one.needs) <= seen, "what it needs is done before"
        seen.add(one.id)
        clusters = {one.change.cluster} - {""} or {
            wished.flows[name].target
            for name in wished.mirrors[one.change.mirror].flows  # type: ignore[union-attr]
        }
        earliest = max(own[name] for name in clusters)
        assert at[one.id] >= earliest, "no region is touched before its wave"
        assert bool(one.wave_why) == (at[one.id] > earliest), "who comes later says why"
    for wave in course.names:
        stages = [one.stage for one in planned.changes if one.wave == wave]
        assert stages == sorted(stages, key=[stage.value for stage in Stage].index)


@pytest.mark.slow
@filters_much
@given(topologies(), live_parts, rollouts())
def test_all_waves_are_the_plan_without_waves(wished: Topology, before: LiveParts, rollout: Rollout) -> None:
    waved = replace(wished, rollout=rollout)
    plain, staged = before.build().plan(wished), before.build().plan(waved)
    assert {one.id: one.change for one in plain.changes} == {one.id: one.change for one in staged.changes}
    assert (plain.refused, plain.unknown, plain.notes) == (staged.refused, staged.unknown, staged.notes)
    assert planfile.loads(planfile.dumps(staged)) == staged
    assert planfile.digest(staged) != planfile.digest(plain)
    assume(not plain.refused and not plain.unknown)
    one, other = before.build(), before.build()
    one.apply(wished)
    other.apply(waved)
    assert one.state() == other.state()
    assert other.plan(waved).changes == ()


@pytest.mark.slow
@filters_much
@given(topologies(), live_parts, rollouts())
def test_wave_after_wave_reaches_the_same_end(wished: Topology, before: LiveParts, rollout: Rollout) -> None:
    """A new plan for each wave, as with an approval between them."""
    waved = replace(wished, rollout=rollout)
    whole, stepwise = before.build(), before.build()
    planned = whole.plan(waved)
    assume(not planned.refused and not planned.unknown)
    whole.apply(waved, planned)
    for wave in rollout.waves:
        cut = ending(Narrowed(stepwise.plan(waved)), wave.name)
        outcomes = stepwise.apply(waved, cut.plan)
        assert {one.result for one in outcomes} <= {Result.DONE}
    assert stepwise.state() == whole.state()


WISHED = topology(topic("orders", partitions=2), topic("pay", "west", partitions=1), flow("east", "west", "orders"))


def waves_of(plan: Plan) -> dict[str, str]:
    return {one.id: one.wave for one in plan.changes}


def why(plan: Plan, change: str) -> str:
    return next(one.wave_why for one in plan.changes if one.id == change)


def test_a_new_source_topic_waits_for_its_remote_topic() -> None:
    planned = world().plan(in_two(WISHED, "east", "west"))
    assert set(waves_of(planned).values()) == {"rest"}
    assert why(planned, "create:east/orders") == (
        "not in wave canary with its cluster: it waits for create:west/east.orders in wave rest:"
        " a running job would find no topic to copy its records to"
    )
    assert why(planned, "create:west/pay") == ""


def test_the_other_way_round_nothing_waits() -> None:
    found = waves_of(world().plan(in_two(WISHED, "west", "east")))
    assert found.pop("create:east/orders") == "rest"
    assert set(found.values()) == {"canary"}, "remote topics, what is declared there, and the job that writes there"


def test_growth_waits_and_configs_do_not() -> None:
    seen = world()
    seen.apply(WISHED)
    more = topology(
        topic("orders", partitions=4, configs={"retention.ms": "60000"}),
        topic("pay", "west", partitions=1),
        flow("east", "west", "orders"),
    )
    planned = seen.plan(in_two(more, "east", "west"))
    found = waves_of(planned)
    assert found["partitions:east/orders"] == "rest"
    assert "need that partition on the target first" in why(planned, "partitions:east/orders")
    assert found["configs:east/orders"] == "canary", "a canary that tries nothing out would be none"


def test_larger_records_wait_until_they_fit_at_the_other_end() -> None:
    seen = world()
    seen.apply(WISHED)
    more = topology(
        topic("orders", partitions=2, configs={"max.message.bytes": "2000000"}),
        topic("pay", "west", partitions=1),
        flow("east", "west", "orders"),
    )
    planned = seen.plan(in_two(more, "east", "west"))
    assert waves_of(planned)["configs:east/orders"] == "rest"
    assert "larger" in why(planned, "configs:east/orders")


def test_without_a_rollout_nothing_of_it_is_written() -> None:
    text = planfile.dumps(world().plan(WISHED))
    assert '"wave' not in text
    assert '"rollout"' not in text


def test_the_rollout_is_part_of_what_a_saved_plan_rests_on() -> None:
    seen = world()
    one = seen.plan(in_two(WISHED, "east", "west"))
    other = seen.plan(in_two(WISHED, "east", "west", soak_ms=60_000))
    assert one.basis.topology_digest != other.basis.topology_digest
    (moved,) = uncovered(other, one)
    assert moved.subject == "rollout"
    assert "soak 0s" in moved.before
    assert "soak 1m" in moved.after
    assert uncovered(one, one) == ()


def test_until_wave_leaves_later_waves_with_the_reason() -> None:
    planned = world().plan(in_two(WISHED, "west", "east"))
    cut = ending(known_part(planned), "canary")
    assert set(ids(cut.plan)) == set(ids(planned)) - {"create:east/orders"}
    assert [(one.id, one.why) for one in cut.held] == [
        ("create:east/orders", "wave rest comes after canary, where this run ends")
    ]


def test_regions_name_their_clusters() -> None:
    wished = topology(topic("orders"), flow("east", "west", "orders"))
    clusters = {name: replace(one, region=f"{name}-1") for name, one in wished.clusters.items()}
    waves = (RolloutWave("a", regions=("east-1",)), RolloutWave("b", clusters=("west",), soak_ms=5))
    course = course_of(replace(wished, clusters=clusters, rollout=Rollout(waves, 7, Gates())))
    assert course is not None
    assert [(wave.name, wave.clusters, wave.soak_ms) for wave in course.waves] == [
        ("a", ("east",), 7),
        ("b", ("west",), 5),
    ]


def test_a_job_that_left_git_stops_with_the_cluster_of_its_name() -> None:
    seen = world()
    seen.apply(WISHED)
    fewer = topology(topic("orders", partitions=2), topic("pay", "west", partitions=1))
    live = seen.look(WISHED)
    planned = plan(in_two(fewer, "west", "east"), live)
    assert waves_of(planned) == {"stop:west": "canary"}
