"""Environments with regions, flows over several hops and a rollout, and their live states, to be drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reconciler.engine.topology_map import topology_map
from reconciler.errors import Unknown
from reconciler.model.environment.rollout import Rollout, RolloutWave
from reconciler.model.environment.topology import Topology
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.model.plan import Plan
from reconciler.model.reports.topology_map import MapCluster, MapFlow, State, TopologyMap
from reconciler.replication.status import FlowStatus
from tests.support.builders import World, cluster, flow, topic, topology, world
from tests.support.documents.live_values import condition


def regions(**fields: Any) -> Topology:
    """Three regions: orders go east -> west -> hub, clicks east -> hub, refunds back; a wave a region."""
    made = topology(
        cluster("east", region="us-east"),
        cluster("west", region="us-west"),
        cluster("hub", region="eu"),
        topic("orders", "east", partitions=6, replication_factor=1),
        topic("clicks", "east", partitions=2, replication_factor=1),
        topic("refunds", "west", partitions=1, replication_factor=1),
        flow("east", "west", "orders", replication_factor=1, **fields),
        flow("west", "east", "refunds", replication_factor=1),
        flow("west", "hub", ".*orders", replication_factor=1),
        flow("east", "hub", "clicks", replication_factor=1),
        environment="shop",
    )
    waves = RolloutWave("canary", clusters=("east",), soak_ms=600_000), RolloutWave("rest", clusters=("hub", "west"))
    return replace(made, rollout=Rollout(waves))


def regions_world() -> World:
    return world("east", "west", "hub", brokers=3)


def running(name: str, *flows: FlowStatus, late_ms: int = 0) -> LiveMirror:
    by_flow = {status.name: status for status in flows}
    return LiveMirror(name, JobState.RUNNING, "app-1", "f", flows=by_flow, late_ms=late_ms)


def copying(name: str, **fields: Any) -> FlowStatus:
    known: dict[str, Any] = {"state": "running", "topics": 1, "records_lag": 0, "seconds_lag": 0.1}
    return FlowStatus(name, "f", **{**known, **fields})


def observed(declared: Topology) -> LiveState:
    """Applied; one flow copies, one has a condition, one is paused, and of hub's job nothing is known."""
    seen = regions_world()
    seen.apply(declared)
    live = seen.look(declared)
    stopped = (condition("record-too-large"),)
    mirrors: dict[str, LiveMirror | Unknown] = {
        "west": running("west", copying("east-to-west", records_per_second=12_000.0, bytes_per_second=9.4 * 2**20)),
        "east": running("east", copying("west-to-east", state="degraded", records_lag=1_234, conditions=stopped)),
        "hub": Unknown("mirror hub", "its status could not be read. Nothing is concluded from it", "Ask again."),
    }
    return LiveState(live.clusters, mirrors)


def changed_plan() -> Plan:
    """A flow with other settings, a new topic, and retention."""
    seen, declared = regions_world(), regions()
    seen.apply(declared)
    return seen.plan(replace(regions(lanes=4), topics={**declared.topics, "new": topic("new", "west", partitions=1)}))


def drawn(plan: Plan | None = None) -> TopologyMap:
    declared = regions()
    return topology_map(declared, observed(declared), plan)


def large(clusters: int, flows: int) -> TopologyMap:
    """``flows`` between ``clusters`` in fives to a region, several between the same two."""
    names = [f"kafka-{number:02}" for number in range(clusters)]
    nodes = tuple(MapCluster(name, f"region-{number // 5}", 10, State.OK, 3, 100) for number, name in enumerate(names))
    edges = tuple(
        MapFlow(
            f"flow-{number:03}",
            names[number % clusters],
            names[(number * 7 + 1) % clusters],
            "m",
            "exactly_once",
            State.OK,
            "running",
            5,
            float(number),
            number * 1000.0,
            number,
        )
        for number in range(flows)
        if number % clusters != (number * 7 + 1) % clusters
    )
    return TopologyMap("large", nodes, edges, live=True)


def fans() -> TopologyMap:
    """Three regions with fan-in to a hub, fan-out from it, several flows between the same clusters and both ways."""
    names = {"us": ("ash", "ord", "sfo"), "eu": ("hub",), "apac": ("nrt", "sin", "syd")}
    nodes = tuple(MapCluster(name, region, 10, State.OK, 3, 40) for region, some in names.items() for name in some)
    ways = [(name, "hub") for name in names["us"]] + [("hub", name) for name in names["apac"]]
    ways += [("ash", "hub"), ("ash", "hub"), ("hub", "ash"), ("ash", "nrt"), ("ord", "nrt"), ("sin", "nrt")]
    flows = [
        MapFlow(f"{source}-{target}-{number}", source, target, "m", "exactly_once", State.OK, "running", 5,
                1_500.0 * number, 1e6 * number, 120 * number)
        for number, (source, target) in enumerate(ways)
    ]  # fmt: skip
    flows[1] = replace(flows[1], state=State.IDLE, said="paused")
    flows[2] = replace(flows[2], state=State.PROBLEM, said="degraded", conditions=1)
    unread: dict[str, Any] = {"records_per_second": None, "bytes_per_second": None, "records_lag": None}
    flows[4] = replace(flows[4], state=State.UNKNOWN, said="unknown", **unread)
    return TopologyMap("three-regions", nodes, tuple(flows), live=True)


def documented() -> TopologyMap:
    """What docs/begin/pictures/map.svg shows."""
    declared = regions()
    live = observed(declared)
    hub = running(
        "hub",
        copying("west-to-hub", records_per_second=900.0, bytes_per_second=300_000.0),
        copying("east-to-hub", state="paused", records_lag=88_000),
    )
    return topology_map(declared, LiveState(live.clusters, {**live.mirrors, "hub": hub}))
