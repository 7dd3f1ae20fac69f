"""Views of the live page, made of what fake clusters and jobs answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reconciler.engine.drift.causes import history
from reconciler.engine.topic_list import topic_list
from reconciler.engine.topology_map import topology_map
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveMirror, LiveState
from reconciler.model.reports.failover import ConsumerMove, GroupMove, GroupOffset, GroupState, TranslatedPartition, Way
from reconciler.model.state.audit_chain import AuditVerification, check
from reconciler.render.live.flows import Standings
from reconciler.render.live.view import AuditTrail, ClustersSeen, JobsSeen, LiveReading, LiveView, Reviewed
from reconciler.render.reports.status import StatusInputs
from reconciler.replication.status import FlowStatus
from tests.support.builders import World, cluster, flow, topic, topology
from tests.support.documents.live_values import condition
from tests.support.documents.maps import copying, observed, regions, regions_world, running
from tests.support.fakes.cluster import FakeCluster

NOW_MS = 1_764_000_000_000


def view_of(declared: Topology, live: LiveState, seen: World, at_ms: int = NOW_MS, **more: Any) -> LiveView:
    """Everything read at the same time, from what ``seen`` and ``live`` hold."""
    plan = seen.plan(declared)
    drawn = topology_map(declared, live, plan)
    clusters = ClustersSeen(live.clusters, drawn, topic_list(declared, live))
    lines = audit_lines()
    trail = AuditTrail(tuple(lines), AuditVerification(declared.environment, {"this machine": check(lines)}))
    parts: dict[str, Any] = {
        "jobs": LiveReading(JobsSeen(live.mirrors, {("west", "east-to-west"): "12 s"}), at_ms),
        "clusters": LiveReading(clusters, at_ms),
        "lock": LiveReading(StatusInputs(None), at_ms),
        "review": LiveReading(Reviewed(plan, drawn, history(lines)), at_ms),
        "audit": LiveReading(trail, at_ms),
    }
    return LiveView(declared, **parts | more)


def seen_view(at_ms: int = NOW_MS, **more: Any) -> LiveView:
    """Three regions, all applied but a new topic; a flow has a condition, and of hub's job nothing is known."""
    declared = regions()
    seen = regions_world()
    seen.apply(declared)
    topics = {**declared.topics, "new": topic("new", "west", partitions=1)}
    return view_of(replace(declared, topics=topics), observed(declared), seen, at_ms, **more)


def described_view(at_ms: int) -> LiveView:
    """As ``seen_view``, with the words of a real condition: for pictures."""
    view = seen_view(at_ms)
    jobs = view.jobs.value
    assert jobs is not None
    told = condition(
        "record_refused",
        "refunds-0: a batch of 1,204,311 bytes at offset 88,120 is larger than max.message.bytes of the copy, "
        "1,048,588. Later records of this partition wait.",
        "Raise max.message.bytes of east/west.refunds in git, and apply.",
    )
    flow_status = copying("west-to-east", state="degraded", records_lag=1_234, seconds_lag=42.0, conditions=(told,))
    hub = running("hub", copying("west-to-hub", records_per_second=900.0, bytes_per_second=300_000.0),
                  copying("east-to-hub", state="paused", records_lag=88_000))  # fmt: skip
    mirrors = {**jobs.mirrors, "east": running("east", flow_status), "hub": hub}
    return replace(view, jobs=LiveReading(JobsSeen(mirrors, jobs.left), at_ms))


def audit_lines() -> list[dict[str, Any]]:
    run = {"format_version": 1, "run": "r1", "at": "2026-01-31T12:00:00Z"}
    begin = {"command": "apply", "who": "ann", "host": "laptop", "commit": "c0ffee", "plan_digest": "d", "changes": 2}
    change = {"id": "topic/east/orders", "change": None, "result": "done", "error": "", "seconds": 0.1}
    failed = {**change, "id": "topic/west/orders", "result": "failed", "error": "not enough brokers"}
    return [
        {**run, "kind": "begin", **begin},
        {**run, "kind": "change", **change},
        {**run, "kind": "change", **failed},
        {**run, "kind": "end"},
    ]


def standings(flow_name: str = "east-to-west", group: str = "billing") -> Standings:
    exact = TranslatedPartition(118, exact=True, end=200)
    earlier = TranslatedPartition(40, exact=False, reason="the map has a gap there", end=60)
    offsets = (
        GroupOffset(("orders", 0), ("east.orders", 0), 120, "", exact, 100),
        GroupOffset(("orders", 1), ("east.orders", 1), 50, "", earlier, None),
    )
    move = ConsumerMove(Way.FAILOVER, flow_name, "east", "west", (), flow_name, "")
    moved = GroupMove(group, GroupState("consumer", "Stable", 3), GroupState(), offsets)
    return Standings(NOW_MS, move, (moved,), {"shares": "share groups have no offsets of this kind"})


def large_view(topics: int, flows: int) -> LiveView:
    """``topics`` on each of three clusters, and ``flows`` between them in two jobs."""
    names = ("east", "west", "hub")
    made: list[Any] = [cluster(name, region=f"region-{name}") for name in names]
    made += [topic(f"topic-{number:05}", *names, partitions=1, replication_factor=1) for number in range(topics)]
    made += [
        flow(names[number % 3], names[(number + 1) % 3], f"topic-{number:05}x", name=f"flow-{number:03}")
        for number in range(flows)
    ]
    declared = topology(*made, environment="large")
    seen = World({name: FakeCluster(name, 3) for name in names})
    for name in names:
        for number in range(topics):
            seen.clusters[name].put(f"topic-{number:05}", 1)
    live = seen.look(declared)
    mirrors: dict[str, LiveMirror | Unknown] = {
        name: running(name, *(_moving(each) for each in mirror.flows)) for name, mirror in declared.mirrors.items()
    }
    return view_of(declared, LiveState(live.clusters, mirrors), seen)


def _moving(name: str) -> FlowStatus:
    return copying(name, records_per_second=1_000.0, bytes_per_second=1e6, records_lag=17)
