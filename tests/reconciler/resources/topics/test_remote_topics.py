"""Remote topics: partitions and configs follow the source, over any number of hops, unless git says otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reconciler.model.changes import AddPartitions, CreateTopic
from reconciler.model.environment.flow_settings import ConfigSync
from reconciler.model.live import Source
from reconciler.replication.handover import Naming
from tests.support.builders import altered, changed, codes, flow, ids, rules, topic, topology, world


def test_remote_topics_follow_their_source() -> None:
    seen = world()
    seen.clusters["east"].put("orders", 4)
    seen.clusters["west"].put("east.orders", 2)
    seen.clusters["east"].put("pay", 2)
    seen.clusters["west"].put("east.pay", 4)
    planned = seen.plan(topology(flow("east", "west", "orders", "pay")))
    grown = changed(planned, AddPartitions)
    assert {ref: (c.before, c.after) for ref, c in grown.items()} == {"west/east.orders": (2, 4)}
    assert rules(planned.ignored) == {"more-partitions"}


def test_growth_has_present_and_planned_partitions_of_its_source() -> None:
    seen = world()
    for name, here, there in (("full", 6, 2), ("grows", 2, 2), ("both", 2, 2), ("own", 6, 2)):
        seen.clusters["east"].put(name, here)
        seen.clusters["west"].put(f"east.{name}", there)
    seen.clusters["west"].put("east.fresh", 2)
    declared = [topic(name, "east", partitions=6) for name in ("full", "grows", "both", "own", "fresh")]
    over = [topic("east.both", "west"), topic("east.own", "west", partitions=8)]
    planned = seen.plan(topology(*declared, *over, flow("east", "west", "full", "grows", "both", "own", "fresh")))
    why = {ref: (c.reason.code, c.reason.text.split(";")[0]) for ref, c in changed(planned, AddPartitions).items()}
    more, gets = "source-has-more-partitions", "source-gets-more-partitions"
    assert {ref: told for ref, told in why.items() if ref.startswith("west/")} == {
        "west/east.full": (more, "east/full has 6"),
        "west/east.grows": (gets, "east/grows is to have 6 (has 2 now)"),
        "west/east.fresh": (gets, "east/fresh is to have 6 (does not exist yet)"),
        "west/east.both": (gets, "east/both is to have 6 (has 2 now)"),
        "west/east.own": ("more-partitions-wished", "declared in (built in)"),
    }


def test_fewer_partitions_than_a_source_is_to_have_are_refused_with_what_is_so_now() -> None:
    seen = world()
    seen.clusters["east"].put("orders", 2)
    wished = (topic("orders", "east", partitions=6), topic("east.orders", "west", partitions=4))
    planned = seen.plan(topology(*wished, flow("east", "west", "orders")))
    assert "its source east/orders is to have 6 (has 2 now)" in planned.refused[0].reason.text


def test_growth_goes_target_first_over_several_hops() -> None:
    seen = world("a", "b", "c")
    for where, name in (("a", "orders"), ("b", "a.orders"), ("c", "b.a.orders")):
        seen.clusters[where].put(name, 2)
    planned = seen.plan(topology(topic("orders", "a", partitions=5), flow("a", "b"), flow("b", "c")))
    grow = [one for one in planned.changes if isinstance(one.change, AddPartitions)]
    assert [one.id for one in grow] == ["partitions:c/b.a.orders", "partitions:b/a.orders", "partitions:a/orders"]
    assert [one.needs for one in grow] == [(), ("partitions:c/b.a.orders",), ("partitions:b/a.orders",)]


def synced(sync: ConfigSync, broker: dict[str, tuple[str, Source]], **source: Any) -> dict[str, str | None]:
    """Key -> value (None: removed) of the changes to an existing remote topic with two overrides of its own."""
    seen = world()
    seen.clusters["east"].broker_configs = broker
    seen.clusters["east"].put("orders", 1, **source)
    seen.clusters["west"].put("east.orders", 1, preallocate="true", max_message_bytes="5")
    planned = seen.plan(topology(flow("east", "west", "orders", configs=sync)))
    return {key: change.after for key, change in altered(planned, "west/east.orders").items()}


def test_sync_removes_overrides_that_are_defaults_at_the_source() -> None:
    assert synced(ConfigSync(), {}, retention_ms="9") == {
        "retention.ms": "9",
        "preallocate": None,
        "max.message.bytes": None,
    }


def test_sync_can_write_the_source_defaults_out() -> None:
    found = synced(ConfigSync(use_defaults_from="source"), {})
    assert found == {"preallocate": "false", "max.message.bytes": "1048588"}


def test_sync_writes_dynamic_broker_values_and_skips_static_ones() -> None:
    broker = {"retention.ms": ("9", Source.CLUSTER), "preallocate": ("false", Source.STATIC)}
    assert synced(ConfigSync(), broker) == {"retention.ms": "9", "max.message.bytes": None}


def test_sync_leaves_excluded_keys_and_throttles_alone() -> None:
    sync = ConfigSync(exclude=("max\\..*", "preallocate"))
    assert synced(sync, {}, max_message_bytes="7", leader_replication_throttled_replicas="0:1") == {}
    assert synced(ConfigSync(enabled=False), {}, retention_ms="9") == {}


def test_a_new_remote_topic_gets_only_what_is_not_default() -> None:
    seen = world()
    seen.clusters["east"].put("orders", 3, retention_ms="9", min_insync_replicas="1")
    planned = seen.plan(topology(flow("east", "west", "orders", replication_factor=1)))
    made = changed(planned, CreateTopic)["west/east.orders"]
    assert (made.partitions, made.replication_factor) == (3, 1)
    assert [(one.key, one.after, one.origin) for one in made.configs] == [("retention.ms", "9", "source east/orders")]


def test_a_declared_remote_topic_keeps_its_declared_values() -> None:
    seen = world()
    seen.clusters["east"].put("orders", 2, retention_ms="9")
    own = topic("east.orders", "west", partitions=4, configs={"retention.ms": "5"})
    planned = seen.plan(topology(own, flow("east", "west", "orders")))
    made = changed(planned, CreateTopic)["west/east.orders"]
    assert made.partitions == 4
    assert [(one.key, one.after) for one in made.configs] == [("retention.ms", "5")]
    assert any("the declared values win" in note for note in planned.notes)


def test_a_declared_remote_topic_cannot_be_smaller_than_its_source() -> None:
    seen = world()
    seen.clusters["east"].put("orders", 4)
    planned = seen.plan(topology(topic("east.orders", "west", partitions=2), flow("east", "west", "orders")))
    assert codes(planned) == {"fewer-than-source"}


def test_a_mirrored_topic_that_is_missing_needs_a_count() -> None:
    planned = world().plan(topology(topic("orders"), flow("east", "west", "orders")))
    assert codes(planned) == {"partitions-not-declared"}


def test_both_ways_under_one_name_levels_partitions_and_leaves_configs() -> None:
    seen = world()
    seen.clusters["east"].put("orders", 4, retention_ms="9")
    seen.clusters["west"].put("orders", 2, retention_ms="5")
    naming = replace(flow("east", "west").naming, policy="identity")
    planned = seen.plan(
        topology(flow("east", "west", "orders", naming=naming), flow("west", "east", "orders", naming=naming))
    )
    assert [i for i in ids(planned) if "orders" in i] == ["partitions:west/orders"]
    assert any("both ways" in note for note in planned.notes)


def test_both_sides_of_a_ring_can_grow_in_one_run() -> None:
    seen = world()
    naming = Naming("identity")
    flows = flow("east", "west", "orders", naming=naming), flow("west", "east", "orders", naming=naming)
    for fake in seen.clusters.values():
        fake.put("orders", 1)
    wished = topology(topic("orders", "east", partitions=3), *flows)
    planned = seen.plan(wished)
    assert [i for i in ids(planned) if "orders" in i] == ["partitions:east/orders", "partitions:west/orders"]
    assert {one.result.value for one in seen.apply(wished, planned)} == {"done"}
    assert ids(seen.plan(wished)) == []


def test_throttles_of_a_running_reassignment_survive_config_sync() -> None:
    seen = world()
    seen.clusters["east"].put("orders", 1)
    seen.clusters["west"].put("east.orders", 1, follower_replication_throttled_replicas="0:1")
    planned = seen.plan(topology(flow("east", "west", "orders", configs=ConfigSync(exclude=()))))
    assert altered(planned, "west/east.orders") == {}
    assert rules(planned.ignored) == {"throttle"}
