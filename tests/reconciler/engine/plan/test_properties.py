"""What holds for every topology and every state of the clusters."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from reconciler.engine.diff import diff
from reconciler.engine.plan.build import plan
from reconciler.errors import Unknown
from reconciler.model.changes import (
    AddPartitions,
    AlterConfigs,
    CreateTopic,
    ReassignReplicas,
    RestartMirror,
    Role,
    Stage,
    StartMirror,
    StopMirror,
    TopicChange,
)
from reconciler.model.environment.topology import TopicDefaults, TopicRef, Topology, by_name
from reconciler.model.live import LiveCluster, LiveState, Source
from reconciler.model.plan import Plan, Result
from reconciler.resources.flows.routes import find_routes
from reconciler.resources.topics import diff as topics
from reconciler.resources.topics.defaults import configs, layers_of
from reconciler.resources.topics.desired import desired_topics
from reconciler.resources.topics.limits import loses_earlier
from tests.support.builders import cluster, flow, topology
from tests.support.builders import topic as make_topic
from tests.support.worlds import CLUSTERS, LiveParts, live_parts, topologies

filters_much = settings(suppress_health_check=[HealthCheck.filter_too_much])


def may_apply(planned: Plan) -> bool:
    return not planned.refused and not planned.unknown


Item = TypeVar("Item")


@pytest.mark.slow
@filters_much
@given(topologies(), live_parts)
def test_after_apply_the_next_plan_is_empty(wished: Topology, before: LiveParts) -> None:
    world = before.build()
    planned = world.plan(wished)
    assume(may_apply(planned))
    outcomes = world.apply(wished, planned)
    assert [(o.id, o.error) for o in outcomes if o.result is not Result.DONE] == []
    again = world.plan(wished)
    assert (again.changes, again.refused, again.unknown) == ((), (), ())


@pytest.mark.slow
@filters_much
@given(topologies(), live_parts, st.randoms(use_true_random=False))
def test_order_of_input_never_matters(wished: Topology, before: LiveParts, shuffle: random.Random) -> None:
    live = before.build().look(wished)

    def shuffled(items: Iterable[Item]) -> list[Item]:
        found = list(items)
        shuffle.shuffle(found)
        return found

    other = replace(
        wished,
        clusters=by_name(shuffled(wished.clusters.values())),
        topics=by_name(shuffled(wished.topics.values())),
        flows=by_name(shuffled(wished.flows.values())),
        mirrors=by_name(shuffled(wished.mirrors.values())),
    )
    moved = LiveState(dict(shuffled(live.clusters.items())), live.mirrors)
    assert plan(wished, live) == plan(other, moved)


@pytest.mark.slow
@filters_much
@given(topologies(), live_parts, st.sampled_from(CLUSTERS))
def test_no_change_rests_on_a_cluster_that_did_not_answer(wished: Topology, before: LiveParts, lost: str) -> None:
    live = before.build().look(wished)
    planned = plan(wished, replace(live, clusters={**live.clusters, lost: Unknown(f"cluster {lost}", "no answer")}))
    assert any(one.subject == f"cluster {lost}" for one in planned.unknown)
    silent = {f.name for f in wished.flows.values() if lost in (f.source, f.target)}
    for one in planned.changes:
        assert one.change.cluster != lost
        if isinstance(one.change, TopicChange | ReassignReplicas):
            assert not any(f"flow {name} " in one.change.reason.text for name in silent)
        else:
            assert isinstance(one.change, StartMirror | RestartMirror | StopMirror)
            assert not silent.intersection(wished.mirrors[one.change.mirror].flows)


@pytest.mark.slow
@filters_much
@given(topologies(), live_parts, st.integers(0, 12))
def test_killed_at_any_step_the_next_run_reaches_the_same_end(wished: Topology, before: LiveParts, step: int) -> None:
    whole, broken = before.build(), before.build()
    planned = whole.plan(wished)
    assume(may_apply(planned))
    whole.apply(wished, planned)
    for name in CLUSTERS:
        broken.clusters[name].kill_after(step)
    outcomes = broken.apply(wished)
    assert [o.id for o in outcomes] == [one.id for one in planned.changes]
    for name in CLUSTERS:
        broken.clusters[name].kill_after(-1)
    left = broken.plan(wished)
    done = {o.id for o in outcomes if o.result is Result.DONE}
    assert not done & {one.id for one in left.changes}
    broken.apply(wished, left)
    assert broken.state() == whole.state()


@pytest.mark.slow
@filters_much
@given(topologies(), live_parts)
def test_order_and_needs(wished: Topology, before: LiveParts) -> None:
    planned = before.build().plan(wished)
    seen: set[str] = set()
    for one in planned.changes:
        assert set(one.needs) <= seen
        assert bool(one.needs) == bool(one.needs_why)
        assert one.id not in seen
        seen.add(one.id)
    stages = [one.stage for one in planned.changes]
    assert stages == sorted(stages, key=[stage.value for stage in Stage].index)


FEW_CONFIGS = st.sampled_from(({}, {"retention.ms": "60000"}, {"min.insync.replicas": "2"}))
SAID = st.tuples(st.sampled_from((None, 1)), st.sampled_from((None, 2)), FEW_CONFIGS)
THERE = st.tuples(st.sampled_from((1, 2)), st.sampled_from((1, 2)), FEW_CONFIGS)


@pytest.mark.slow
@filters_much
@given(st.lists(st.tuples(SAID, THERE), min_size=6, max_size=12), st.booleans())
def test_topics_that_are_alike_are_compared_once_with_the_same_outcome(
    parts: list[tuple[Any, Any]], mirrored: bool
) -> None:
    """Few values, many topics: those that agree in all but one value are there, too."""
    numbered = {f"topic-{number}": part for number, part in enumerate(parts)}
    declared = [
        make_topic(name, "a", partitions=count, replication_factor=factor, configs=configs)
        for name, ((count, factor, configs), _) in numbered.items()
    ]
    home = cluster("a", defaults=TopicDefaults(replication_factor=1))
    wished = topology(home, cluster("b"), *declared, *([flow("a", "b", "topic-.*")] if mirrored else []))
    there = {("a", name): live for name, (_, live) in numbered.items()}
    there |= {("b", f"a.{name}"): live for name, (_, live) in numbered.items()}
    live = _equal_configs_once(LiveParts(there, {}).build().look(wished))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(topics, "_case", lambda *_: None)
        one_by_one, _ = diff(wished, live)
    at_once, routing = diff(wished, live)
    assert {*at_once.settled, *at_once.as_desired} == {*one_by_one.settled}
    assert replace(at_once, settled=(), as_desired=()) == replace(one_by_one, settled=())
    together = desired_topics(wished, live, routing)
    for one in declared:
        alone = desired_topics(replace(wished, topics=by_name((one,))), live, routing)
        assert together[TopicRef("a", one.name)] == alone[TopicRef("a", one.name)]


def _equal_configs_once(live: LiveState) -> LiveState:
    """As a read of a whole cluster gives them: configs that are equal are one object."""
    seen: dict[str, Any] = {}

    def shared(found: LiveCluster | Unknown) -> LiveCluster | Unknown:
        if isinstance(found, Unknown):
            return found
        once = {
            name: replace(one, configs=seen.setdefault(repr(one.configs), one.configs))
            for name, one in found.topics.items()
        }
        return replace(found, topics=once)

    return LiveState({name: shared(found) for name, found in live.clusters.items()}, live.mirrors)


@pytest.mark.slow
@filters_much
@given(topologies(), live_parts)
def test_a_copy_gets_no_lower_limit_that_no_file_declares_unless_it_is_named(
    wished: Topology, before: LiveParts
) -> None:
    """Of sources that no flow makes, without a flow's word that such limits are followed."""
    wished = replace(
        wished,
        flows={
            name: replace(one, configs=replace(one.configs, carry_undeclared_limits=False))
            for name, one in wished.flows.items()
        },
    )
    world = before.build()
    live = world.look(wished)
    planned = plan(wished, live)
    named = {str(one.subject) for one in planned.refused}
    makers = {route.remote for route in find_routes(wished, live).routes}
    for one in planned.changes:
        change = one.change
        if not isinstance(change, AlterConfigs) or change.role is not Role.REMOTE:
            continue
        for config in change.configs:
            where, _, name = config.source.partition("/")
            source, declared = live.topic(TopicRef(where, name)), wished.topics.get(name)
            if source is None or TopicRef(where, name) in makers or config.after is None:
                continue
            of_git = declared is not None and where in declared.clusters
            layers = layers_of(wished, where, declared) if of_git else ()
            in_git = of_git and config.key in configs(layers)
            # ``use_defaults_from: source`` asks, in a file, for what the source's brokers give.
            given = source.configs[config.key].source in (Source.BUILT_IN, Source.STATIC)  # type: ignore[index]
            if not in_git and not given and loses_earlier(config.key, config.before, config.after):
                assert f"{change.ref} {config.key}" in named


@pytest.mark.slow
@filters_much
@given(topologies(), live_parts)
def test_nothing_undeclared_is_touched(wished: Topology, before: LiveParts) -> None:
    world = before.build()
    planned = world.plan(wished)
    unmanaged = {one.ref for one in planned.unmanaged}
    touched = {one.change.ref for one in planned.changes if isinstance(one.change, TopicChange)}
    assert not unmanaged & touched
    for one in planned.changes:
        if isinstance(one.change, AddPartitions):
            assert one.change.after > one.change.before


@pytest.mark.slow
@filters_much
@given(topologies(), live_parts)
def test_every_declared_topic_field_has_an_outcome(wished: Topology, before: LiveParts) -> None:
    """Applied, unchanged, ignored by a rule, or refused: nothing declared is passed over in silence."""
    world = before.build()
    live = world.look(wished)
    planned = plan(wished, live)
    refused = " ".join(one.reason.text for one in planned.refused)
    ignored = {str(one.subject) for one in planned.ignored}
    changed: set[tuple[TopicRef, str]] = set()
    for one in planned.changes:
        match one.change:
            case CreateTopic():
                changed |= {(one.change.ref, field) for field in ("partitions", "factor", "*")}
            case AddPartitions():
                changed.add((one.change.ref, "partitions"))
            case ReassignReplicas():
                changed.add((one.change.ref, "factor"))
            case AlterConfigs():
                changed |= {(one.change.ref, config.key) for config in one.change.configs}
    for topic in wished.topics.values():
        for name in topic.clusters:
            ref = TopicRef(name, topic.name)
            if str(ref) in refused or (ref, "*") in changed:
                continue
            cluster = live.known(name)
            assert cluster is not None
            found = cluster.topics[topic.name]
            if topic.partitions is not None:
                assert len(found.partitions) == topic.partitions or (ref, "partitions") in changed
            if topic.replication_factor is not None:
                assert found.replication_factor == topic.replication_factor or (ref, "factor") in changed
            for key, value in topic.configs.items():
                assert isinstance(found.configs, dict)
                equal = set(str(found.configs[key].value).lower().split(",")) == set(value.lower().split(","))
                assert equal or (ref, key) in changed or f"{ref} {key}" in ignored
