"""A lane from its first position to the application that takes its place, on real brokers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_mirror.lane import run, session, transactional
from reconciler_mirror.lane.positions import LanePosition, decode, encode, hour_now
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.lane.state import LaneCounts, RestartError
from reconciler_mirror.model.lane import Claim, LaneEnd, LaneProgress
from reconciler_sandbox.handles import Sandbox

from reconciler.kafka.client import small_topics
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.protocol import fetch
from reconciler.kafka.protocol.groups.group_offsets import GroupOffsets
from tests.support.lanes.lane_runs import Content, Flow, Lane, UntilControl, caught_up, fill, has, producer, running
from tests.support.lanes.positions import committed
from tests.support.waiting import until

CreateTopic = Callable[..., str]
NOW = int(time.time() * 1000)
UNDECIDED = "positions_undecided"


def _records(count: int) -> list[Content]:
    return [(b"%d" % i, b"v" * 50, (), NOW) for i in range(count)]


def _made(plain: Sandbox, create_topic: CreateTopic, topic: str, partitions: int = 2) -> Flow:
    made = Flow(plain["east"], plain["west"], topic, partitions)
    create_topic(made.source, made.topic, partitions, retention_ms="-1")
    create_topic(made.target, made.remote, partitions, retention_ms="-1")
    return made


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: CreateTopic) -> Flow:
    return _made(plain, create_topic, unique)


def _copied(count: int) -> Callable[[LaneProgress], bool]:
    return lambda progress: caught_up(progress) and sum(p.records for p in progress.partitions) == count


def test_a_trickle_is_committed_record_by_record(flow: Flow) -> None:
    with running(Lane(flow.lane())) as lane:
        lane.until(caught_up)
        writer = producer(flow.source, linger_ms=0)
        for number in range(5):
            writer.produce(flow.topic, b"one", partition=0)
            writer.flush()
            lane.until(_copied(number + 1))
        assert lane.stop().progress.transactions >= 5


def test_positions_of_idle_partitions_are_written_again(flow: Flow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a day: the target forgets what nobody wrote for a week. What another client wrote meanwhile goes with it."""
    monkeypatch.setattr(session, "METADATA_EVERY", 0.1)
    monkeypatch.setattr(session, "RENEW_EVERY", 0.5)
    monkeypatch.setattr(transactional, "POSITIONS_EVERY", 1000.0)  # else it may be noticed first
    fill(flow.source, flow.topic, _records(10))
    with running(Lane(flow.lane())) as lane:
        lane.until(_copied(10))
        flow.set_position(3, metadata="")
        end = time.monotonic() + 20
        while flow.position().offset != 10:
            assert time.monotonic() < end, flow.position()
            time.sleep(0.05)


def test_partitions_join_and_leave_while_it_runs(
    flow: Flow, plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    second = _made(plain, create_topic, f"{unique}-second", 1)
    fill(flow.source, flow.topic, _records(100))
    fill(second.source, second.topic, _records(100))
    with running(Lane(flow.lane())) as lane:
        lane.until(_copied(100))
        lane.control.specs = (*flow.specs(), *second.specs())
        lane.until(_copied(200))
        lane.control.specs = second.specs()
        lane.until(lambda p: [q.topic for q in p.partitions] == [second.topic])
        fill(flow.source, flow.topic, _records(10))
        fill(second.source, second.topic, _records(10))
        lane.until(_copied(110))
    assert len(flow.target_content()[0]) == 100
    assert second.target_content() == second.source_content()


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_partition_that_leaves_while_it_is_started_is_neither_fetched_nor_committed_any_more(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, *, comes_back: bool
) -> None:
    """A topic that is recreated leaves and joins again; each broker's answer about the former one may come later."""
    fill(flow.source, flow.topic, _records(10))
    leaving, gone, bounds = threading.Event(), threading.Event(), small_topics.log_bounds
    fetched: list[float] = []

    async def late(*arguments: Any, **more: Any) -> Any:
        answer = await bounds(*arguments, **more)
        if answer:
            leaving.set()
        while answer and not gone.is_set():
            await asyncio.sleep(0.01)
        return answer

    def packed(*arguments: Any) -> Any:
        fetched.append(time.monotonic())
        return pack(*arguments)

    pack = fetch.pack
    monkeypatch.setattr(small_topics, "log_bounds", late)
    monkeypatch.setattr(fetch, "pack", packed)
    with running(Lane(flow.lane())) as lane:
        assert leaving.wait(30)
        specs = lane.control.specs
        lane.control.specs = ()
        lane.until(lambda p: p.partitions == ())
        if comes_back:
            lane.control.specs = specs
            lane.until(lambda p: len(p.partitions) == len(specs))
        gone.set()
        if comes_back:
            lane.until(_copied(10))
            fill(flow.source, flow.topic, _records(10))
            lane.until(_copied(20))
            time.sleep(1)
            fetched.clear()
        time.sleep(3)
        assert len(fetched) < 20, "nothing is asked for again and again that is thrown away"
    if comes_back:
        assert flow.target_content() == flow.source_content()


@pytest.mark.parametrize("same", [False, True])
def test_a_copy_whose_broker_is_away_does_not_hold_up_the_start_of_another(
    ha: Sandbox, unique: str, create_topic: CreateTopic, *, same: bool
) -> None:
    flow = Flow(ha["east"], ha["west"], unique, 2)
    create_topic(flow.source, flow.topic, 2, retention_ms="-1")
    topic = NewTopic(flow.remote, 2, replica_assignment=[[1], [2]], config={"retention.ms": "-1"})
    admin = AdminClient(flow.target.super_client())
    admin.create_topics([topic])[flow.remote].result(30)
    for number in range(2):
        fill(flow.source, flow.topic, _records(10), number)
    flow.target.stop(1)
    with running(Lane(flow.lane(keeps_offsets=same))) as lane:
        try:
            told = lane.until(lambda p: _copied_of(p, 1) == 10 and has("target_unavailable")(p), 90)
            assert {(c.code, c.partition) for c in told.conditions} >= {("target_unavailable", 0)}
            assert _copied_of(told, 0) == 0
        finally:
            flow.target.start(1)
        lane.until(_copied(20), 90)
    assert flow.target_content() == flow.source_content()


def _copied_of(progress: LaneProgress, number: int) -> int:
    return sum(p.records for p in progress.partitions if p.partition == number)


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_later_application_ends_a_running_lane(flow: Flow, delivery: str) -> None:
    lane = flow.lane(delivery=delivery)
    with running(Lane(lane)) as first:
        first.until(caught_up)
        with running(Lane(replace(lane, claim=Claim(2, "two")))) as second:
            second.until(caught_up)
            fill(flow.source, flow.topic, _records(500))
            assert first.end().end is LaneEnd.SUPERSEDED
            second.until(_copied(500))
    late = batch_path(lane, UntilControl(lane.partitions, lambda _: False))
    assert late.end is LaneEnd.SUPERSEDED
    copied, source = flow.target_content()[0], flow.source_content()[0]
    if delivery == "exactly_once":
        assert copied == source
    assert list(dict.fromkeys(copied)) == source, "what two copied at once may stand there twice"


def test_a_consumer_in_the_group_of_positions_costs_one_copy_at_most_and_is_said(flow: Flow) -> None:
    """Brokers refuse commits of others while a group has members. Each session would copy the same records again."""
    fill(flow.source, flow.topic, _records(100))
    lane = flow.lane(delivery="at_least_once")
    flow.run(batch_path, delivery="at_least_once")
    settings = {"group.id": lane.group, "enable.auto.commit": False, "session.timeout.ms": 6000}
    with closing(Consumer({**flow.target.super_client(), **settings})) as consumer:
        consumer.subscribe([flow.remote])
        until(lambda: (consumer.poll(0.2), consumer.assignment())[1] != [], 60)
        fill(flow.source, flow.topic, _records(50))
        for _ in range(3):
            ended = batch_path(lane, UntilControl(lane.partitions, lambda _: False))
            assert ended.end is LaneEnd.FAILED
            [condition] = [each for each in ended.progress.conditions if each.code == "lane_failed"]
            assert f"another consumer is a member of group {lane.group}" in condition.text
            consumer.poll(0)
        assert len(flow.target_content()[0]) == 100, "nothing is copied that cannot be committed"
    flow.run(batch_path, delivery="at_least_once")
    assert flow.target_content() == flow.source_content()


@pytest.mark.parametrize("written", [False, True], ids=["taken", "with records of its own"])
def test_a_stranger_that_takes_the_transactional_id_is_said_and_costs_nothing(flow: Flow, *, written: bool) -> None:
    fill(flow.source, flow.topic, _records(100))
    stranger = producer(flow.target, transactional_id=flow.lane().transactional_id)
    with running(Lane(flow.lane())) as lane:
        lane.until(caught_up)
        stranger.init_transactions(30)
        if written:
            stranger.begin_transaction()
            stranger.produce(flow.remote, b"strange")
            stranger.flush(30)
        fill(flow.source, flow.topic, _records(50))
        ended = lane.end()
    assert ended.end is LaneEnd.FAILED
    [condition] = ended.progress.conditions
    assert (condition.code, condition.stops) == ("lane_failed", True)
    assert f"another client than the mirror has taken its transactional.id mirror.{flow.topic}.0" in condition.text
    report, _ = flow.run(batch_path)
    assert report.progress.conditions == ()
    assert flow.target_content() == flow.source_content()


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_start_is_committed_before_the_first_record(flow: Flow, delivery: str) -> None:
    fill(flow.source, flow.topic, _records(20))
    flow.run(batch_path, start_kind="latest", delivery=delivery)
    held = flow.position()
    found = decode((flow.remote, 0), held.offset, held.metadata.rstrip("\0"))
    assert (found.offset, found.claim) == (20, Claim(1, "test"))


@pytest.mark.parametrize("loaded", ["old", "nothing"])
def test_a_new_session_writes_nothing_before_the_coordinator_reports_what_was_committed(
    flow: Flow, loaded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator that still loads its log answers, and would stop at the first write, with all of its groups."""
    fill(flow.source, flow.topic, _records(20))
    happened: list[str] = []
    read, start, commit = GroupClient.offsets, Identity.start, transactional.Committer.commit

    async def loading(client: GroupClient, groups: list[str]) -> dict[str, GroupOffsets]:
        happened.append("asked")
        answer = await read(client, groups)
        if happened.count("asked") > 3:
            return answer
        old = {key: replace(at, offset=7, metadata=_old(key)) for key, at in answer[groups[0]].offsets.items()}
        return {groups[0]: GroupOffsets(old if loaded == "old" else {}, 0)}

    def _old(key: tuple[str, int]) -> str:
        [spec, _] = flow.specs()
        return encode(key, LanePosition(7, spec.topic_id, 0, Claim(1, "test")))

    async def started(identity: Identity, former: Identity | None = None) -> None:
        happened.append("started")
        await start(identity, former)

    async def committed_once(committer: transactional.Committer) -> None:
        await commit(committer)
        if "asked" not in happened and committer._lane.known[flow.topic, 0][0] == 20:
            raise RestartError("the broker went away")

    monkeypatch.setattr(GroupClient, "offsets", loading)
    monkeypatch.setattr(Identity, "start", started)
    monkeypatch.setattr(transactional.Committer, "commit", committed_once)
    monkeypatch.setattr(run, "REPORT_AFTER", 0.0)
    _, control = flow.run(batch_path, lambda progress: happened.count("started") == 2 and _copied(20)(progress))
    assert happened == ["started", *["asked"] * 4, "started"]
    [waited] = {each.text for report in control.reports for each in report.conditions if each.code == UNDECIDED}
    assert "lane 0 of" in waited
    assert "older than what had been committed, or none" in waited
    assert flow.target_content() == flow.source_content()


def test_a_later_attempt_of_a_lease_counts_on(flow: Flow) -> None:
    told: list[LaneProgress] = []
    path = partial(batch_path, counts=LaneCounts())
    for _ in range(2):
        fill(flow.source, flow.topic, _records(50))
        report, control = flow.run(path, flow.at_end())
        told += [control.reports[0], report.progress]
    first, second = told[1], told[3]
    assert [sum(each.records for each in progress.partitions) for progress in (first, second)] == [50, 100]
    assert first.transactions < second.transactions
    assert first.latency.count < second.latency.count
    assert told[2].transactions >= first.transactions, "the driver takes a count that goes back for an older report"


# what an earlier release left at the target


def _written_by_librdkafka(flow: Flow, moved: dict[int, LanePosition], delivery: str) -> None:
    """Positions as a mirror that copied with librdkafka committed them."""
    settings = {**flow.target.super_client(), "group.id": f"mirror.{flow.topic}", "enable.auto.commit": False}
    offsets = [committed(flow.remote, number, position) for number, position in moved.items()]
    with closing(Consumer(settings)) as group:
        if delivery == "at_least_once":
            group.commit(offsets=offsets, asynchronous=False)
            return
        writer = Producer({**flow.target.super_client(), "transactional.id": f"mirror.{flow.topic}.0"})
        writer.init_transactions(30)
        writer.begin_transaction()
        writer.send_offsets_to_transaction(offsets, group.consumer_group_metadata(), 30)
        writer.commit_transaction(30)


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_positions_that_librdkafka_wrote_are_gone_on_from(flow: Flow, delivery: str) -> None:
    for partition in range(2):
        fill(flow.source, flow.topic, _records(300), partition, compression_type="lz4")
    [spec, _] = flow.specs()
    old = LanePosition(120, spec.topic_id, 0, Claim(1, "test"), hour_now())
    _written_by_librdkafka(flow, {0: old, 1: replace(old, offset=300, leader_epoch=-1)}, delivery)
    report, _ = flow.run(batch_path, delivery=delivery)
    assert report.end is LaneEnd.STOPPED, report
    assert report.progress.conditions == ()
    assert [len(records) for records in flow.target_content().values()] == [180, 0]
    assert flow.target_content()[0] == flow.source_content()[0][120:]


def test_a_later_claim_that_librdkafka_wrote_is_not_fought(flow: Flow) -> None:
    [spec, _] = flow.specs()
    _written_by_librdkafka(flow, {0: LanePosition(0, spec.topic_id, 0, Claim(2, "two"), hour_now())}, "exactly_once")
    lane = flow.lane()
    assert batch_path(lane, UntilControl(lane.partitions, caught_up, 20)).end is LaneEnd.SUPERSEDED


def test_librdkafka_reads_the_positions_of_a_lane(flow: Flow) -> None:
    """``verify`` of an earlier release does, that somebody goes back to."""
    fill(flow.source, flow.topic, _records(300))
    flow.run(batch_path)
    settings = {**flow.target.super_client(), "group.id": f"mirror.{flow.topic}", "isolation.level": "read_committed"}
    with closing(Consumer(settings)) as group:
        [held] = group.committed([TopicPartition(flow.remote, 0)], timeout=20)
    found = decode((flow.remote, 0), held.offset, held.metadata)
    assert (found.offset, found.claim, found.topic_id) == (300, Claim(1, "test"), flow.specs()[0].topic_id)
