"""What a person has to know: each condition is named, stops only its partition, and ends when its cause ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from reconciler_mirror.lane.partition import Partition, Phase, Tuning
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.lane.start import Starter
from reconciler_mirror.model.lane import Claim, LaneEnd, LaneProgress
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from tests.support.clusters import delete_topic
from tests.support.lanes.cutting_proxy import cutting
from tests.support.lanes.lane_runs import Content, Flow, Lane, UntilControl, caught_up, conditions, fill, has, running
from tests.support.lanes.truth import map_topic

CreateTopic = Callable[..., str]
NOW = int(time.time() * 1000)


def _records(count: int, size: int = 50) -> list[Content]:
    return [(b"%d" % i, b"v" * size, (), NOW) for i in range(count)]


@pytest.fixture
def flow(plain: Sandbox, unique: str) -> Flow:
    return Flow(plain["east"], plain["west"], unique, 2)


def _both(flow: Flow, create_topic: CreateTopic, **target: str) -> None:
    create_topic(flow.source, flow.topic, 2)
    create_topic(flow.target, flow.remote, 2, **target)
    map_topic(flow.target)


def _configure(cluster: ClusterHandle, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient(cluster.super_client())
    admin.incremental_alter_configs([resource])[resource].result(20)


def _copied(partition: int, position: int) -> Callable[[LaneProgress], bool]:
    return lambda progress: any(
        p.partition == partition and p.position is not None and p.position >= position for p in progress.partitions
    )


def test_a_batch_above_the_targets_limit_is_split(flow: Flow, create_topic: CreateTopic) -> None:
    _both(flow, create_topic, max_message_bytes="20000")
    fill(flow.source, flow.topic, _records(2000), compression_type="none", linger_ms=100)
    report, _ = flow.run(batch_path)
    assert report.progress.conditions == ()
    assert flow.target_content() == flow.source_content()


def test_a_record_above_the_targets_limit_stops_its_partition_until_the_limit_is_raised(
    flow: Flow, create_topic: CreateTopic
) -> None:
    _both(flow, create_topic, max_message_bytes="20000")
    fill(flow.source, flow.topic, [*_records(10), (b"big", b"x" * 50_000, (), NOW), *_records(10)], linger_ms=50)
    fill(flow.source, flow.topic, _records(300), 1)
    stopped = has("record_refused")

    def both_seen(progress: LaneProgress) -> bool:
        return stopped(progress) and _copied(0, 10)(progress) and _copied(1, 300)(progress)

    report, _ = flow.run(batch_path, both_seen)
    (condition,) = report.progress.conditions
    assert condition.stops
    assert (condition.topic, condition.partition) == (flow.topic, 0)
    assert "max.message.bytes" in condition.todo
    [waits] = [p.waiting_since_ms for p in report.progress.partitions if p.partition == 0]
    assert waits == NOW, "a stopped partition falls behind, and how long is told"
    assert len(flow.target_content()[0]) == 10
    _configure(flow.target, flow.remote, "max.message.bytes", "1000000")
    report, _ = flow.run(batch_path)
    assert report.progress.conditions == ()
    assert flow.target_content() == flow.source_content()


def test_a_refused_record_is_one_condition_until_it_goes_through_or_its_position_moves(
    flow: Flow, create_topic: CreateTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again and again, and each time it passes the look before copying."""
    monkeypatch.setattr("reconciler_mirror.lane.run.Tuning", partial(Tuning, retry_stopped=0.2))
    _both(flow, create_topic, max_message_bytes="20000")
    big = (b"big", b"x" * 50_000, (), NOW)
    fill(flow.source, flow.topic, [*_records(10), big, *_records(10), big, *_records(10)], linger_ms=50)
    lane, refused, tries = Lane(flow.lane()), has("record_refused"), threading.Semaphore(0)
    look = Starter.add

    def counted(starter: Starter, partition: Partition) -> None:
        if partition.hold.phase is Phase.STOPPED:
            tries.release()
        look(starter, partition)

    monkeypatch.setattr(Starter, "add", counted)
    with running(lane):
        lane.until(lambda p: refused(p) and _copied(0, 10)(p))
        begun = len(lane.control.reports) - 1
        assert all(tries.acquire(timeout=60) for _ in range(4))
        assert all(map(refused, lane.control.reports[begun:])), "one condition, however often it is tried"
        until = time.monotonic() + 60
        while not _copied(0, 21)(lane.control.reports[-1]):  # what is tried just now may commit its own position again
            assert time.monotonic() < until
            if flow.position(0).offset < 11:  # later, it would go back to what is copied
                flow.set_position(11)
            time.sleep(1)
        lane.until(lambda p: "source offset 21" in str(p.conditions))
        _configure(flow.target, flow.remote, "max.message.bytes", "1000000")
        told = lane.until(_copied(0, 32))
    assert told.conditions == ()
    assert len(flow.target_content()[0]) == 31, "all but the one that was passed over by hand"


@pytest.mark.parametrize(
    ("target", "bad", "mended"),
    [
        ({"cleanup_policy": "compact"}, (None, b"no key", (), NOW), ("cleanup.policy", "delete")),
        (
            {"message_timestamp_before_max_ms": "3600000"},
            (b"k", b"too old", (), NOW - 86_400_000),
            ("message.timestamp.before.max.ms", "9223372036854775807"),
        ),
    ],
    ids=["no key in a compacted topic", "too old"],
)
def test_a_refused_record_in_a_batch_is_found_and_only_what_is_behind_it_waits(
    target: dict[str, str],
    bad: Content,
    mended: tuple[str, str],
    flow: Flow,
    create_topic: CreateTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reconciler_mirror.lane.run.Tuning", partial(Tuning, retry_stopped=0.5))
    _both(flow, create_topic, **target)
    fill(flow.source, flow.topic, [*_records(10), bad, *_records(200)], linger_ms=100, compression_type="lz4")
    fill(flow.source, flow.topic, _records(5), 1)
    lane = Lane(flow.lane())
    with running(lane):
        told = lane.until(lambda p: has("record_refused")(p) and _copied(0, 10)(p) and _copied(1, 5)(p))
        [condition] = told.conditions
        assert (condition.topic, condition.partition, condition.stops) == (flow.topic, 0, True)
        assert "the record at source offset 10" in condition.text
        assert flow.position(0).offset == 10
        _configure(flow.target, flow.remote, *mended)
        lane.until(_copied(0, 211))
        fill(flow.source, flow.topic, _records(300), linger_ms=100, compression_type="lz4")
        told = lane.until(_copied(0, 511))
    assert told.conditions == ()
    assert {p.path for p in told.partitions} == {"batch"}, "whole batches again"
    assert flow.target_content() == flow.source_content()


def test_a_missing_target_topic_is_waited_for(flow: Flow, create_topic: CreateTopic) -> None:
    create_topic(flow.source, flow.topic, 2)
    fill(flow.source, flow.topic, _records(100))
    lane = flow.lane()
    control = UntilControl(lane.partitions, caught_up)
    thread = threading.Thread(target=batch_path, args=(lane, control))
    thread.start()
    try:
        until = time.monotonic() + 20
        while not any(has("target_topic_missing")(report) for report in control.reports):
            assert time.monotonic() < until
            time.sleep(0.1)
        create_topic(flow.target, flow.remote, 2)
    finally:
        thread.join(60)
    assert control.finished
    assert flow.target_content() == flow.source_content()


def test_a_smaller_target_topic_stops_only_what_it_lacks(flow: Flow, create_topic: CreateTopic) -> None:
    create_topic(flow.source, flow.topic, 2)
    create_topic(flow.target, flow.remote, 1)
    for partition in range(2):
        fill(flow.source, flow.topic, _records(20), partition)
    flow.run(batch_path, lambda p: has("target_topic_smaller")(p) and _copied(0, 20)(p))


def test_retention_past_the_position_counts_the_lost_offsets(flow: Flow, create_topic: CreateTopic) -> None:
    _both(flow, create_topic)
    fill(flow.source, flow.topic, _records(50))
    flow.run(batch_path)
    fill(flow.source, flow.topic, _records(200))
    admin, until = AdminClient(flow.source.super_client()), TopicPartition(flow.topic, 0, 180)
    admin.delete_records([until])[until].result(20)
    report, _ = flow.run(batch_path, has("source_retention_passed"))
    assert "130 offsets" in report.progress.conditions[0].text
    flow.set_position(180)
    flow.run(batch_path)
    assert len(flow.target_content()[0]) == 50 + 70


def test_a_position_beyond_the_source_is_a_truncation(flow: Flow, create_topic: CreateTopic) -> None:
    _both(flow, create_topic)
    fill(flow.source, flow.topic, _records(50))
    flow.set_position(60)
    flow.run(batch_path, has("source_truncated"))
    assert flow.target_content()[0] == []


def test_a_recreated_source_topic_is_not_mixed_with_the_old_one(flow: Flow, create_topic: CreateTopic) -> None:
    _both(flow, create_topic)
    fill(flow.source, flow.topic, _records(50))
    flow.run(batch_path)
    delete_topic(flow.source, flow.topic)
    create_topic(flow.source, flow.topic, 2)
    fill(flow.source, flow.topic, _records(500))
    flow.run(batch_path, has("source_topic_recreated"))
    assert len(flow.target_content()[0]) == 50
    for partition in range(2):
        flow.set_position(0, partition)
    flow.run(batch_path)
    assert len(flow.target_content()[0]) == 550


def test_a_source_topic_recreated_under_a_running_lane_is_noticed(flow: Flow, create_topic: CreateTopic) -> None:
    _both(flow, create_topic)
    fill(flow.source, flow.topic, _records(50))
    lane = flow.lane()
    control = UntilControl(
        lane.partitions, lambda p: has("source_topic_recreated")(p) or has("source_topic_deleted")(p)
    )
    thread = threading.Thread(target=batch_path, args=(lane, control))
    thread.start()
    try:
        until = time.monotonic() + 20
        while not (control.reports and caught_up(control.reports[-1])):
            assert time.monotonic() < until
            time.sleep(0.1)
        delete_topic(flow.source, flow.topic)
        create_topic(flow.source, flow.topic, 2)
        fill(flow.source, flow.topic, _records(500))
    finally:
        thread.join(60)
    assert control.finished
    assert len(flow.target_content()[0]) == 50, conditions(control.reports)


def test_a_recreated_topic_is_copied_by_the_running_lane_once_its_positions_are_moved(
    flow: Flow, create_topic: CreateTopic
) -> None:
    _both(flow, create_topic)
    lane, moved = flow.lane(), threading.Event()
    control = UntilControl(
        lane.partitions,
        lambda p: moved.is_set() and {q.partition: q.position for q in p.partitions} == {0: 20, 1: 20},
        seconds=240,
    )
    thread = threading.Thread(target=batch_path, args=(lane, control))

    def wait_for(seen: Callable[[LaneProgress], bool]) -> None:
        until = time.monotonic() + 120
        while not (control.reports and seen(control.reports[-1])):
            assert time.monotonic() < until, conditions(control.reports)
            time.sleep(0.1)

    for partition in range(2):
        fill(flow.source, flow.topic, _records(50), partition)
    thread.start()
    try:
        wait_for(caught_up)
        control.specs = ()  # as discovery tells of a deleted topic
        wait_for(lambda p: not p.partitions)
        delete_topic(flow.source, flow.topic)
        create_topic(flow.source, flow.topic, 2)
        for partition in range(2):
            fill(flow.source, flow.topic, _records(20), partition)
        control.specs = flow.specs()
        wait_for(lambda p: [c.code for c in p.conditions] == ["source_topic_recreated"] * 2)
        for partition in range(2):
            flow.set_position(0, partition)
        moved.set()
    finally:
        thread.join(120)
    assert control.finished, conditions(control.reports)
    assert [len(flow.target_content()[partition]) for partition in range(2)] == [70, 70]


def test_start_latest_survives_a_restart_before_the_first_record(flow: Flow, create_topic: CreateTopic) -> None:
    _both(flow, create_topic)
    fill(flow.source, flow.topic, _records(50))
    flow.run(batch_path, start_kind="latest")
    fill(flow.source, flow.topic, _records(7))
    flow.run(batch_path, start_kind="latest")
    assert len(flow.target_content()[0]) == 7


def test_start_at_a_timestamp(flow: Flow, create_topic: CreateTopic) -> None:
    _both(flow, create_topic)
    fill(flow.source, flow.topic, [(b"%d" % i, b"v", (), NOW - 1000 + i) for i in range(100)], batch_num_messages=10)
    flow.run(batch_path, start_kind="timestamp", start_timestamp_ms=NOW - 1000 + 60)
    assert flow.target_content()[0] == flow.source_content()[0][60:]


def test_a_later_claim_is_never_fought(flow: Flow, create_topic: CreateTopic) -> None:
    _both(flow, create_topic)
    fill(flow.source, flow.topic, _records(50))
    flow.run(batch_path, claim=Claim(2, "new"))
    lane = flow.lane(claim=Claim(1, "old"))
    report = batch_path(lane, UntilControl(lane.partitions, caught_up, 20))
    assert report.end is LaneEnd.SUPERSEDED


def test_a_transaction_that_stays_open_at_the_source_is_reported_until_it_ends(
    flow: Flow, create_topic: CreateTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows it cannot be read, so no lag counts it."""
    monkeypatch.setattr("reconciler_mirror.lane.fetch.open_transactions.OPEN_AFTER", 1.0)
    _both(flow, create_topic)
    fill(flow.source, flow.topic, _records(20))
    fill(flow.source, flow.topic, _records(20), 1)
    hanging = Producer({**flow.source.super_client(), "transactional.id": flow.topic})
    hanging.init_transactions(30)
    hanging.begin_transaction()
    hanging.produce(flow.topic, b"undecided", partition=0)
    assert hanging.flush(30) == 0
    fill(flow.source, flow.topic, _records(7))
    fill(flow.source, flow.topic, _records(5), 1)
    lane = Lane(flow.lane())
    with running(lane):
        told = lane.until(lambda p: has("source_transaction_open")(p) and _copied(0, 20)(p) and _copied(1, 25)(p))
        [condition] = told.conditions
        assert (condition.topic, condition.partition, condition.stops) == (flow.topic, 0, False)
        assert "not copied further than source offset 20" in condition.text
        assert "8 offsets so far" in condition.text
        assert caught_up(told), "there is no lag"
        hanging.commit_transaction(30)
        told = lane.until(_copied(0, 29))
    assert told.conditions == ()
    assert flow.target_content() == flow.source_content()


def test_a_source_whose_answers_drip_is_reported_and_its_lag_is_unknown_until_it_is_back(
    flow: Flow, create_topic: CreateTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte kept the request alive once, and the partitions stood without a word, with a lag of 0."""
    for place, seconds in {
        "lane.fetch.fetcher.ANSWER_WITHIN": 1.0,
        "lane.progress.SILENT_S": 3.0,
        "lane.progress.POLL_S": 0.5,
        "lane.start.REPORT_AFTER": 1.0,
    }.items():
        monkeypatch.setattr(f"reconciler_mirror.{place}", seconds)
    monkeypatch.setattr("reconciler.kafka.client.cluster.ANSWER_WITHIN", 1.0)
    _both(flow, create_topic)
    fill(flow.source, flow.topic, _records(10))
    with cutting(flow.source.brokers[0].port) as (address, wishes):
        slow = {**flow.source.super_client(), "bootstrap.servers": address, "socket.timeout.ms": "1000"}
        lane = Lane(replace(flow, clients=(slow, flow.target.super_client())).lane())
        with running(lane):
            assert all(row.silent_since_ms is None for row in lane.until(caught_up).partitions)
            wishes.dripping = True
            fill(flow.source, flow.topic, _records(20))

            def told(progress: LaneProgress) -> bool:
                silent = all(row.silent_since_ms is not None for row in progress.partitions)
                return silent and has("source_unreachable")(progress)

            lane.until(told)
            wishes.dripping = False
            known = lane.until(lambda now: _copied(0, 30)(now) and not now.conditions)
            assert all(row.silent_since_ms is None for row in known.partitions)
    assert flow.target_content() == flow.source_content()


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_an_open_transaction_of_a_stranger_in_a_copy_is_reported_until_it_ends(
    flow: Flow, create_topic: CreateTopic, delivery: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copying goes on and the lag is 0, but readers of committed records get nothing of it."""
    monkeypatch.setattr("reconciler_mirror.lane.transactional.POSITIONS_EVERY", 0.2)
    monkeypatch.setattr("reconciler_mirror.lane.fetch.open_transactions.OPEN_AFTER", 1.0)
    _both(flow, create_topic)
    fill(flow.source, flow.topic, _records(20))
    stranger = Producer({**flow.target.super_client(), "transactional.id": f"{flow.topic}-stranger"})
    stranger.init_transactions(30)
    with running(Lane(flow.lane(delivery=delivery))) as lane:
        lane.until(_copied(0, 20))
        stranger.begin_transaction()
        stranger.produce(flow.remote, b"strange", partition=0)
        assert stranger.flush(30) == 0
        fill(flow.source, flow.topic, _records(5))
        told = lane.until(lambda progress: has("target_transaction_open")(progress) and _copied(0, 25)(progress))
        [condition] = told.conditions
        assert (condition.topic, condition.partition, condition.stops) == (flow.topic, 0, False)
        assert f"abort --topic {flow.remote} --partition 0 --start-offset " in condition.todo
        assert caught_up(told)
        stranger.abort_transaction(30)
        lane.until(lambda progress: caught_up(progress) and not progress.conditions)
    assert [len(records) for records in flow.target_content().values()] == [25, 0]
