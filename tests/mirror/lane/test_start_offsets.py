"""Explicit start offsets: for partitions without a position only, never another offset than the one asked for."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_mirror.lane.run import batch_path
from reconciler_sandbox.handles import Sandbox

from tests.support.lanes.lane_runs import Content, Flow, caught_up, fill, has

CreateTopic = Callable[..., str]
NOW = int(time.time() * 1000)
RECORDS: list[Content] = [(b"%d" % i, b"v", (), NOW) for i in range(100)]


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: CreateTopic) -> Flow:
    made = Flow(plain["east"], plain["west"], unique, 2)
    create_topic(made.source, made.topic, 2, retention_ms="-1")
    create_topic(made.target, made.remote, 2, retention_ms="-1")
    for number in range(2):
        fill(made.source, made.topic, RECORDS, number)
    return made


def test_a_partition_begins_at_its_offset_once_and_the_others_as_the_flow_says(flow: Flow) -> None:
    flow.run(batch_path, start_offsets={(flow.topic, 0): 70})
    assert [len(flow.target_content()[number]) for number in range(2)] == [30, 100]
    flow.run(batch_path, start_offsets={(flow.topic, 0): 10})
    assert flow.target_content()[0] == flow.source_content()[0][70:]


@pytest.mark.parametrize("offset", [39, 101])
def test_an_offset_the_source_does_not_have_stops_the_partition_and_says_both_bounds(offset: int, flow: Flow) -> None:
    admin, until = AdminClient(flow.source.super_client()), TopicPartition(flow.topic, 0, 40)
    admin.delete_records([until])[until].result(20)

    def told(progress: object) -> bool:
        return has("start_offset_out_of_range")(progress) and caught_up_but_one(progress)  # type: ignore[arg-type]

    report, _ = flow.run(batch_path, told, start_offsets={(flow.topic, 0): offset})
    [condition] = report.progress.conditions
    assert f"says {offset}, but the source has offsets 40 to 100" in condition.text
    assert condition.stops
    assert [len(flow.target_content()[number]) for number in range(2)] == [0, 100]


def caught_up_but_one(progress: object) -> bool:
    return any(p.partition == 1 and p.position == 100 for p in progress.partitions)  # type: ignore[attr-defined]


def test_both_bounds_are_offsets_to_begin_at(flow: Flow) -> None:
    flow.run(batch_path, caught_up, start_offsets={(flow.topic, 0): 0, (flow.topic, 1): 100})
    assert [len(flow.target_content()[number]) for number in range(2)] == [100, 0]
