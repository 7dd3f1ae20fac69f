"""Each rule of the comparison, said with the smallest world that shows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.engine.plan.build import plan
from reconciler.errors import ExitCode, Unknown
from reconciler.model.changes import ConfigChange, CreateTopic, ReassignReplicas
from reconciler.model.environment.topology import TopicDefaults, Topology
from reconciler.model.live import ConfigValue, LiveState, Source
from tests.support.builders import World, altered, changed, cluster, codes, flow, ids, rules, topic, topology, world
from tests.support.fakes.cluster import unreachable


def live_with(seen: World, wished: Topology, where: str, name: str, **fields: Any) -> LiveState:
    """What ``seen`` answers, with fields of one topic replaced."""
    live = seen.look(wished)
    found = live.known(where)
    assert found is not None
    topics = {**found.topics, name: replace(found.topics[name], **fields)}
    return replace(live, clusters={**live.clusters, where: replace(found, topics=topics)})


def test_a_declared_topic_is_created_on_every_cluster_it_names() -> None:
    planned = world().plan(topology(topic("orders", "east", "west", partitions=3)))
    assert ids(planned) == ["create:east/orders", "create:west/orders"]


def test_cluster_defaults_fill_what_the_topic_leaves_open() -> None:
    defaults = TopicDefaults(5, 1, {"retention.ms": "1000"})
    planned = world().plan(topology(cluster("east", defaults=defaults), topic("orders")))
    made = changed(planned, CreateTopic)["east/orders"]
    assert (made.partitions, made.replication_factor) == (5, 1)
    assert made.configs == (ConfigChange("retention.ms", None, "", "1000", "default of cluster east"),)


def test_partitions_grow_and_the_plan_warns_about_keys() -> None:
    seen = world()
    seen.clusters["east"].put("orders", 3, cleanup_policy="compact")
    planned = seen.plan(topology(topic("orders", partitions=6)))
    assert ids(planned) == ["partitions:east/orders"]
    assert planned.changes[0].risk == "high"
    assert "compacted" in planned.changes[0].risk_why
    assert planned.changes[0].reversibility.startswith("irreversible")


def test_growth_by_one_is_growth() -> None:
    seen = world()
    seen.clusters["east"].put("orders", 3)
    assert ids(seen.plan(topology(topic("orders", partitions=4)))) == ["partitions:east/orders"]


def test_a_default_count_says_nothing_about_an_existing_topic() -> None:
    seen = world()
    seen.clusters["east"].put("orders", 3)
    planned = seen.plan(topology(cluster("east", defaults=TopicDefaults(7)), topic("orders"), flow("east", "west")))
    made = changed(planned, CreateTopic)["west/east.orders"]
    assert (made.partitions, planned.refused) == (3, ())


def test_a_shrink_is_refused_with_both_values_and_the_alternative() -> None:
    seen = world()
    seen.clusters["east"].put("orders", 6)
    planned = seen.plan(topology(topic("orders", partitions=3)))
    (refused,) = planned.refused
    assert refused.reason.text == "partitions of east/orders cannot shrink from 6 to 3; Kafka can only add"
    assert "Set 6" in refused.todo
    assert planned.exit_code is ExitCode.BLOCKED


@pytest.mark.parametrize(("wanted", "after"), [(1, {}), (2, {"east/orders": 2})])
def test_factor_of_an_existing_topic(wanted: int, after: dict[str, int]) -> None:
    seen = world(brokers=3)
    seen.clusters["east"].put("orders", 1, factor=1)
    planned = seen.plan(topology(topic("orders", replication_factor=wanted)))
    assert {ref: one.after for ref, one in changed(planned, ReassignReplicas).items()} == after
    assert planned.refused == ()


def test_a_default_factor_does_not_contradict_an_existing_topic() -> None:
    seen = world(brokers=3)
    seen.clusters["east"].put("orders", 1, factor=1)
    wished = topology(cluster("east", defaults=TopicDefaults(None, 3)), topic("orders"))
    planned = seen.plan(wished)
    assert planned.refused == ()
    assert rules(planned.ignored) == {"default-for-new-topics"}


def test_mixed_factors_are_named() -> None:
    seen = world(brokers=3)
    seen.clusters["east"].put("orders", 2).assignment = [(1, 2), (1,)]
    free, wished = topology(topic("orders")), topology(topic("orders", replication_factor=2))
    assert [one.text for one in seen.plan(free).ignored] == ["partitions differ: 1 on partition 1; 2 on partition 0"]
    assert changed(seen.plan(wished), ReassignReplicas)["east/orders"].before is None
    seen.apply(wished)
    assert seen.plan(wished).changes == ()


def test_factor_above_the_brokers_is_refused_for_declared_and_remote_topics() -> None:
    seen = world()
    seen.clusters["east"].put("pay")
    wished = topology(topic("orders", replication_factor=3), flow("east", "west", "pay", replication_factor=2))
    planned = seen.plan(wished)
    assert codes(planned) == {"replication-factor-above-brokers"}
    assert {str(one.subject) for one in planned.refused} == {
        "east/orders replication factor",
        "west/east.pay replication factor",
    }


def test_a_broker_that_is_away_has_room_for_new_topics_as_it_holds_others() -> None:
    seen = world(brokers=3)
    for one in seen.clusters.values():
        one.put("pay", 3, factor=3)
        one.away.add(3)
    wished = topology(topic("orders", replication_factor=3), flow("east", "west", "pay", replication_factor=3))
    made = changed(seen.plan(wished), CreateTopic)
    assert {ref: one.replication_factor for ref, one in made.items()} == {
        "east/orders": 3,
        "west/east.pay": 3,
        "west/__mirror_offsets": 3,
        "west/__mirror_status": 3,
    }
    assert codes(seen.plan(topology(topic("orders", replication_factor=4)))) == {"replication-factor-above-brokers"}


def test_min_insync_above_factor_is_refused() -> None:
    seen = world(brokers=3)
    seen.clusters["east"].put("old", 1, factor=1)
    two = {"min.insync.replicas": "2"}
    planned = seen.plan(topology(topic("new", replication_factor=1, configs=two), topic("old", configs=two)))
    assert codes(planned) == {"min-insync-above-factor"}
    assert planned.changes == ()


@pytest.mark.parametrize(
    ("live", "wished"),
    [
        ({"retention_ms": "007"}, {"retention.ms": "7"}),
        ({"preallocate": "TRUE"}, {"preallocate": "true"}),
        ({"cleanup_policy": "delete,compact"}, {"cleanup.policy": "compact,delete"}),
        ({"min_cleanable_dirty_ratio": "0.50"}, {"min.cleanable.dirty.ratio": "0.5"}),
        ({}, {"retention.ms": "604800000"}),
    ],
    ids=["number", "boolean", "list", "decimal", "the value already holds without an override"],
)
def test_equal_values_are_no_change(live: dict[str, Any], wished: dict[str, str]) -> None:
    seen = world()
    seen.clusters["east"].put("orders", 1, **live)
    assert seen.plan(topology(topic("orders", configs=wished))).changes == ()


def test_a_config_change_shows_where_the_value_of_now_comes_from() -> None:
    seen = world()
    seen.clusters["east"].put("orders", 1)
    planned = seen.plan(topology(topic("orders", configs={"retention.ms": "1000"})))
    change = altered(planned, "east/orders")["retention.ms"]
    assert (change.before, change.before_source, change.after, change.origin) == (
        "604800000",
        "broker default",
        "1000",
        "declared",
    )
    assert planned.changes[0].risk == "high"
    assert "gone" in planned.changes[0].reversibility


def test_undeclared_overrides_and_throttles_are_left_alone() -> None:
    seen = world()
    throttled = "0:1"
    seen.clusters["east"].put(
        "orders", 1, preallocate="true", segment_ms="518400000", leader_replication_throttled_replicas=throttled
    )
    planned = seen.plan(topology(topic("orders", configs={"leader.replication.throttled.replicas": "*"})))
    assert planned.changes == ()
    assert rules(planned.ignored) == {"undeclared-override", "throttle"}
    assert any("preallocate=true, segment.ms=6d" in one.text for one in planned.ignored), "in the units of the plan"


def test_an_unknown_config_key_is_refused_before_anything_is_tried() -> None:
    seen = world()
    seen.clusters["east"].put("old")
    planned = seen.plan(topology(topic("orders", configs={"retention.millis": "1"})))
    assert codes(planned) == {"unknown-config"}


def test_a_sensitive_value_is_not_compared() -> None:
    seen, wished = world(), topology(topic("orders", configs={"retention.ms": "1"}))
    seen.clusters["east"].put("orders")
    hidden = {"retention.ms": ConfigValue(None, Source.TOPIC, sensitive=True)}
    planned = plan(wished, live_with(seen, wished, "east", "orders", configs=hidden))
    assert planned.changes == ()
    assert rules(planned.ignored) == {"sensitive"}


def test_unreadable_configs_block_the_topic_its_remote_topic_and_the_mirror() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    wished = topology(topic("orders", configs={"retention.ms": "1"}), flow("east", "west", "orders"))
    live = live_with(seen, wished, "east", "orders", configs=Unknown("east/orders configs", "denied"))
    planned = plan(wished, live)
    assert ids(planned) == ["create:west/__mirror_offsets", "create:west/__mirror_status"]
    assert {one.subject for one in planned.unknown} == {"east/orders configs", "mirror west"}
    assert planned.exit_code is ExitCode.ERROR


def test_a_wrong_cluster_id_blocks_everything_on_that_cluster() -> None:
    seen = world()
    seen.clusters["east"].put("flights")
    wished = topology(cluster("east", cluster_id="other"), topic("orders"), flow("east", "west", "flights"))
    planned = seen.plan(wished)
    (refused,) = planned.refused
    assert refused.reason.code == "wrong-cluster-id"
    assert "other" in refused.reason.text
    assert "id-of-east" in refused.reason.text
    assert "mirror west" in refused.reason.text
    assert ids(planned) == ["create:west/__mirror_offsets", "create:west/__mirror_status"]
    assert planned.exit_code is ExitCode.BLOCKED


def test_two_addresses_of_one_cluster_are_no_two_clusters() -> None:
    """Another spelling of the address, or a tunnel: the files alone cannot show it."""
    seen = world("dup", "east", "west")
    seen.clusters["dup"].cluster_id = seen.clusters["east"].cluster_id
    wished = topology(topic("orders", "east", "dup"), topic("clicks", "west"), flow("east", "dup", "orders"))
    planned = seen.plan(wished)
    assert codes(planned) == {"same-cluster-twice"}
    assert [str(one.subject) for one in planned.refused] == ["cluster dup", "cluster east"]
    assert "cluster dup and cluster east are one: id-of-east answers" in planned.refused[0].reason.text
    assert "dup/orders, flow east-to-dup, mirror dup" in planned.refused[0].reason.text
    assert ids(planned) == ["create:west/clicks"]


def test_where_git_says_which_cluster_it_is_only_the_other_alias_is_refused() -> None:
    seen = world("dup", "east")
    seen.clusters["dup"].cluster_id = "id-of-east"
    wished = topology(cluster("east", cluster_id="id-of-east"), topic("orders", "east", "dup"))
    planned = seen.plan(wished)
    assert [str(one.subject) for one in planned.refused] == ["cluster dup"]
    assert ids(planned) == ["create:east/orders"]


def test_a_cluster_that_does_not_answer_is_unknown_with_what_hangs_on_it() -> None:
    seen = world()
    seen.clusters["west"].put("east.flights")
    seen.clusters["east"].fail_on(1, unreachable("east"))
    planned = seen.plan(topology(topic("orders"), flow("east", "west", "flights")))
    (unknown,) = planned.unknown
    assert unknown.detail == ("east/orders", "flow east-to-west", "mirror west")
    assert planned.unmanaged == (), "the remote topic may belong to the silent source"


def test_names_that_differ_only_in_dot_and_underscore_are_refused() -> None:
    seen = world()
    seen.clusters["west"].put("east_orders")
    seen.clusters["east"].put("orders")
    assert codes(seen.plan(topology(flow("east", "west", "orders")))) == {"name-collision"}


def test_two_flows_that_make_one_remote_topic_are_refused() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    planned = seen.plan(topology(flow("east", "west", "orders", name="one"), flow("east", "west", ".*", name="two")))
    assert codes(planned) == {"remote-name-collision"}
    assert "one" in planned.refused[0].reason.text
    assert "two" in planned.refused[0].reason.text


def test_flows_that_do_not_see_their_ring_are_refused() -> None:
    seen = world()
    seen.clusters["east"].put("orders")
    there = flow("east", "west", naming=replace(flow("east", "west").naming, separator="-"))
    back = flow("west", "east", naming=replace(there.naming, separator="+"))
    assert "mirror-loop" in codes(seen.plan(topology(there, back)))


def test_the_status_topic_fits_the_cluster() -> None:
    for brokers, factor in ((1, 1), (5, 3)):
        made = changed(world(brokers=brokers).plan(topology(flow("east", "west"))), CreateTopic)
        assert made["west/__mirror_status"].replication_factor == factor
        assert made["west/__mirror_status"].partitions == 1


def test_unmanaged_topics_are_listed_without_internal_ones() -> None:
    seen = world()
    seen.clusters["east"].put("stray", 2)
    seen.clusters["east"].put("__consumer_offsets")
    assert [(str(one.ref), one.partitions) for one in seen.plan(topology(topic("orders"))).unmanaged] == [
        ("east/stray", 2)
    ]
