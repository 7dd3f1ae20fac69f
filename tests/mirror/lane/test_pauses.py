"""A paused partition: what was copied is committed, nothing more is fetched, the end goes on being told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_mirror.lane import session
from reconciler_mirror.lane.positions import decode, encode, hour_now
from reconciler_mirror.model.lane import LaneEnd, LaneProgress, PartitionProgress
from reconciler_sandbox.handles import Sandbox

from tests.support.lanes.lane_runs import Content, Flow, Lane, fill, has, running
from tests.support.waiting import until

CreateTopic = Callable[..., str]
NOW = int(time.time() * 1000)


def _records(count: int) -> list[Content]:
    return [(b"%d" % i, b"v" * 50, (), NOW) for i in range(count)]


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: CreateTopic) -> Flow:
    made = Flow(plain["east"], plain["west"], unique, 2)
    create_topic(made.source, made.topic, 2, retention_ms="-1")
    create_topic(made.target, made.remote, 2, retention_ms="-1")
    return made


def part(progress: LaneProgress, number: int) -> PartitionProgress:
    return next(p for p in progress.partitions if p.partition == number)


def at(number: int, position: int) -> Callable[[LaneProgress], bool]:
    return lambda progress: any(p.partition == number and p.position == position for p in progress.partitions)


def paused(number: int) -> Callable[[LaneProgress], bool]:
    return lambda progress: any(p.partition == number and p.paused for p in progress.partitions)


def test_a_paused_partition_stays_and_its_lag_grows_while_the_other_continues(flow: Flow) -> None:
    for number in range(2):
        fill(flow.source, flow.topic, _records(100), number)
    with running(Lane(flow.lane())) as lane:
        lane.until(lambda p: at(0, 100)(p) and at(1, 100)(p))
        lane.control.left_alone = frozenset({(flow.topic, 0)})
        lane.until(paused(0))
        for number in range(2):
            fill(flow.source, flow.topic, _records(30), number)
        told = lane.until(lambda p: at(1, 130)(p) and part(p, 0).end == 130)
        assert part(told, 0).position == 100
        assert part(told, 0).waiting_since_ms is not None
        assert not part(told, 1).paused
        assert flow.position(0).offset == 100
        assert len(flow.target_content()[0]) == 100
        lane.control.left_alone = frozenset()
        told = lane.until(at(0, 130))
        assert not part(told, 0).paused
        assert part(told, 0).records == 130
        assert lane.stop().end is LaneEnd.STOPPED
    assert flow.target_content() == flow.source_content()


def test_a_lane_that_begins_paused_copies_nothing_and_follows_a_position_that_is_moved_meanwhile(
    flow: Flow,
) -> None:
    fill(flow.source, flow.topic, _records(100))
    with running(Lane(flow.lane(paused=frozenset({(flow.topic, 0), (flow.topic, 1)})))) as lane:
        told = lane.until(lambda p: paused(0)(p) and paused(1)(p) and part(p, 0).end == 100)
        assert part(told, 0).position == 0
        assert flow.target_content()[0] == []
        flow.set_position(60)
        lane.control.left_alone = frozenset({(flow.topic, 1)})
        lane.until(at(0, 100))
    assert flow.target_content()[0] == flow.source_content()[0][60:]


@pytest.mark.parametrize("same", [False, True])
def test_positions_of_paused_partitions_are_written_again_as_they_are_now(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, *, same: bool
) -> None:
    """The target forgets what nobody wrote for a week, and a pause may last longer. A seek of the pause holds."""
    monkeypatch.setattr(session, "METADATA_EVERY", 0.1)
    monkeypatch.setattr(session, "RENEW_EVERY", 0.5)
    fill(flow.source, flow.topic, _records(10))
    with running(Lane(flow.lane(keeps_offsets=same))) as lane:
        lane.until(at(0, 10))
        lane.control.left_alone = frozenset({(flow.topic, 0)})
        lane.until(paused(0))
        key = (flow.remote, 0)
        known = decode(key, 10, flow.position().metadata)
        sought = replace(known, offset=10 if same else 6, topic_id=known.topic_id if same else "")
        flow.set_position(sought.offset, metadata=encode(key, replace(sought, hour=hour_now() - 200)))
        until(lambda: decode(key, flow.position().offset, flow.position().metadata).hour >= sought.hour)
        assert flow.position().offset == sought.offset
        lane.until(paused(0))
        lane.control.left_alone = frozenset()
        fill(flow.source, flow.topic, _records(5))
        lane.until(at(0, 15))
    assert flow.target_content()[0] == [*flow.source_content()[0][:10], *flow.source_content()[0][sought.offset :]]


def test_pausing_under_load_commits_what_is_open_and_loses_nothing(flow: Flow) -> None:
    fill(flow.source, flow.topic, _records(60_000), linger_ms=20)
    fill(flow.source, flow.topic, _records(60_000), 1, linger_ms=20)
    with running(Lane(flow.lane())) as lane:
        for round_ in range(6):
            time.sleep(0.1)
            wished = {0, 1} if round_ % 2 == 0 else {round_ % 4 // 2}
            lane.control.left_alone = frozenset((flow.topic, number) for number in wished)
            told = lane.until(
                lambda p: {(flow.topic, q.partition) for q in p.partitions if q.paused} >= lane.control.left_alone
            )
            for number in wished:
                position = part(told, number).position  # None: paused before it began, perhaps with a first position
                assert flow.position(number).offset in ({-1, 0} if position is None else {position})
        lane.control.left_alone = frozenset()
        lane.until(lambda p: at(0, 60_000)(p) and at(1, 60_000)(p))
    assert flow.target_content() == flow.source_content()


def test_what_is_lost_during_a_pause_is_reported_during_the_pause(flow: Flow, plain: Sandbox) -> None:
    fill(flow.source, flow.topic, _records(100))
    with running(Lane(flow.lane(paused=frozenset({(flow.topic, 0)})))) as lane:
        lane.until(lambda p: paused(0)(p) and part(p, 0).end == 100)  # before, it has no position to lose
        admin, until = AdminClient(flow.source.super_client()), TopicPartition(flow.topic, 0, 40)
        admin.delete_records([until])[until].result(20)
        told = lane.until(has("source_retention_passed"))
        assert part(told, 0).paused
