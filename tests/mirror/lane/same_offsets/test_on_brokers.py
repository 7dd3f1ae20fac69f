"""A lane that keeps offsets, on real brokers: both sides equal, offset by offset."""

from __future__ import annotations

import itertools
import os
import pickle
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType
from reconciler_mirror.lane.positions import LanePosition, SameOffsetsPosition, encode
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import Claim, LaneEnd, LaneProgress
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from tests.support.clusters import delete_topic
from tests.support.lanes.lane_runs import Flow, Lane, conditions, has, producer, running
from tests.support.lanes.load import mixed
from tests.support.lanes.truth import assert_equal, ends, map_topic, records

pytestmark = pytest.mark.timeout(600)  # on a machine that may be busy

CreateTopic = Callable[..., str]
ROUNDS = int(os.environ.get("KILL_ROUNDS", "3"))


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: CreateTopic) -> Flow:
    made = Flow(plain["east"], plain["west"], unique, 2)
    create_topic(made.source, made.topic, 2)
    create_topic(made.target, made.remote, 2)
    return made


def test_a_source_with_aborted_transactions_is_equal_offset_by_offset(flow: Flow) -> None:
    mixed(flow, 15)
    report, control = flow.run(batch_path, keeps_offsets=True)
    assert report.end is LaneEnd.STOPPED, report
    assert_equal(flow)
    assert control.reports[-1].conditions == ()
    mixed(flow, 5, seed=2)
    report, control = flow.run(batch_path, keeps_offsets=True)
    assert report.end is LaneEnd.STOPPED, report
    assert_equal(flow)


def test_a_start_behind_deleted_records_is_filled_and_cut_off(flow: Flow) -> None:
    mixed(flow, 5)
    admin = AdminClient(flow.source.super_client())
    for answer in admin.delete_records([TopicPartition(flow.topic, 0, 37), TopicPartition(flow.topic, 1, 1)]).values():
        answer.result(30)
    report, _ = flow.run(batch_path, keeps_offsets=True)
    assert report.end is LaneEnd.STOPPED, report
    assert_equal(flow)
    deadline = time.monotonic() + 20
    while (begin := _begin(flow)) != 37:
        assert time.monotonic() < deadline, begin
        time.sleep(0.1)


def _begin(flow: Flow) -> int:
    admin = AdminClient(flow.target.super_client())
    place = TopicPartition(flow.remote, 0)
    return int(admin.list_offsets({place: OffsetSpec.earliest()})[place].result(20).offset)


def test_competing_holders_with_sleeps_leave_both_sides_equal(flow: Flow) -> None:
    """Each later one has a higher claim; the former are not told to stop."""
    writing = threading.Thread(target=mixed, args=(flow, 40))
    writing.start()
    rng, lanes = random.Random(5), list[Lane]()
    for claim in range(1, 6):
        lane = Lane(flow.lane(keeps_offsets=True, claim=Claim(claim, f"app {claim}")))
        lane.thread.start()
        lanes.append(lane)
        time.sleep(rng.random() * 1.5)
    writing.join()
    done = flow.at_end()
    lanes[-1].until(done)
    for lane in lanes:
        lane.stop()
    assert_equal(flow)


def test_a_compacted_source_is_equal_offset_by_offset(plain: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    flow = Flow(plain["east"], plain["west"], unique, 2)
    eager = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "100"}
    create_topic(flow.source, flow.topic, 2, **eager, max_compaction_lag_ms="100", file_delete_delay_ms="100")
    create_topic(flow.target, flow.remote, 2)
    mixed(flow, 15)
    until = time.monotonic() + 150
    while len(records(flow.source, flow.topic)) > sum(ends(flow.source, flow.topic)) / 2:
        assert time.monotonic() < until, "the source was never compacted"
        mixed(flow, 1, seed=3)
        time.sleep(1)
    lazy = {"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": str(2**40), "segment.ms": str(2**40)}
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in lazy.items()]
    change = ConfigResource(ResourceType.TOPIC, flow.topic, incremental_configs=entries)
    admin = AdminClient(flow.source.super_client())
    for answer in admin.incremental_alter_configs([change]).values():
        answer.result(20)
    mixed(flow, 1, seed=4)
    time.sleep(1)
    report, _ = flow.run(batch_path, flow.at_end(), keeps_offsets=True)
    assert report.end is LaneEnd.STOPPED, report
    assert_equal(flow)


@pytest.mark.parametrize("killed", ["lanes", pytest.param("target", marks=pytest.mark.long)])
def test_killed_under_load(flow: Flow, tmp_path: Path, killed: str) -> None:
    """Lanes by SIGKILL, and the target's broker, which leads the partitions and coordinates the transactions."""
    enough = threading.Event()
    writing = threading.Thread(target=_mixed_until, args=(enough, flow))
    writing.start()
    try:
        _kill_under_load(flow, tmp_path, killed)
    finally:
        enough.set()
        writing.join()
    report, _ = flow.run(batch_path, flow.at_end(), keeps_offsets=True, claim=Claim(ROUNDS + 1, "last"))
    assert report.end is LaneEnd.STOPPED, report
    assert_equal(flow)


def _mixed_until(enough: threading.Event, flow: Flow) -> None:
    """So that each lane finds something to copy, however long a broker takes to start."""
    for seed in itertools.count(1):
        mixed(flow, 4, seed)
        if enough.wait(0.1):
            return


def _kill_under_load(flow: Flow, tmp_path: Path, killed: str) -> None:
    chance = random.Random(7)
    for claim in range(1, ROUNDS + 1):
        spec = tmp_path / f"lane {claim}"
        spec.write_bytes(pickle.dumps(flow.lane(keeps_offsets=True, claim=Claim(claim, "killed"))))
        lane = subprocess.Popen(
            [sys.executable, "-m", "tests.support.lanes.lane_process", str(spec)], stdout=subprocess.PIPE, text=True
        )
        assert lane.stdout is not None
        copied, give_up = 0, time.monotonic() + 120
        while copied == 0:
            assert time.monotonic() < give_up, f"lane {claim} copies nothing"
            copied = int(lane.stdout.readline().split()[0])
        time.sleep(chance.uniform(0.1, 2.0))
        if killed == "target":
            flow.target.kill()
            flow.target.start()
            time.sleep(chance.uniform(0.1, 2.0))
        lane.kill()
        lane.wait()


def test_a_record_of_others_stops_the_partition_for_good(flow: Flow) -> None:
    mixed(flow, 3)
    flow.run(batch_path, keeps_offsets=True)
    stranger = producer(flow.target)
    stranger.produce(flow.remote, b"mine", partition=0)
    assert stranger.flush(20) == 0
    mixed(flow, 3, seed=2)
    before = ends(flow.target, flow.remote)[0]
    for _ in range(2):  # whoever comes later finds it so too
        report, control = flow.run(batch_path, has("offsets_diverged"), keeps_offsets=True)
        assert report.end is LaneEnd.STOPPED, report
    assert ends(flow.target, flow.remote)[0] == before, "nothing is written behind it"
    (condition,) = [one for one in conditions(control.reports) if one.code == "offsets_diverged"]
    assert (condition.topic, condition.partition, condition.stops) == (flow.topic, 0, True)


def _stranger(flow: Flow, cluster: ClusterHandle, topic: str, timestamp: int) -> None:
    stranger = producer(cluster)
    stranger.produce(topic, b"mine", b"k", 0, timestamp=timestamp)
    assert stranger.flush(20) == 0


def _diverged(told: LaneProgress) -> bool:
    return [(c.code, c.partition) for c in told.conditions] == [("offsets_diverged", 0)]


def test_a_record_of_others_is_reported_before_the_source_writes_again(flow: Flow) -> None:
    """While a lane copies nothing, and at each start; how far it is behind is unknown then. It goes on by itself once
    the source has the same, as a flow the other way brings it there."""
    mixed(flow, 3)
    now, lane = int(time.time() * 1000), Lane(flow.lane(keeps_offsets=True))
    with running(lane):
        lane.until(flow.at_end())
        _stranger(flow, flow.target, flow.remote, now)
        told = lane.until(_diverged)
        assert {p.partition: p.position is None for p in told.partitions} == {0: True, 1: False}
    [condition] = told.conditions
    assert (condition.topic, condition.stops) == (flow.topic, True)
    end = ends(flow.source, flow.topic)[0]
    assert f"it continues to {end + 1}, and the source ends at {end}" in condition.text
    for claim in (2, 3):
        report, _ = flow.run(batch_path, has("offsets_diverged"), keeps_offsets=True, claim=Claim(claim, "again"))
        assert _diverged(report.progress)
    _stranger(flow, flow.source, flow.topic, now)
    mixed(flow, 1, seed=2)
    report, _ = flow.run(batch_path, flow.at_end(), keeps_offsets=True, claim=Claim(4, "again"))
    assert report.progress.conditions == ()
    assert_equal(flow)


def test_a_recreated_source_takes_a_recreated_copy(flow: Flow, create_topic: CreateTopic) -> None:
    """The offsets of the new topic are taken in the old copy, so its advice is no seek, which would end in
    ``offsets_diverged``."""
    mixed(flow, 3)
    flow.run(batch_path, keeps_offsets=True)
    before = ends(flow.target, flow.remote)
    delete_topic(flow.source, flow.topic)
    create_topic(flow.source, flow.topic, 2)
    mixed(flow, 2, seed=2)
    recreated = has("source_topic_recreated")
    report, _ = flow.run(batch_path, recreated, keeps_offsets=True, claim=Claim(2, "again"))
    for condition in report.progress.conditions:
        assert condition.todo.endswith(f"delete {flow.remote}, whose offsets the new topic needs, and run apply.")
    assert ends(flow.target, flow.remote) == before, "nothing is written behind the old records"
    delete_topic(flow.target, flow.remote)
    create_topic(flow.target, flow.remote, 2)
    report, _ = flow.run(batch_path, flow.at_end(), keeps_offsets=True, claim=Claim(3, "again"))
    assert report.progress.conditions == ()
    assert_equal(flow)


def test_a_record_of_others_during_a_pause_is_reported_after_it(flow: Flow) -> None:
    mixed(flow, 3)
    flow.run(batch_path, keeps_offsets=True)
    lane = Lane(flow.lane(keeps_offsets=True, paused=frozenset({(flow.topic, 0)})))
    with running(lane):
        lane.until(lambda told: any(p.paused for p in told.partitions))
        _stranger(flow, flow.target, flow.remote, 1)
        mixed(flow, 2, seed=2)
        assert lane.until(lambda told: told.partitions[0].end == ends(flow.source, flow.topic)[0]).conditions == ()
        before = ends(flow.target, flow.remote)[0]
        lane.control.left_alone = frozenset()
        lane.control.wake()
        lane.until(_diverged)
    assert ends(flow.target, flow.remote)[0] == before, "nothing is written behind it"


@pytest.mark.parametrize("lost", ["deleted", "another client's"])
def test_a_copy_whose_position_is_lost_continues_only_where_it_is_its_source(flow: Flow, lost: str) -> None:
    """Partition 0 has a record of somebody else, which the number of records cannot show; the source has gone on."""
    map_topic(flow.target)
    mixed(flow, 3)
    flow.run(batch_path, keeps_offsets=True)
    group, admin = f"mirror.{flow.topic}", AdminClient(flow.target.super_client())
    if lost == "deleted":
        admin.delete_consumer_groups([group])[group].result(20)
    else:
        for partition in range(2):
            flow.set_position(1, partition, "")
    _stranger(flow, flow.target, flow.remote, 1)
    mixed(flow, 3, seed=2)
    end = ends(flow.source, flow.topic)[1]
    for claim in (2, 3):
        report, _ = flow.run(
            batch_path,
            lambda told: _diverged(told) and any(p.position == end for p in told.partitions if p.partition == 1),
            keeps_offsets=True,
            claim=Claim(claim, "again"),
        )
        assert report.end is LaneEnd.STOPPED, report


def test_a_target_that_is_the_beginning_of_its_source_is_continued(flow: Flow) -> None:
    """As after a failover, when the old source is filled from its copy: a flow that never wrote there goes on."""
    mixed(flow, 3)
    flow.run(batch_path, keeps_offsets=True)
    mixed(flow, 3, seed=2)
    name = f"{flow.topic}-back"
    of_another = {"flow": name, "group": f"mirror.{name}", "transactional_id": f"mirror.{name}.0"}
    report, _ = flow.run(batch_path, flow.at_end(), keeps_offsets=True, **of_another)
    assert report.end is LaneEnd.STOPPED, report
    assert_equal(flow)


def test_what_others_wrote_before_all_that_the_source_has_is_not_deleted(flow: Flow) -> None:
    """It can be compared with nothing; the empty offsets behind it would be deleted, and all before them."""
    mixed(flow, 5)
    admin = AdminClient(flow.source.super_client())
    for answer in admin.delete_records([TopicPartition(flow.topic, 0, 37)]).values():
        answer.result(30)
    _stranger(flow, flow.target, flow.remote, 1)
    report, _ = flow.run(batch_path, _diverged, keeps_offsets=True)
    assert report.end is LaneEnd.STOPPED, report
    assert (_begin(flow), ends(flow.target, flow.remote)[0]) == (0, 1)


def test_a_copy_that_is_continued_is_continued_at_its_end_wherever_the_flow_starts(flow: Flow) -> None:
    """With start: latest its records would be deleted, and those that it lacks left out."""
    mixed(flow, 3)
    flow.run(batch_path, keeps_offsets=True)
    mixed(flow, 3, seed=2)
    name = f"{flow.topic}-back"
    of_another = {"flow": name, "group": f"mirror.{name}", "transactional_id": f"mirror.{name}.0"}
    report, _ = flow.run(batch_path, flow.at_end(), keeps_offsets=True, start_kind="latest", **of_another)
    assert report.end is LaneEnd.STOPPED, report
    assert_equal(flow)


def test_a_target_that_others_have_written_and_the_source_has_alike_is_gone_on_with(flow: Flow) -> None:
    """As after a failover and a way back: producers wrote to the copy, and a flow the other way brought that here."""
    mixed(flow, 3)
    flow.run(batch_path, keeps_offsets=True)
    now = int(time.time() * 1000)
    for cluster, topic in ((flow.target, flow.remote), (flow.source, flow.topic)):
        meanwhile = producer(cluster)
        for number in range(40):
            meanwhile.produce(topic, b"meanwhile-%d" % number, b"k", number % 2, timestamp=now + number)
        assert meanwhile.flush(20) == 0
    assert_equal(flow)
    mixed(flow, 3, seed=2)
    report, control = flow.run(batch_path, flow.at_end(), keeps_offsets=True)
    assert report.end is LaneEnd.STOPPED, report
    assert not conditions(control.reports)
    assert_equal(flow)


def test_back_to_translated_it_continues_behind_what_was_copied(flow: Flow) -> None:
    mixed(flow, 3)
    flow.run(batch_path, keeps_offsets=True)
    kept = encode((flow.remote, 0), LanePosition(1, "", same=SameOffsetsPosition(7)))
    flow.set_position(1, metadata=kept)
    mixed(flow, 3, seed=2)
    flow.run(batch_path, flow.at_end())
    assert flow.target_content() == flow.source_content()
    [end, _] = ends(flow.source, flow.topic)
    kept = encode((flow.remote, 0), LanePosition(1, "", same=SameOffsetsPosition(7, diverged=1)))
    flow.set_position(1, metadata=kept)
    flow.run(batch_path, _diverged)
    flow.set_position(end)
    flow.run(batch_path, flow.at_end())
    assert flow.target_content() == flow.source_content()
