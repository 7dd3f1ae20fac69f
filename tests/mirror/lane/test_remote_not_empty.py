"""Into a remote topic that holds records of others nothing is copied from the beginning, until somebody agrees."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from reconciler_mirror.driver.takeover import WireTakeover
from reconciler_mirror.lane import positions, session
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import Claim
from reconciler_sandbox.handles import Sandbox

from reconciler.replication.handover import AGAIN, FlowSettings, Naming, Start
from reconciler.replication.offsets.position_metadata import END, Owner
from tests.support.clusters import delete_topic
from tests.support.lanes.lane_runs import Content, Flow, Lane, caught_up, fill, has, running
from tests.support.waiting import until

NOW = int(time.time() * 1000)
RECORDS: list[Content] = [(b"%d" % i, b"v", (), NOW) for i in range(40)]
FOREIGN = RECORDS[:25]


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: Callable[..., str]) -> Flow:
    made = Flow(plain["east"], plain["west"], unique, 2)
    create_topic(made.source, made.topic, 2, retention_ms="-1")
    create_topic(made.target, made.remote, 2, retention_ms="-1")
    for number in range(2):
        fill(made.source, made.topic, RECORDS, number)
    fill(made.target, made.remote, FOREIGN, 0)
    return made


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("expired", [False, True], ids=["there", "deleted by retention"])
def test_the_partition_stops_and_the_others_continue(flow: Flow, delivery: str, *, expired: bool) -> None:
    if expired:
        admin, until = AdminClient(flow.target.super_client()), TopicPartition(flow.remote, 0, len(FOREIGN))
        admin.delete_records([until])[until].result(20)

    def done(progress: object) -> bool:
        parts = progress.partitions  # type: ignore[attr-defined]
        return has("remote_topic_not_empty")(progress) and any(p.position == len(RECORDS) for p in parts)  # type: ignore[arg-type]

    report, _ = flow.run(batch_path, done, delivery=delivery)
    [condition] = report.progress.conditions
    assert (condition.stops, condition.topic, condition.partition) == (True, flow.topic, 0)
    assert f"{flow.remote} ends at 25" in condition.text
    for way in (
        f"import-positions ENV {flow.topic} --write",
        "--partition 0 --to latest",
        "--partition 0 --to earliest",
    ):
        assert way in condition.todo
    assert [len(flow.target_content()[number]) for number in range(2)] == [0 if expired else 25, 40]


@pytest.mark.parametrize("start", ["earliest", "latest", "offsets"])
@pytest.mark.parametrize("owner", [Owner("b", "s2"), Owner("a", "s2")], ids=["environment", "source"])
def test_an_empty_topic_into_which_another_environment_copies_is_left_to_it(
    plain: Sandbox, unique: str, create_topic: Callable[..., str], owner: Owner, start: str
) -> None:
    """Both began when a topic of one name appeared in both sources: no plan has asked about it, and no record tells."""
    made = Flow(plain["east"], plain["west"], unique)
    create_topic(made.source, made.topic, 1, retention_ms="-1")
    create_topic(made.target, made.remote, 1, retention_ms="-1")
    fill(made.source, made.topic, RECORDS)
    theirs = positions.encode((made.remote, 0), LanePosition(0, "", -1, Claim(1, "app-b", owner=owner)))
    consumer = Consumer({**made.target.super_client(), "group.id": f"mirror.{unique}-other"})
    consumer.commit(offsets=[TopicPartition(made.remote, 0, 0, theirs)], asynchronous=False)
    consumer.close()
    mine = Claim(2, "app-a", owner=Owner("a", "s1"))
    if start == "latest":
        lane = made.lane()
        ends = (lane.source, lane.target, (made.topic,), (), Naming(), "exactly_once", "read_committed")
        settings = FlowSettings(unique, "0", *ends, Start("latest"), 1)
        taking = WireTakeover(settings, environment="a")
        assert taking.take("app-a", made.specs()).started == 1
        taking.close()
        assert made.position().offset == -1, "the takeover resolves no start of it"
    given = {"start_offsets": {(unique, 0): 0}} if start == "offsets" else {}
    report, _ = made.run(batch_path, has("remote_topic_not_ours"), claim=mine, **given)
    [condition] = report.progress.conditions
    assert (
        f"environment {owner.environment} copies into {made.remote}: its group mirror.{unique}-other" in condition.text
    )
    assert f"--delete-offsets --group mirror.{unique}-other --topic {made.remote}" in condition.todo
    assert made.target_content() == {0: []}
    report, _ = made.run(batch_path, caught_up, claim=Claim(3, "app-b", owner=owner), **given)
    assert report.progress.conditions == ()


@pytest.mark.parametrize(
    ("agreed", "copied"),
    [(AGAIN, 40), (30, 10)],
    ids=["again", "offsets"],
)
def test_who_agrees_is_obeyed(flow: Flow, agreed: str | int, copied: int) -> None:
    offsets = {(flow.topic, 0): agreed}
    flow.run(batch_path, caught_up, **({"start_kind": agreed} if agreed == AGAIN else {"start_offsets": offsets}))
    assert [len(flow.target_content()[number]) for number in range(2)] == [25 + copied, 40]
    fill(flow.source, flow.topic, RECORDS[:1])
    flow.run(batch_path)  # the position that it has by now says where it goes on
    assert len(flow.target_content()[0]) == 25 + copied + 1


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_crash_in_the_first_copy_is_not_taken_for_records_of_others(
    plain: Sandbox, unique: str, create_topic: Callable[..., str], delivery: str, tmp_path: Path
) -> None:
    """Data that was aborted, or that has no position yet, lies in the target's log as well."""
    flow = Flow(plain["east"], plain["west"], unique)
    create_topic(flow.source, flow.topic, retention_ms="-1")
    create_topic(flow.target, flow.remote, retention_ms="-1")
    fill(flow.source, flow.topic, [(None, b"x" * 500, (), NOW)] * 20_000)
    spec = tmp_path / "lane"
    spec.write_bytes(pickle.dumps(flow.lane(delivery=delivery)))
    process = subprocess.Popen([sys.executable, "-m", "tests.support.lanes.lane_process", str(spec)])
    admin, first = AdminClient(flow.target.super_client()), TopicPartition(flow.remote, 0)
    while admin.list_offsets({first: OffsetSpec.latest()})[first].result(20).offset == 0:
        assert process.poll() is None
    process.kill()
    process.wait()
    assert flow.position().offset >= 0
    report, _ = flow.run(batch_path, flow.at_end(), delivery=delivery)
    assert report.progress.conditions == ()
    if delivery == "exactly_once":
        assert len(flow.target_content()[0]) == 20_000


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("by_record", [True, False], ids=["next record", "metadata"])
def test_a_remote_topic_recreated_under_a_running_lane_gets_everything_again(
    plain: Sandbox,
    unique: str,
    create_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    delivery: str,
    *,
    by_record: bool,
) -> None:
    """Its positions went with it. A lane that went on behind the last record would leave the new topic without all that
    was copied before, with lag 0. A record that was written without a transaction makes it stop instead."""
    flow = Flow(plain["east"], plain["west"], unique)
    create_topic(flow.source, flow.topic, retention_ms="-1")
    create_topic(flow.target, flow.remote, retention_ms="-1")
    fill(flow.source, flow.topic, RECORDS)
    if not by_record:
        monkeypatch.setattr(session, "METADATA_EVERY", 0.2)
    with running(Lane(flow.lane(delivery=delivery))) as lane:
        lane.until(flow.at_end())
        delete_topic(flow.target, flow.remote)
        create_topic(flow.target, flow.remote, retention_ms="-1")
        if by_record:
            fill(flow.source, flow.topic, RECORDS[:1])
        if by_record and delivery == "at_least_once":
            lane.until(has("remote_topic_not_empty"))
            return
        end = len(RECORDS) + by_record
        until(lambda: len(flow.target_content()[0]) >= end)
        lane.until(lambda p: p.conditions == () and flow.at_end()(p))
    assert flow.target_content() == flow.source_content()
    assert flow.position().offset == end


@pytest.mark.parametrize(
    "how",
    [{"delivery": "exactly_once"}, {"delivery": "at_least_once"}, {"keeps_offsets": True}],
    ids=["exactly once", "at least once", "same offsets"],
)
def test_a_position_that_outlives_its_remote_topic_is_none(
    plain: Sandbox, unique: str, create_topic: Callable[..., str], how: dict[str, object]
) -> None:
    """The coordinator deletes it a while after the leader has deleted the log, and a lane may commit in between."""
    flow = Flow(plain["east"], plain["west"], unique)
    create_topic(flow.source, flow.topic, retention_ms="-1")
    create_topic(flow.target, flow.remote, retention_ms="-1")
    fill(flow.source, flow.topic, RECORDS)
    flow.run(batch_path, flow.at_end(), **how)
    before = flow.position()
    flow.set_position(before.offset, metadata=before.metadata.rstrip(END))
    flow.run(batch_path, flow.at_end(), **how)
    assert flow.target_content() == flow.source_content(), "of the topic that is there, it is obeyed"
    delete_topic(flow.target, flow.remote)
    create_topic(flow.target, flow.remote, retention_ms="-1")
    until(lambda: flow.position().offset < 0)
    flow.set_position(before.offset, metadata=before.metadata.rstrip(END))
    report, _ = flow.run(batch_path, flow.at_end(), **how)
    assert (report.progress.conditions, flow.target_content()) == ((), flow.source_content())
    assert flow.position().offset == len(RECORDS)
