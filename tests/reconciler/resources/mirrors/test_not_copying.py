"""A plan that finds a mirror as declared says all the same that a flow of it does not copy."""

from __future__ import annotations

from dataclasses import replace

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
    assert notes(live) == [said]
    well = replace(mirror, flows={"east-to-west": replace(stopped, state="running", conditions=())})
    assert notes(LiveState(live.clusters, {"west": well})) == []
