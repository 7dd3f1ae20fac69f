"""A partition that was copied before and has no position now is never copied a second time silently."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from confluent_kafka.admin import AdminClient
from reconciler_mirror.lane import positions, transactional
from reconciler_mirror.lane.copied_runs import Copied
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import Claim, LaneProgress, PartitionSpec
from reconciler_sandbox.handles import Sandbox

from reconciler.kafka.client.cluster import NO_ID
from reconciler.replication.names import OFFSETS_PARTITIONS, OFFSETS_TOPIC
from reconciler.replication.offsets.map_topic import copied_before, cut, holder_of
from tests.support.clusters import delete_topic
from tests.support.lanes.lane_runs import Content, Flow, caught_up, conditions, fill, has
from tests.support.lanes.raw import cluster_of
from tests.support.lanes.truth import with_topics

NOW = int(time.time() * 1000)
RECORDS: list[Content] = [(b"%d" % i, b"v", (), NOW) for i in range(60)]


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: Callable[..., str]) -> Flow:
    """Copied to its end by the flow of its own name."""
    made = with_topics(Flow(plain["east"], plain["west"], unique), create_topic, RECORDS)
    made.run(batch_path)
    return made


def test_another_flow_waits_until_it_is_reported_where_to_go_on(flow: Flow) -> None:
    other = f"{flow.topic}x"
    renamed = {"flow": other, "group": f"mirror.{other}", "transactional_id": f"mirror.{other}.0"}
    report, _ = flow.run(batch_path, has("position_missing"), **renamed)
    [condition] = report.progress.conditions
    assert (condition.stops, condition.topic, condition.partition) == (True, flow.topic, 0)
    assert f"flow {flow.topic} has copied it to {flow.remote} up to source offset 60" in condition.text
    assert f"mirror seek ENV {other} --topic {flow.topic} --from-flow {flow.topic}" in condition.todo
    report, _ = flow.run(batch_path, caught_up, start_offsets={(flow.topic, 0): 60}, **renamed)
    assert report.progress.conditions == ()
    assert len(flow.target_content()[0]) == 60


def test_a_forgotten_position_is_not_begun_anew(flow: Flow) -> None:
    admin = AdminClient(flow.target.super_client())
    admin.delete_consumer_groups([f"mirror.{flow.topic}"])[f"mirror.{flow.topic}"].result(20)
    report, _ = flow.run(batch_path, has("position_missing"))
    assert "--partition 0 --to 60" in report.progress.conditions[0].todo
    flow.set_position(60)
    fill(flow.source, flow.topic, RECORDS[:1])
    flow.run(batch_path)
    assert len(flow.target_content()[0]) == 61


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("code", ["position_foreign", "position_missing", "position_regressed"])
def test_a_lost_position_is_named_exactly_where_the_offset_map_is_behind_it(
    flow: Flow, delivery: str, code: str
) -> None:
    """A lane writes the map once a second, so a killed one leaves out its last copies."""

    async def killed() -> None:
        target = cluster_of(flow.target)
        try:
            await cut(target, flow.topic, (flow.topic, 0), 61)
        finally:
            target.close()

    later: list[Content] = [(b"%d" % i, b"later", (), NOW) for i in range(50)]
    fill(flow.source, flow.topic, later[:30])
    flow.run(batch_path, delivery=delivery)
    asyncio.run(killed())
    fill(flow.source, flow.topic, later[30:])
    if code == "position_foreign":
        flow.set_position(17, metadata="")
    elif code == "position_regressed":  # as from a coordinator that has lost what came later
        [spec] = flow.specs()
        old = LanePosition(17, spec.topic_id, 0, Claim(1, "test"))
        flow.set_position(17, metadata=positions.encode((flow.remote, 0), old))
    else:
        admin = AdminClient(flow.target.super_client())
        admin.delete_consumer_groups([f"mirror.{flow.topic}"])[f"mirror.{flow.topic}"].result(20)
    report, _ = flow.run(batch_path, has(code), delivery=delivery)
    [condition] = report.progress.conditions
    assert "--partition 0 --to 90" in condition.todo
    assert "a little further" not in condition.text + condition.todo
    assert flow.target_content()[0] == [*RECORDS, *later[:30]]
    flow.set_position(90)
    flow.run(batch_path, delivery=delivery)
    assert flow.target_content()[0] == [*RECORDS, *later]


def test_where_the_logs_do_not_prove_it_a_lost_position_is_a_lower_bound(flow: Flow) -> None:
    fill(flow.target, flow.remote, [(b"k", b"a stranger's", (), NOW)])
    flow.set_position(17, metadata="")
    report, _ = flow.run(batch_path, has("position_foreign"))
    [condition] = report.progress.conditions
    assert "it had copied to 60 or a little further" in condition.text
    assert "Compare the last records of both topics" in condition.todo


def test_offsets_that_the_file_gives_begin_no_partition_again_that_went_on_from_there(flow: Flow) -> None:
    """`import-positions` writes them, and they stay in the file when the group is deleted a year later."""
    admin = AdminClient(flow.target.super_client())
    admin.delete_consumer_groups([f"mirror.{flow.topic}"])[f"mirror.{flow.topic}"].result(20)
    report, _ = flow.run(batch_path, has("position_missing"), start_offsets={(flow.topic, 0): 20})
    assert "--partition 0 --to 60" in report.progress.conditions[0].todo
    assert len(flow.target_content()[0]) == 60
    fill(flow.source, flow.topic, RECORDS[:1])
    report, _ = flow.run(batch_path, caught_up, start_offsets={(flow.topic, 0): 60})
    assert report.progress.conditions == ()
    assert len(flow.target_content()[0]) == 61


def test_offsets_that_the_file_gives_are_none_of_a_topic_that_was_recreated(
    flow: Flow, create_topic: Callable[..., str]
) -> None:
    """Both topics were deleted, and the position went with the remote one."""
    for cluster, topic in ((flow.source, flow.topic), (flow.target, flow.remote)):
        delete_topic(cluster, topic)
        create_topic(cluster, topic, retention_ms="-1")
    fill(flow.source, flow.topic, RECORDS[:30])
    given = {(flow.topic, 0): 20}
    report, _ = flow.run(batch_path, has("source_topic_recreated"), start_offsets=given)
    assert f"seek ENV FLOW --topic {flow.topic} --to earliest" in report.progress.conditions[0].todo
    assert flow.target_content() == {0: []}
    flow.set_position(0)
    flow.run(batch_path, start_offsets=given)
    assert flow.target_content() == flow.source_content()


@pytest.mark.parametrize("metadata", ["", '{"i":"","e":-1,"h":3,"o":60,"d":"00000000"}'], ids=["none", "no proof"])
@pytest.mark.parametrize("offset", [40, 80])
def test_a_position_that_another_client_committed_stops_the_partition(offset: int, metadata: str, flow: Flow) -> None:
    fill(flow.source, flow.topic, RECORDS)
    flow.set_position(offset, metadata=metadata)
    report, _ = flow.run(batch_path, has("position_foreign"))
    [condition] = report.progress.conditions
    assert condition.stops
    assert f"in group mirror.{flow.topic}, {offset}, was committed by another client" in condition.text
    assert "--partition 0 --to 60" in condition.todo
    flow.set_position(60)
    flow.run(batch_path)
    assert flow.target_content()[0] == flow.source_content()[0]


@pytest.mark.parametrize("offset", [40, 60])
def test_a_position_that_another_client_commits_is_seen_while_the_lane_runs(
    offset: int, flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing comes to the partition, so the lane would not commit it either. A check may take longer than the pause
    between two."""
    monkeypatch.setattr(transactional, "POSITIONS_EVERY", 0.0001)
    set_back: list[int] = []

    def done(progress: LaneProgress) -> bool:
        if caught_up(progress) and not set_back:
            set_back.append(offset)
            flow.set_position(offset, metadata="")
        return has("position_foreign")(progress)

    report, _ = flow.run(batch_path, done)
    [condition] = report.progress.conditions
    assert f"in group mirror.{flow.topic}, {offset}, was committed by another client" in condition.text
    assert "--partition 0 --to 60" in condition.todo
    assert len(flow.target_content()[0]) == 60


def test_what_lanes_and_takeovers_commit_is_never_taken_for_a_strangers(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trickle, whose commits are undecided now and then, and two later applications, the second beside a lane."""
    monkeypatch.setattr(transactional, "POSITIONS_EVERY", 0.01)
    began, seen, taken = time.monotonic(), set[str](), list[int]()

    def done(progress: LaneProgress) -> bool:
        seen.update(condition.code for condition in progress.conditions)
        if len(taken) < 20:
            taken.append(1)
            fill(flow.source, flow.topic, RECORDS[:1])
        return len(taken) == 20 and time.monotonic() - began > 2 and caught_up(progress)

    for application in (1, 2):
        taken.clear()
        flow.run(batch_path, done, claim=Claim(application, "test"))
    flow.set_position(70)  # as a seek does
    flow.run(batch_path, done, claim=Claim(3, "test"))
    assert seen == set()


def test_a_position_that_went_back_stops_the_partition_until_it_is_right_again(flow: Flow) -> None:
    [spec] = flow.specs()
    old = positions.encode((flow.remote, 0), LanePosition(20, spec.topic_id, 0, Claim(1, "test")))
    flow.set_position(20, metadata=old)  # as a coordinator would tell it that has lost what came later
    report, _ = flow.run(batch_path, has("position_regressed"))
    [condition] = report.progress.conditions
    assert condition.stops
    assert f"reports position 20 in group mirror.{flow.topic}, but 60 had been committed" in condition.text
    assert "--partition 0 --to 60" in condition.todo
    flow.set_position(
        60, metadata=positions.encode((flow.remote, 0), LanePosition(60, spec.topic_id, 0, Claim(1, "test")))
    )
    fill(flow.source, flow.topic, RECORDS[:1])
    flow.run(batch_path)
    assert flow.target_content()[0] == flow.source_content()[0]


def test_records_of_others_in_the_map_hide_nothing_and_stop_nothing(flow: Flow) -> None:
    """Under the key of the partition's newest chunk, as a program writes them that takes the topic for its own."""
    [spec] = flow.specs()
    holder = holder_of(flow.topic, (flow.topic, 0), OFFSETS_PARTITIONS)
    key, ids = f"{flow.topic}/{flow.topic}/0/", b"\1\0" + bytes(32)
    values = (b"", b"\1", b"{}", b"\2" * 80, ids, ids + b"\1", ids + b"\x80" * 40, ids + b"\xff" * 9 + b"\1" * 9, None)
    garbage = [
        (f"{key}{begin}".encode(), value, (), NOW) for begin in (0, 60, 10**18) for value in values if begin or value
    ]
    fill(flow.target, OFFSETS_TOPIC, [*garbage, (b"\xff/\0", b"\xff", (), NOW), (b"a/b/c/d", b"x", (), NOW)], holder)
    fill(flow.source, flow.topic, RECORDS[:1])
    report, control = flow.run(batch_path)
    assert conditions(control.reports) == []
    assert len(flow.target_content()[0]) == 61
    fill(flow.target, OFFSETS_TOPIC, garbage, holder)
    old = positions.encode((flow.remote, 0), LanePosition(20, spec.topic_id, 0, Claim(1, "test")))
    flow.set_position(20, metadata=old)
    report, _ = flow.run(batch_path, has("position_regressed"))
    assert "had been committed" in report.progress.conditions[0].text


def test_a_seek_to_an_earlier_offset_goes_on_there_and_after_a_restart(flow: Flow) -> None:
    flow.set_position(20)
    flow.run(batch_path)
    fill(flow.source, flow.topic, RECORDS[:1])
    report, _ = flow.run(batch_path)
    assert report.progress.conditions == ()
    assert len(flow.target_content()[0]) == 60 + 40 + 1


@pytest.mark.parametrize("written", [False, True], ids=["the map does not know it", "the map knows it"])
def test_after_a_seek_the_position_names_its_topic_once_the_map_has_its_place(*, written: bool) -> None:
    partition = Partition(PartitionSpec("orders", 0, "east.orders", "id"))
    copied = partition.copied
    copied.begin(40)
    copied.acknowledged(((40, 5),), 100)
    copied.committed(45)
    copied.moved_back()
    copied.written(0, copied.version, copied.newest)  # a chunk of before
    assert partition.position_id == ""
    copied.begin(20)
    copied.acknowledged(((20, 5),), 105)
    copied.committed(25)
    if written:
        copied.written(len(copied.full), copied.version, copied.newest)
    assert partition.position_id == ("id" if written else "")
    at = LanePosition(25, partition.position_id)
    assert positions.went_back(at, 45) is written
    assert not positions.went_back(at, 25)
    assert not positions.went_back(at, None)


def test_what_was_copied_into_a_former_topic_gets_into_no_map_of_the_new_one() -> None:
    """A chunk of the former copy that the new session's do not replace would name offsets in the middle of the new."""
    copied, source, former, new = Copied(), uuid4(), uuid4(), uuid4()
    copied.start(30, (source, former))
    copied.acknowledged(((30, 20),), 500)
    copied.committed(50)
    copied.start(50, (source, former))
    assert len(list(copied.chunks())) == 1, "another session on the same topics continues"
    copied.start(0, (source, new), first=True)
    assert not list(copied.chunks())
    assert copied.last is None, "MirrorMaker 2's offset sync of the former copy"
    copied.acknowledged(((0, 60),), 0)
    copied.committed(60)
    assert [(chunk.begin, chunk.end) for chunk in copied.chunks()] == [(0, 60)]
    assert copied.of == (source, new)
    assert copied.changed


def test_a_topic_made_anew_was_never_copied(flow: Flow) -> None:
    async def before(source_id: UUID) -> object:
        target = cluster_of(flow.target)
        try:
            return await copied_before(target, {(flow.topic, 0): (source_id, NO_ID)})
        finally:
            target.close()

    [spec] = flow.specs()
    now = UUID(bytes=base64.b64decode(f"{spec.topic_id}==".replace("-", "+").replace("_", "/")))
    assert asyncio.run(before(now)) == {(flow.topic, 0): (flow.topic, 60)}
    assert asyncio.run(before(uuid4())) == {}
