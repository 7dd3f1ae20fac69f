"""Clusters, or disks of them, that are put back to a backup: nothing is lost or doubled without a word."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from reconciler_mirror.lane import target_tails, transactional
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import NO_WORK, Condition, RecordWork
from reconciler_sandbox.handles import Sandbox

from reconciler.replication.expressions.record_filter import AddedHeader, Exists, Key
from reconciler.replication.names import OFFSETS_TOPIC
from tests.support.lanes.high_offsets import backup, restore
from tests.support.lanes.lane_runs import Content, Flow, Lane, caught_up, conditions, fill, has, producer, running
from tests.support.lanes.truth import map_topic, with_topics

NOW = int(time.time() * 1000)
RECORDS: list[Content] = [(b"%d" % i, b"v%d" % i, (), NOW + i) for i in range(180)]
FIRST, SECOND, THIRD = RECORDS[:60], RECORDS[60:120], RECORDS[120:]
GROUPS = "__consumer_offsets"


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: Callable[..., str]) -> Flow:
    made = with_topics(Flow(plain["east"], plain["west"], unique), create_topic, FIRST)
    made.run(batch_path)
    return made


def named(condition: Condition) -> int:
    offset, *_ = re.findall(r"--partition 0 --to (\d+)", condition.todo)
    return int(offset)


def goes_on(flow: Flow, condition: Condition) -> None:
    """By the seek that the condition names, without a record lost or doubled."""
    assert condition.stops
    flow.set_position(named(condition))
    flow.run(batch_path)
    fill(flow.source, flow.topic, THIRD)
    report, _ = flow.run(batch_path)
    assert report.progress.conditions == ()
    assert flow.target_content()[0] == RECORDS


@pytest.mark.long
def test_a_whole_target_is_copied_to_again_from_its_own_position(flow: Flow) -> None:
    kept = backup(flow.target)
    fill(flow.source, flow.topic, SECOND)
    flow.run(batch_path)
    restore(flow.target, kept)
    fill(flow.source, flow.topic, THIRD)
    report, _ = flow.run(batch_path)
    assert report.progress.conditions == ()
    assert flow.target_content()[0] == RECORDS


@pytest.mark.long
def test_a_running_lane_says_where_its_restored_target_goes_on(flow: Flow) -> None:
    kept = backup(flow.target)
    fill(flow.source, flow.topic, SECOND)
    with running(Lane(flow.lane())) as lane:
        lane.until(lambda p: [each.position for each in p.partitions] == [120])
        restore(flow.target, kept)
        [condition] = lane.until(has("position_regressed"), 60).conditions
    assert "the target went back to an earlier state" in condition.text
    assert named(condition) == 60
    goes_on(flow, condition)


@pytest.mark.parametrize(
    "topics",
    [
        pytest.param((GROUPS, OFFSETS_TOPIC), id="map too"),
        pytest.param((GROUPS,), id="map newer", marks=pytest.mark.long),
    ],
)
def test_positions_older_than_the_copy_double_nothing(flow: Flow, topics: tuple[str, ...]) -> None:
    kept = backup(flow.target)
    fill(flow.source, flow.topic, SECOND)
    flow.run(batch_path)
    restore(flow.target, kept, *topics)
    report, _ = flow.run(batch_path, has("position_regressed"))
    [condition] = report.progress.conditions
    assert named(condition) == 120
    assert len(flow.target_content()[0]) == 120
    goes_on(flow, condition)


def test_exactly_once_after_a_crash_at_least_once_doubles_nothing(flow: Flow) -> None:
    """The crash came between records and their position; then an edit changed the delivery."""
    flow.run(batch_path, delivery=TWICE)
    fill(flow.target, flow.remote, SECOND[:3])
    fill(flow.source, flow.topic, SECOND)
    report, _ = flow.run(batch_path, has("position_regressed"))
    [condition] = report.progress.conditions
    assert "a crash while the flow copied at least once" in condition.text
    assert named(condition) == 63
    goes_on(flow, condition)


def test_a_copy_and_a_map_older_than_the_position_lose_nothing(flow: Flow) -> None:
    kept = backup(flow.target)
    fill(flow.source, flow.topic, SECOND)
    flow.run(batch_path)
    restore(flow.target, kept, flow.remote, OFFSETS_TOPIC)
    report, _ = flow.run(batch_path, has("target_truncated"))
    [condition] = report.progress.conditions
    assert named(condition) == 60
    goes_on(flow, condition)


WORK = {
    "whole batches": NO_WORK,
    "added headers": RecordWork(headers=(AddedHeader("from", "{source_cluster}"),)),
    "filter": RecordWork(Key(Exists(True))),
}


ONCE, TWICE = "exactly_once", "at_least_once"
KINDS = [
    *(pytest.param(ONCE, work, id=name) for name, work in WORK.items()),
    pytest.param(TWICE, NO_WORK, id="at least once"),
    pytest.param(TWICE, WORK["filter"], id="filter, at least once", marks=pytest.mark.long),
    pytest.param(TWICE, WORK["added headers"], id="added headers, at least once", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("delivery", "work"), KINDS)
def test_records_of_another_producer_are_reported_and_copying_goes_on(
    flow: Flow, delivery: str, work: RecordWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional, "POSITIONS_EVERY", 0.5)
    with running(Lane(flow.lane(work=work, delivery=delivery))) as lane:
        lane.until(caught_up)
        time.sleep(1)
        fill(flow.target, flow.remote, [(b"k", b"a stranger's", (), NOW)])
        idle = lane.until(has("remote_topic_not_empty"))
        fill(flow.source, flow.topic, SECOND)
        lane.until(lambda p: [each.position for each in p.partitions] == [120])
    [condition] = {one for one in idle.conditions if one.code == "remote_topic_not_empty"}
    assert not condition.stops
    assert "from its offset 61 on" in condition.text
    assert len(flow.target_content()[0]) == 121


def test_records_of_another_producer_between_two_batches_are_reported(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional, "POSITIONS_EVERY", 3.0)
    with running(Lane(flow.lane())) as lane:
        lane.until(caught_up)
        fill(flow.source, flow.topic, SECOND[:30])
        lane.until(lambda p: [each.position for each in p.partitions] == [90])
        fill(flow.target, flow.remote, [(b"k", b"a stranger's", (), NOW)])
        fill(flow.source, flow.topic, SECOND[30:])
        lane.until(lambda p: [each.position for each in p.partitions] == [120])
        lane.until(has("remote_topic_not_empty"))


@pytest.mark.parametrize(("delivery", "work"), KINDS)
def test_while_the_lane_is_down_a_stranger_s_records_stop_nothing(
    flow: Flow, delivery: str, work: RecordWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional, "POSITIONS_EVERY", 0.2)
    fill(flow.target, flow.remote, [(b"k", b"a stranger's", (), NOW)])
    fill(flow.source, flow.topic, SECOND)
    flow.run(batch_path, has("remote_topic_not_empty"), work=work, delivery=delivery)
    flow.run(batch_path, work=work, delivery=delivery)
    assert len(flow.target_content()[0]) == 121


@pytest.mark.parametrize("delivery", [ONCE, TWICE])
def test_a_copy_that_cannot_be_looked_at_hides_no_stranger_in_another(
    plain: Sandbox, unique: str, create_topic: Callable[..., str], delivery: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source of one copy has aborted records alone, so the offset map knows of no copy there."""
    monkeypatch.setattr(transactional, "POSITIONS_EVERY", 0.2)
    flow = Flow(plain["east"], plain["west"], unique, partitions=2)
    map_topic(flow.target)
    create_topic(flow.source, flow.topic, partitions=2)
    create_topic(flow.target, flow.remote, partitions=2)
    aborted = producer(flow.source, transactional_id=unique)
    aborted.init_transactions(30)
    aborted.begin_transaction()
    aborted.produce(flow.topic, b"aborted", partition=0)
    aborted.flush(30)
    aborted.abort_transaction(30)
    fill(flow.source, flow.topic, FIRST, 1)
    flow.run(batch_path, delivery=delivery)
    fill(flow.target, flow.remote, [(b"k", b"a stranger's", (), NOW)], 1)
    flow.run(batch_path, has("remote_topic_not_empty"), delivery=delivery)


@pytest.mark.parametrize("delivery", [ONCE, TWICE])
def test_a_stranger_is_seen_behind_deleted_records_of_a_copy(
    flow: Flow, delivery: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional, "POSITIONS_EVERY", 0.2)
    fill(flow.target, flow.remote, [(b"k", b"a stranger's", (), NOW + at) for at in range(3)])
    admin, end = AdminClient(flow.target.client()), len(FIRST) + 2 + (delivery == ONCE)
    until = TopicPartition(flow.remote, 0, end)
    admin.delete_records([until])[until].result(20)
    flow.run(batch_path, has("remote_topic_not_empty"), delivery=delivery)


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(WORK["whole batches"], id="whole batches"),
        pytest.param(WORK["added headers"], id="added headers", marks=pytest.mark.long),
    ],
)
def test_repeats_of_an_at_least_once_flow_are_no_records_of_others(
    flow: Flow, work: RecordWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional, "POSITIONS_EVERY", 0.1)
    # A crash between the records and their position; an edit has added the headers since.
    fill(flow.target, flow.remote, SECOND[:3])
    fill(flow.source, flow.topic, SECOND)
    with running(Lane(flow.lane(work=work, delivery=TWICE))) as lane:
        lane.until(lambda p: [each.position for each in p.partitions] == [120])
        time.sleep(1)
        fill(flow.target, flow.remote, SECOND[50:])  # an earlier holder that still writes
        began = time.monotonic()
        lane.until(lambda _: time.monotonic() - began > 2)
        assert conditions(lane.control.reports) == []
        fill(flow.target, flow.remote, [(b"k", b"a stranger's", (), SECOND[50][3])])
        [condition] = lane.until(has("remote_topic_not_empty")).conditions
    assert "from its offset 134 on" in condition.text


def test_a_second_mirror_beside_an_at_least_once_flow_is_reported(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes nothing but equals of source records, as MirrorMaker 2 does."""
    monkeypatch.setattr(transactional, "POSITIONS_EVERY", 0.1)
    monkeypatch.setattr(target_tails, "SETTLED_S", 2.0)
    with running(Lane(flow.lane(delivery=TWICE))) as lane:
        lane.until(caught_up)
        time.sleep(2.5)
        fill(flow.source, flow.topic, SECOND)
        lane.until(lambda p: [each.position for each in p.partitions] == [120])
        assert conditions(lane.control.reports) == [], "its own records"
        fill(flow.target, flow.remote, SECOND)
        [condition] = lane.until(has("remote_topic_not_empty")).conditions
    assert not condition.stops
    assert "from its offset 121 on" in condition.text


def _retain_none(flow: Flow) -> None:
    admin, until = AdminClient(flow.source.client()), TopicPartition(flow.topic, 0, 120)
    admin.delete_records([until])[until].result(20)


def _compact(flow: Flow) -> None:
    """Leaves of SECOND no record but its last."""
    eager = {"cleanup.policy": "compact", "segment.ms": "100", "max.compaction.lag.ms": "100"}
    entries = [ConfigEntry(*each, incremental_operation=AlterConfigOpType.SET) for each in eager.items()]
    topic = ConfigResource(ResourceType.TOPIC, flow.topic, incremental_configs=entries)
    admin = AdminClient(flow.source.client())  # kept: a client that is collected answers nothing
    admin.incremental_alter_configs([topic])[topic].result(20)
    until = time.monotonic() + 60
    while len([one for one in flow.source_content()[0] if one in SECOND]) > 1:
        assert time.monotonic() < until, "the source was never compacted"
        fill(flow.source, flow.topic, [(key, b"newer", (), int(time.time() * 1000)) for key, *_ in SECOND[:-1]])
        time.sleep(1)


@pytest.mark.parametrize("delete", [_retain_none, pytest.param(_compact, marks=pytest.mark.long)])
def test_repeats_whose_originals_the_source_has_deleted_are_no_records_of_others(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, delete: Callable[[Flow], None]
) -> None:
    monkeypatch.setattr(transactional, "POSITIONS_EVERY", 0.2)
    fill(flow.source, flow.topic, SECOND)
    with running(Lane(flow.lane(delivery=TWICE))) as lane:
        lane.until(lambda p: [each.position for each in p.partitions] == [120])
        delete(flow)
        lane.until(caught_up)
        fill(flow.target, flow.remote, SECOND[50:])
        began = time.monotonic()
        lane.until(lambda _: time.monotonic() - began > 3)
        fill(flow.source, flow.topic, THIRD)
        lane.until(caught_up)
    assert conditions(lane.control.reports) == []


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(WORK["whole batches"], id="whole batches"),
        pytest.param(WORK["added headers"], id="added headers", marks=pytest.mark.long),
    ],
)
def test_markers_and_aborted_batches_are_no_records(
    flow: Flow, work: RecordWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional, "POSITIONS_EVERY", 0.1)
    began = time.monotonic()
    with running(Lane(flow.lane(work=work))) as lane:
        for number in range(8):
            fill(flow.source, flow.topic, SECOND[number * 5 : number * 5 + 5])
            lane.until(lambda p: [each.position for each in p.partitions] == [65 + number * 5])  # noqa: B023
        flow.target.restart()
        fill(flow.source, flow.topic, SECOND[40:])
        lane.until(lambda p: [each.position for each in p.partitions] == [120], 60)
        lane.until(lambda _: time.monotonic() - began > 6)
        told = conditions(lane.control.reports)
    assert {one.code for one in told} <= {"target_unreachable", "target_unavailable"}
