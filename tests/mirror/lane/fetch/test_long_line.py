"""The batch path over a delaying line, to the source or the target: all arrives once, in order, round trips overlap."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import LaneEnd
from reconciler_sandbox.handles import Sandbox

from bench.copy.long_line import far_away
from bench.processes.proxy import Line
from tests.support.jobs.free_ports import free_port
from tests.support.lanes.lane_runs import Flow, fill

CreateTopic = Callable[..., str]
NOW = int(time.time() * 1000)
PARTITIONS, RECORDS = 4, 3_000
DELAY_S = 0.05


@pytest.mark.parametrize("far", ["source", pytest.param("target", marks=pytest.mark.long)])
def test_round_trips_overlap(plain: Sandbox, unique: str, create_topic: CreateTopic, far: str) -> None:
    flow = Flow(plain["east"], plain["west"], unique, PARTITIONS)
    create_topic(flow.source, flow.topic, PARTITIONS, retention_ms="-1")
    create_topic(flow.target, flow.remote, PARTITIONS, retention_ms="-1")
    for partition in range(PARTITIONS):
        records = [(b"%d" % i, os.urandom(1000), (), NOW) for i in range(RECORDS)]
        fill(flow.source, flow.topic, records, partition, linger_ms=50)
    cluster = flow.source if far == "source" else flow.target
    broker = int(cluster.super_client()["bootstrap.servers"].rpartition(":")[2])
    with far_away(Line(free_port(), broker, DELAY_S, 50e6)) as line:
        there = {**cluster.super_client(), "bootstrap.servers": line.address}
        clients = (there, flow.target.super_client()) if far == "source" else (flow.source.super_client(), there)
        report, _ = replace(flow, clients=clients).run(batch_path, flow.at_end())
        together = line.together(1 if far == "source" else 0)
    assert report.end is LaneEnd.STOPPED, report
    assert flow.target_content() == flow.source_content()
    assert together >= 3, "a request waits for no answer to the one before it"
