"""Parity: what differs between the sides of a flow, and by which rule it may."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import jsonschema

from reconciler.errors import Unknown
from reconciler.flow_syncs import ConfigSync
from reconciler.live import LiveState
from reconciler.parity import Disparity, parity
from reconciler.rendering.parity import parity_json, parity_text
from reconciler.routing import find_routes
from reconciler.topology import Topology
from tests.builders import flow, topic, topology
from tests.fakes import FakeCluster


def compared(wished: Topology, live: LiveState) -> dict[tuple[str, str], Disparity]:
    found = parity(wished, live, find_routes(wished, live).routes)
    schema = json.loads(resources.files("schemas").joinpath("parity.schema.json").read_text())
    jsonschema.validate(json.loads(parity_json(found)), schema)
    for one in found.disparities:
        assert one.why in parity_text(found)
    return {(one.remote, one.field): one for one in found.disparities}


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
    east, west, _ = sides()
    east.put("orders", 2, retention_ms="60000", min_insync_replicas="1")
    west.put("east.orders", 3, 3, retention_ms="70000", min_insync_replicas="2", segment_ms="1000")
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
