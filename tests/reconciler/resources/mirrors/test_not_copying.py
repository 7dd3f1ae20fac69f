"""A plan says once that a flow of a running mirror does not copy, whatever it does to the mirror."""

from __future__ import annotations

from dataclasses import replace

from reconciler.engine.plan.build import plan
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.replication.status import FlowStatus
from reconciler.resources.flows.routes import find_routes
from reconciler.resources.mirrors.diff import compare_mirrors
from reconciler.resources.mirrors.handover import mirror_handover
from tests.support.builders import flow, topic, topology, world
from tests.support.documents.live_values import condition

CONDITION = condition("lane_failed", "lane 0 failed", "Look into its log.")


def test_a_flow_that_does_not_copy_is_noted() -> None:
    wished = topology(topic("orders", partitions=1), flow("east", "west", "orders", replication_factor=1))
    seen = world("east", "west")
    fingerprint = str(mirror_handover(wished, wished.mirrors["west"])["fingerprint"])
    stopped = FlowStatus("east-to-west", "f", "degraded", 1, 1, conditions=(CONDITION,))
    mirror = LiveMirror("west", JobState.RUNNING, "app", fingerprint, flows={"east-to-west": stopped})
    live = LiveState(seen.look(wished).clusters, {"west": mirror})

    def notes(of: LiveState) -> list[str]:
        findings = compare_mirrors(wished, of, find_routes(wished, of), {}, {})
        return [note for each in findings for note in each.notes]

    said = "mirror west runs, but flow east-to-west does not copy: lane_failed: lane 0 failed. Look into its log."
    assert notes(live) == []
    [note] = [note for note in plan(wished, live).notes if "lane_failed" in note]
    assert "A plan does not change that" in note
    edited = replace(mirror, fingerprint="of another definition")
    assert notes(LiveState(live.clusters, {"west": edited})) == [said]
    well = replace(edited, flows={"east-to-west": replace(stopped, state="running", conditions=())})
    assert notes(LiveState(live.clusters, {"west": well})) == []
