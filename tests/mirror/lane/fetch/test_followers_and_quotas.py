"""What brokers ask of a client: read from a follower of its rack (KIP-392), and no faster than the quota (KIP-219)."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import LaneEnd
from reconciler_sandbox.handles import Sandbox
from reconciler_sandbox.paths import JARS

from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.connection import Connection
from tests.support.lanes.lane_runs import Flow, fill
from tests.support.lanes.truth import map_topic

CreateTopic = Callable[..., str]
NOW = int(time.time() * 1000)


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int | None]]:
    """(cluster, broker) of every connection asked for to fetch with."""
    found: list[tuple[str, int | None]] = []
    connection = ClusterClient.connection

    async def noted(self: ClusterClient, node: int | None, purpose: str) -> Connection:
        if purpose.startswith("fetch"):
            found.append((self.name, node))
        return await connection(self, node, purpose)

    monkeypatch.setattr(ClusterClient, "connection", noted)
    return found


@pytest.mark.long
def test_a_follower_in_the_same_rack_is_read(
    ha: Sandbox, unique: str, create_topic: CreateTopic, dialled: list[tuple[str, int | None]]
) -> None:
    flow = Flow(ha["east"], ha["west"], unique, 1)
    create_topic(flow.source, flow.topic, 1, 3)
    create_topic(flow.target, flow.remote, 1, 3)
    fill(flow.source, flow.topic, [(b"%d" % i, b"v" * 100, (), NOW) for i in range(2000)])
    admin = AdminClient(flow.source.super_client())
    leader = admin.list_topics(flow.topic, timeout=20).topics[flow.topic].partitions[0].leader
    near = next(broker for broker in flow.source.brokers if broker.node_id != leader)
    clients = ({**flow.source.super_client(), "client.rack": near.rack}, flow.target.super_client())
    report, _ = replace(flow, clients=clients).run(batch_path, flow.at_end())
    assert report.end is LaneEnd.STOPPED, report
    assert ("east", near.node_id) in dialled, f"leader {leader}, asked {set(dialled)}"
    assert flow.target_content() == flow.source_content()


@pytest.mark.long
def test_a_clients_quota_is_kept(plain: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    """0.5 MiB/s for reading 8 MiB: the lane takes its time and fails nowhere."""
    flow = Flow(plain["east"], plain["west"], unique, 1)
    create_topic(flow.source, flow.topic)
    create_topic(flow.target, flow.remote)
    map_topic(flow.target)
    fill(flow.source, flow.topic, [(b"%d" % i, b"v" * 8192, (), NOW) for i in range(1000)], compression_type="none")
    client = {**flow.source.super_client(), "client.id": f"limited-{unique}"}
    _quota(flow, f"limited-{unique}", 1 << 19)
    began = time.monotonic()
    report, control = replace(flow, clients=(client, flow.target.super_client())).run(batch_path, flow.at_end())
    took = time.monotonic() - began
    assert report.end is LaneEnd.STOPPED, report
    assert took > 4, "a quota is counted over a window, so that the first bytes are free"
    assert flow.target_content() == flow.source_content()
    said = [condition for progress in control.reports for condition in progress.conditions]
    assert {one.code for one in said} == {"quota_throttled"}
    assert not [one for one in said if one.stops], "to be throttled stops nothing"


def _quota(flow: Flow, client_id: str, rate: int) -> None:
    command = ["java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*", "org.apache.kafka.tools.ConfigCommand"]
    command += ["--bootstrap-server", flow.source.bootstrap_servers, "--alter", "--entity-type", "clients"]
    command += ["--entity-name", client_id, "--add-config", f"consumer_byte_rate={rate}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
