"""Parity: what differs between the sides of a flow, and by which rule it may."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.drift.parity import parity
from reconciler.errors import Unknown
from reconciler.model.environment.flow_settings import ConfigSync
from reconciler.model.environment.topology import TopicDefaults, Topology
from reconciler.model.live import LiveState, Source
from reconciler.model.reports.drift import Disparity, Parity
from reconciler.model.schemas import schema as schema_of
from reconciler.render.reports.drift import parity_json, parity_text
from reconciler.replication.handover import Naming
from reconciler.resources.flows.routes import Route, find_routes
from tests.support.builders import World, altered, cluster, flow, topic, topology, world
from tests.support.fakes.cluster import FakeCluster


def compared(wished: Topology, live: LiveState) -> dict[tuple[str, str], Disparity]:
    found = parity(wished, live, find_routes(wished, live).routes)
    schema = schema_of("parity")
    jsonschema.validate(json.loads(parity_json(found)), schema)
    for one in found.disparities:
        assert one.why in parity_text(found)
    return {(one.remote, one.field): one for one in found.disparities}


def routes_of(wished: Topology, live: LiveState) -> tuple[Route, ...]:
    return find_routes(wished, live).routes


def sides(**overrides: Any) -> tuple[FakeCluster, FakeCluster, LiveState]:
    east, west = FakeCluster("east"), FakeCluster("west", brokers=3)
    east.put("orders", 3, **overrides)
    west.put("east.orders", 3, **overrides)
    return east, west, LiveState({"east": east.read(), "west": west.read()}, {})


def test_equal_sides_differ_in_nothing() -> None:
    _, _, live = sides(retention_ms="60000")
    wished = topology(flow("east", "west", "orders"))
    assert compared(wished, live) == {}
    assert parity(wished, live, find_routes(wished, live).routes).exit_code == 0


def test_what_no_rule_allows() -> None:
    east, west, _ = sides()
    east.put("orders", 4, retention_ms="60000")
    east.put("orders2")
    live = LiveState({"east": east.read(), "west": west.read()}, {})
    wished = topology(flow("east", "west", "orders.*"))
    found = compared(wished, live)
    assert {key: one.allowed for key, one in found.items()} == {
        ("west/east.orders", "partitions"): False,
        ("west/east.orders", "retention.ms"): False,
        ("west/east.orders2", "topic"): False,
    }
    assert (found["west/east.orders", "retention.ms"].here, found["west/east.orders", "retention.ms"].there) == (
        "1m",
        "7d",
    )
    assert parity(wished, live, find_routes(wished, live).routes).exit_code == 2


def test_each_rule_that_allows_a_difference_is_named() -> None:
    east, west = FakeCluster("east"), FakeCluster("west", 3, broker_configs={"segment.ms": ("1000", Source.CLUSTER)})
    east.put("orders", 2, retention_ms="60000", min_insync_replicas="1")
    west.put("east.orders", 3, 3, retention_ms="70000", min_insync_replicas="2")
    live = LiveState({"east": east.read(), "west": west.read()}, {})
    wished = topology(
        flow("east", "west", "orders", replication_factor=3),
        topic("east.orders", "west", configs={"retention.ms": "70000"}),
    )
    found = compared(wished, live)
    assert all(one.allowed for one in found.values()), found
    why = {field: one.why for (_, field), one in found.items()}
    assert set(why) == {"partitions", "replication factor", "retention.ms", "min.insync.replicas", "segment.ms"}
    assert "declared for west/east.orders" in why["retention.ms"]
    assert "min\\.insync\\.replicas" in why["min.insync.replicas"]
    assert "use_defaults_from: target" in why["segment.ms"]
    assert "declares 3" in why["replication factor"]


def test_config_sync_that_is_off_allows_every_config() -> None:
    east, west, _ = sides()
    east.put("orders", 3, retention_ms="60000")
    live = LiveState({"east": east.read(), "west": west.read()}, {})
    found = compared(topology(flow("east", "west", "orders", configs=ConfigSync(enabled=False))), live)
    assert [one.allowed for one in found.values()] == [True]


def test_a_cluster_that_was_not_read_is_unknown_and_never_equal() -> None:
    east, _, _ = sides()
    live = LiveState({"east": east.read(), "west": Unknown("cluster west", "silent")}, {})
    wished = topology(flow("east", "west", "orders"))
    found = parity(wished, live, find_routes(wished, live).routes)
    assert (found.exit_code, [one.subject for one in found.unknown]) == (1, ["cluster west"])


CONFIGS = st.dictionaries(st.sampled_from(("retention.ms", "segment.ms", "segment.bytes")), st.sampled_from("123"))
BROKER = st.dictionaries(
    st.sampled_from(("retention.ms", "segment.ms")),
    st.tuples(st.sampled_from("456"), st.sampled_from((Source.STATIC, Source.CLUSTER))),
)
SYNCS = st.builds(
    ConfigSync,
    st.booleans(),
    st.just((r"segment\.bytes",)),
    use_defaults_from=st.sampled_from(("source", "target")),
    carry_undeclared_limits=st.just(True),
)


@given(CONFIGS, CONFIGS, BROKER, BROKER, CONFIGS, SYNCS)
def test_what_parity_allows_and_what_a_plan_changes_are_the_same(
    here: dict[str, str],
    there: dict[str, str],
    source: dict[str, tuple[str, Source]],
    target: dict[str, tuple[str, Source]],
    defaults: dict[str, str],
    sync: ConfigSync,
) -> None:
    east, west = FakeCluster("east", broker_configs=source), FakeCluster("west", broker_configs=target)
    east.put("orders").overrides.update(here)
    west.put("east.orders").overrides.update(there)
    wished = topology(
        cluster("west", defaults=TopicDefaults(configs=defaults)), flow("east", "west", "orders", configs=sync)
    )
    world = World({"east": east, "west": west})

    found = compared(wished, LiveState({"east": east.read(), "west": west.read()}, {}))
    allowed = {field: one.allowed for (_, field), one in found.items()}
    mended = altered(world.plan(wished), "west/east.orders").keys()
    assert {field for field, fine in allowed.items() if not fine} == mended & allowed.keys()
    world.apply(wished)
    found = compared(wished, LiveState({"east": east.read(), "west": west.read()}, {}))
    assert all(one.allowed for one in found.values()), found


def declared(*live: FakeCluster, **fields: Any) -> dict[tuple[str, str], Disparity]:
    wished = topology(topic("orders", *(one.name for one in live), **fields))
    return compared(wished, LiveState({one.name: one.read() for one in live}, {}))


def test_a_topic_declared_on_three_clusters_is_held_against_the_first_that_has_it() -> None:
    east, hub, west = FakeCluster("east"), FakeCluster("hub"), FakeCluster("west")
    hub.put("orders", 3, retention_ms="60000")
    west.put("orders", 4, retention_ms="70000", segment_ms="1000")
    found = declared(east, hub, west, partitions=3, configs={"retention.ms": "60000"})
    assert {(key, one.source, one.allowed) for key, one in found.items()} == {
        (("east/orders", "topic"), "hub/orders", False),
        (("west/orders", "partitions"), "hub/orders", False),
        (("west/orders", "retention.ms"), "hub/orders", False),
        (("west/orders", "segment.ms"), "hub/orders", False),
    }
    assert "set outside git" in found["west/orders", "segment.ms"].why
    words = parity_text(Parity("test", 1, (found["west/orders", "partitions"],), ()))
    assert "declared on hub and west, partitions: 3 on hub, 4 on west: declared once for both: 3\n    orders\n" in words
    assert "declared once for both: 1m" in found["west/orders", "retention.ms"].why


def test_clusters_with_defaults_of_their_own_may_differ_in_what_the_topic_does_not_declare() -> None:
    east, west = FakeCluster("east"), FakeCluster("west", broker_configs={"segment.ms": ("1000", Source.STATIC)})
    east.put("orders", 3, retention_ms="60000")
    west.put("orders", 4, retention_ms="70000")
    clusters = [
        cluster(name, defaults=TopicDefaults(configs={"retention.ms": value}))
        for name, value in (("east", "60000"), ("west", "70000"))
    ]
    wished = topology(*clusters, topic("orders", "east", "west"))
    found = compared(wished, LiveState({"east": east.read(), "west": west.read()}, {}))
    assert {field: one.allowed for (_, field), one in found.items()} == {
        "partitions": True,
        "retention.ms": True,
        "segment.ms": True,
    }
    assert found["west/orders", "retention.ms"].why == "a default of cluster east and a default of cluster west"
    west.topics["orders"].overrides["retention.ms"] = "1"
    found = compared(wished, LiveState({"east": east.read(), "west": west.read()}, {}))
    assert found["west/orders", "retention.ms"].why == "a default of cluster west says 70s"
    assert not found["west/orders", "retention.ms"].allowed


def test_what_a_class_says_is_reported_by_the_name_of_the_class() -> None:
    east, west = FakeCluster("east"), FakeCluster("west")
    east.put("orders", 3, retention_ms="60000")
    west.put("orders", 3, retention_ms="1")
    wished = topology(topic("orders", "east", "west", class_name="ledger"))
    classes = {"ledger": TopicDefaults(configs={"retention.ms": "60000"})}
    wished = replace(wished, rules=replace(wished.rules, classes=classes))
    found = compared(wished, LiveState({"east": east.read(), "west": west.read()}, {}))
    assert found["west/orders", "retention.ms"].why == "class ledger says 1m"


def test_two_declared_sides_of_a_flow_are_compared_once_by_its_rules() -> None:
    east, west = FakeCluster("east"), FakeCluster("west")
    east.put("orders", 1)
    west.put("orders", 2)
    same_name = flow("east", "west", "orders", naming=Naming("identity"))
    wished = topology(topic("orders", "east", "west"), same_name)
    found = parity(wished, live := LiveState({"east": east.read(), "west": west.read()}, {}), routes_of(wished, live))
    assert [(one.flow, one.field) for one in found.disparities] == [("east-to-west", "partitions")]
    assert found.compared == 1


def test_what_is_declared_on_a_silent_cluster_is_unknown_and_the_others_are_compared() -> None:
    east, west = FakeCluster("east"), FakeCluster("west")
    east.put("orders")
    west.put("orders", 2)
    wished = topology(topic("orders", "east", "hub", "west", partitions=1))
    live = LiveState({"east": east.read(), "hub": Unknown("cluster hub", "silent"), "west": west.read()}, {})
    found = parity(wished, live, routes_of(wished, live))
    assert (found.exit_code, [one.remote for one in found.disparities]) == (1, ["west/orders"])


def test_a_side_that_is_hidden_is_unknown_and_one_that_the_principal_may_know_to_be_missing_is_missing() -> None:
    seen = world()
    east, west = seen.clusters["east"], seen.clusters["west"]
    east.put("orders")
    east.put("pay")
    west.put("east.orders")
    west.hide("east.orders")
    wished = topology(flow("east", "west", "orders"), topic("pay", "east", "west"))
    live = seen.look(wished)
    found = parity(wished, live, routes_of(wished, live))
    assert [one.subject for one in found.unknown] == ["west/east.orders"]
    assert [(one.remote, one.there) for one in found.disparities] == [("west/pay", "no topic")]
    assert found.exit_code == 1
