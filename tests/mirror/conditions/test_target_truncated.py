"""A target that has lost what it had acknowledged, under the same topic id: its partition stops, and a seek goes on."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_mirror.lane import copied_runs, transactional
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.produce.outbox import Piece
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.lane.state import RestartError
from reconciler_mirror.model.lane import PartitionSpec, TargetLoss
from reconciler_sandbox.handles import Sandbox

from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.errors import BrokerError
from tests.support.lanes.high_offsets import lose_end
from tests.support.lanes.lane_runs import Content, Flow, Lane, caught_up, conditions, fill, has, running
from tests.support.lanes.truth import map_topic, offset_map, placed

NOW = int(time.time() * 1000)
RECORDS: list[Content] = [(b"%d" % i, b"v", (), NOW) for i in range(60)]


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: Callable[..., str]) -> Flow:
    made = Flow(plain["east"], plain["west"], unique)
    map_topic(made.target)
    create_topic(made.source, made.topic, retention_ms="-1")
    create_topic(made.target, made.remote, retention_ms="-1")
    for _ in range(2):
        fill(made.source, made.topic, RECORDS)
        made.run(batch_path)
    return made


def test_what_the_target_lost_is_named_and_copied_again_by_the_seek_that_is_named(flow: Flow) -> None:
    """First and second 60 records were committed at 0 and 61: each transaction ends with a marker."""
    lose_end(flow.target, flow.remote, 61)
    fill(flow.source, flow.topic, RECORDS[:1])
    report, _ = flow.run(batch_path, has("target_truncated"))
    [condition] = report.progress.conditions
    assert condition.stops
    assert f"{flow.remote}-0 ended at offset 61 after the target had acknowledged records up to 121" in condition.text
    assert "at most 60 of them are gone, copies of source offsets 60 to 119" in condition.text
    assert report.progress.partitions[0].end is None or report.progress.partitions[0].position is None
    assert len(flow.target_content()[0]) == 60, "nothing continues after the loss"
    [offset] = re.findall(r"after what the target still has: .*? --partition 0 --to (\d+)", condition.todo)
    flow.set_position(int(offset))
    flow.run(batch_path)
    fill(flow.source, flow.topic, RECORDS[:1])
    report, _ = flow.run(batch_path)
    assert report.progress.conditions == ()
    assert flow.target_content()[0] == flow.source_content()[0]


@pytest.mark.long
def test_it_is_seen_while_the_lane_runs_and_remembered_once_the_log_has_grown(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional, "POSITIONS_EVERY", 0.2)
    with running(Lane(flow.lane())) as lane:
        lane.until(caught_up)
        lose_end(flow.target, flow.remote, 61)
        lane.until(has("target_truncated"))
        end = time.monotonic() + 40
        while '"g":[61,121,60]' not in flow.position().metadata:
            assert time.monotonic() < end, flow.position()
            time.sleep(0.1)
    fill(flow.target, flow.remote, RECORDS + RECORDS)
    report, _ = flow.run(batch_path, has("target_truncated"))
    assert "source offsets 60 to 119" in report.progress.conditions[0].text
    flow.set_position(120)
    fill(flow.source, flow.topic, RECORDS[:1])
    report, _ = flow.run(batch_path)
    assert report.progress.conditions == ()


def test_what_is_copied_again_is_translated_by_its_new_offsets_alone(
    plain: Sandbox, unique: str, create_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk of the map for each commit, 20 records and their marker; copied again in other pieces. A group that is
    translated by an offset that a lost record had would miss records."""
    monkeypatch.setattr(copied_runs, "CHUNK_RUNS", 1)
    monkeypatch.setattr(transactional, "POSITIONS_EVERY", 0.2)
    flow = Flow(plain["east"], plain["west"], unique)
    map_topic(flow.target)
    create_topic(flow.source, flow.topic, retention_ms="-1")
    create_topic(flow.target, flow.remote, retention_ms="-1")
    values = [(b"%d" % i, b"%d" % i, (), NOW) for i in range(140)]
    with running(Lane(flow.lane())) as lane:
        for end in range(20, 121, 20):
            fill(flow.source, flow.topic, values[end - 20 : end])
            lane.until(lambda p: [each.position for each in p.partitions] == [end])  # noqa: B023
        lose_end(flow.target, flow.remote, 63)
        lane.until(has("target_truncated"))
        give_up = time.monotonic() + 40
        while '"g":[63,125,60]' not in flow.position().metadata:
            assert time.monotonic() < give_up, flow.position()
            time.sleep(0.1)
    flow.set_position(60)
    with running(Lane(flow.lane())) as lane:
        lane.until(caught_up)
        fill(flow.source, flow.topic, values[120:])
        lane.until(lambda p: [each.position for each in p.partitions] == [140])
    there = placed(flow.target, flow.remote)
    assert list(there) == [value for _, value, _, _ in values]
    known = offset_map(flow)
    sources = placed(flow.source, flow.topic)
    assert {value: known.downstream(at).offset for value, at in sources.items()} == there


def test_deleted_records_and_a_marker_at_the_end_are_no_loss(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional, "POSITIONS_EVERY", 0.05)
    admin = AdminClient(flow.target.super_client())
    for deleted in (121, 122):  # behind the last record, behind its marker
        [future] = admin.delete_records([TopicPartition(flow.remote, 0, deleted)]).values()
        future.result(20)
        began = time.monotonic()
        _, control = flow.run(batch_path, lambda p: caught_up(p) and time.monotonic() - began > 1)  # noqa: B023
        assert conditions(control.reports) == []


def test_a_copy_without_a_leader_holds_up_no_other(
    plain: Sandbox, unique: str, create_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = Flow(plain["east"], plain["west"], unique, 2)
    map_topic(flow.target)
    for cluster, topic in ((flow.source, flow.topic), (flow.target, flow.remote)):
        create_topic(cluster, topic, 2, retention_ms="-1")
    for partition in (0, 1):
        fill(flow.source, flow.topic, RECORDS, partition)
    flow.run(batch_path)
    for partition in (0, 1):
        fill(flow.source, flow.topic, RECORDS, partition)
    ask = ClusterClient.list_offsets

    async def without_a_leader(cluster: ClusterClient, wanted: Any, *, committed: bool) -> Any:
        gone = {(flow.remote, 1): BrokerError(5, "LEADER_NOT_AVAILABLE")}
        answers = await ask(cluster, {key: wanted[key] for key in wanted if key not in gone}, committed=committed)
        return answers | {key: error for key, error in gone.items() if key in wanted}

    monkeypatch.setattr(ClusterClient, "list_offsets", without_a_leader)
    flow.run(batch_path)
    assert [len(flow.target_content()[partition]) for partition in (0, 1)] == [120, 120]


@pytest.mark.parametrize("base", [99, 100])
def test_an_answer_below_what_was_committed_is_kept_for_the_next_session(base: int) -> None:
    """The log was shortened, and is written to again before its end was looked at."""
    partition = Partition(PartitionSpec("orders", 0, "east.orders", "id"))
    partition.copied.target_end = 100
    piece = Piece(memoryview(b""), 5, 55, 0, 0, ((50, 5),))
    lane: Any = SimpleNamespace(identity=SimpleNamespace(version_2=False, transactional=True))
    delivery = transactional.Transactional.__new__(transactional.Transactional)
    delivery._lane = lane
    if base < 100:
        with pytest.raises(RestartError, match="leader lost records"):
            delivery.acknowledged(partition, piece, base)
        assert partition.copied.lost == TargetLoss(99, 100)
    else:
        delivery.acknowledged(partition, piece, base)
        assert partition.copied.lost is None
