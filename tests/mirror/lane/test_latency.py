"""How long records took is counted: the oldest record of each partition in each commit."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from reconciler_mirror.lane.run import batch_path
from reconciler_sandbox.handles import Sandbox

from tests.support.lanes.lane_runs import Flow

AGE_MS = 3_600_000


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_latency_is_the_age_of_the_oldest_record_at_the_commit(
    plain: Sandbox, unique: str, create_topic: Callable[..., str], delivery: str
) -> None:
    flow = Flow(plain["east"], plain["west"], unique, 2)
    create_topic(flow.source, flow.topic, 2)
    create_topic(flow.target, flow.remote, 2)
    writer = Producer(flow.source.super_client())
    written = int(time.time() * 1000) - AGE_MS
    for partition in range(2):
        for number in range(50):
            writer.produce(flow.topic, b"v", partition=partition, timestamp=written + 1_000 * number)
    writer.flush()
    report, _ = flow.run(batch_path, delivery=delivery)
    found = report.progress.latency
    assert sum(p.records for p in report.progress.partitions) == 100
    assert 2 <= found.count <= 2 * report.progress.transactions
    assert found.total_ms / found.count > AGE_MS - 50_000
    assert found.total_ms / found.count < AGE_MS + 120_000
