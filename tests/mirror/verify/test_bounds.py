"""Bounds and tasks of verify on real brokers, without Spark: what is read, what is refused, and why."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_mirror.verify import bounds, own_client
from reconciler_mirror.verify.bounds import bounds_of
from reconciler_mirror.verify.in_order import compare
from reconciler_mirror.verify.in_order.compare import Continued
from reconciler_mirror.verify.model import PartitionRange, PartitionReading, TimeWindow, Unread
from reconciler_mirror.verify.report import NO_PRODUCER, Writer, words, writers_of
from reconciler_mirror.verify.tasks import each, entries_of
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.kafka.records import codecs
from reconciler.replication.handover import Start
from reconciler.replication.runs.verification import TopicTraits
from tests.support.jobs.records import producer
from tests.support.jobs.verify_runs import HandMadeFlow, numbered, write
from tests.support.lanes.raw import produce_raw

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]


@pytest.fixture
def flow(plain: Sandbox) -> HandMadeFlow:
    return HandMadeFlow(f"b{uuid.uuid4().hex[:6]}", plain["east"], plain["west"])


def topic_of(flow: HandMadeFlow, **configs: Any) -> str:
    return flow.topics(f"{flow.name}-t", **configs)


def one_range(flow: HandMadeFlow, window: TimeWindow = TimeWindow(), **changes: Any) -> PartitionRange:  # noqa: B008
    found = bounds_of(flow.settings(f"{flow.name}-.*", **changes), window, {})
    assert not found.unread, found.unread
    [only] = found.ranges
    return only


def one_unread(
    flow: HandMadeFlow,
    traits: dict[str, TopicTraits] | None = None,
    window: TimeWindow = TimeWindow(),  # noqa: B008
) -> Unread:
    found = bounds_of(flow.settings(f"{flow.name}-.*"), window, traits or {})
    assert not found.ranges
    [only] = found.unread
    assert only.todo
    return only


def compared(plan: PartitionRange) -> tuple[bool, int, PartitionReading]:
    """(equal, source records, how far)"""
    [end] = each(compare.compared, [Continued(plan)])
    assert end.equal + end.differing >= end.source_records
    return not (end.differing or end.error), end.source_records, end


def remove(handle: ClusterHandle, topic: str, before: int) -> None:
    admin, place = AdminClient(handle.client()), TopicPartition(topic, 0, before)
    admin.delete_records([place])[place].result(20)


@contextmanager
def open_transaction(handle: ClusterHandle, topic: str) -> Iterator[None]:
    maker = producer(handle, transactional_id=uuid.uuid4().hex)
    maker.init_transactions(30)
    maker.begin_transaction()
    maker.produce(topic, b"undecided", partition=0)
    maker.flush()
    yield
    maker.abort_transaction(30)


def test_a_window_cuts_both_sides_by_time(flow: HandMadeFlow) -> None:
    good = numbered(300)
    flow.fill(topic_of(flow), good, good[:250], position=250)
    base = good[0][3]
    equal, count, _ = compared(one_range(flow, TimeWindow(base + 100, base + 200)))
    assert (equal, count) == (True, 100)
    equal, count, end = compared(one_range(flow, TimeWindow(base + 240)))
    assert (equal, count, end.source_end) == (True, 10, 250)


def test_a_missing_first_record_of_a_window_is_a_difference(flow: HandMadeFlow) -> None:
    good = numbered(300)
    flow.fill(topic_of(flow), good, good[:100] + good[101:])
    assert not compared(one_range(flow, TimeWindow(good[100][3])))[0]


def test_copies_at_the_source_s_offsets_are_compared_with_them_and_the_writer_is_named(flow: HandMadeFlow) -> None:
    """No position is needed: the target's log end is it."""
    topic = topic_of(flow)
    flow.fill(topic, numbered(200), numbered(200), position=-1)
    remove(flow.source, topic, 50)
    plan = one_range(flow, offsets="same")
    assert (plan.position, plan.source.start, plan.target.start) == (200, 50, 50)
    assert compared(plan)[:2] == (True, 150)
    write(flow.target, plan.target.topic, [(b"stranger", b"", (), 1)], enable_idempotence=False)
    write(flow.source, topic, numbered(1))
    plan = one_range(flow, offsets="same")
    [difference] = compared(plan)[2].differences
    assert difference.target_offset == 200
    writer = writers_of([(plan, difference)])[0]
    assert writer == Writer(NO_PRODUCER, -1)
    assert "so not the mirror" in words(plan, difference, writer)[0]


def test_retention_between_bounds_and_reading_cuts_that_side(flow: HandMadeFlow) -> None:
    topic = topic_of(flow)
    flow.fill(topic, numbered(200), numbered(200))
    plan = one_range(flow)
    remove(flow.source, topic, 50)
    equal, count, end = compared(plan)
    assert (equal, count, end.older_target, end.source_start) == (True, 150, 50, 50)
    [late] = each(lambda plan, readers: compare.compared(Continued(plan, 10, 10), readers), [plan])
    assert "removed" in late.error


def test_one_task_reads_many_partitions_and_mixes_nothing(flow: HandMadeFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same readers go from partition to partition, also after one that cannot be read, and to one half read."""
    monkeypatch.setattr(own_client, "UNREAD_S", 2.0)
    plans: list[PartitionRange] = []
    for number in range(6):
        topic = flow.topics(f"{flow.name}-{number}")
        good = numbered(3000 + 100 * number)
        flow.fill(topic, good, [*good[:-1], (b"other", b"value", (), 1_700_000_000_000)] if number == 3 else good)
        found = bounds_of(flow.settings(f"{flow.name}-{number}"), TimeWindow(), {}, number)
        plans += found.ranges
    strange = replace(plans[2], index=9, target=replace(plans[2].target, topic="not-there"))
    rows = list(each(compare.compared, [*map(Continued, (*plans[:3], strange, *plans[3:], plans[0]))]))
    assert {row.index for row in rows if row.error} == {9}
    for plan in plans:
        mine = [row for row in rows if row.index == plan.index]
        assert [row.source_records for row in mine] == [3000 + 100 * plan.index] * (2 if plan.index == 0 else 1)
        assert [row.differing for row in mine] == [int(plan.index == 3)] * len(mine)


def test_a_flow_that_began_at_latest_has_older_records_at_the_source(flow: HandMadeFlow) -> None:
    good = numbered(100)
    flow.fill(topic_of(flow), good, good[60:])
    equal, count, end = compared(one_range(flow, start=Start("latest")))
    assert (equal, count, end.older_source) == (True, 40, 60)
    assert not compared(one_range(flow))[0], "a flow from earliest must have them all"


def test_an_open_transaction_at_the_target_makes_it_unknown(
    flow: HandMadeFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topic_of(flow)
    flow.fill(topic, numbered(10), numbered(10))
    monkeypatch.setattr(bounds.OffsetReader.undecided, "__defaults__", (0.5,))
    with open_transaction(flow.target, f"east.{topic}"):
        assert "open transaction" in one_unread(flow).reason
    assert compared(one_range(flow))[:2] == (True, 10)


def test_an_open_transaction_at_the_source_is_not_waited_for(flow: HandMadeFlow) -> None:
    topic = topic_of(flow)
    flow.fill(topic, numbered(10), numbered(10))
    with open_transaction(flow.source, topic):
        assert compared(one_range(flow))[:2] == (True, 10)


def test_what_the_position_says_wrong_is_reported(flow: HandMadeFlow) -> None:
    topic = topic_of(flow)
    flow.fill(topic, numbered(10), numbered(10), position=-1)
    assert "no position" in one_unread(flow).reason
    flow.set_position(topic, 10, identity="AAAAAAAAAAAAAAAAAAAAAA")
    assert "created again" in one_unread(flow).reason
    flow.set_position(topic, 11)
    assert "is 11" in one_unread(flow).reason
    flow.set_position(topic, 10, proved=False)
    assert "10, was committed by another client" in one_unread(flow).reason
    remove(flow.source, topic, 8)
    flow.set_position(topic, 5)
    assert "3 offsets were removed" in one_unread(flow).reason


def test_a_missing_target_topic_and_unknown_configs_are_reported(flow: HandMadeFlow) -> None:
    assert "matches no topic" in one_unread(flow).reason
    topic = topic_of(flow)
    flow.fill(topic, numbered(3), numbered(3))
    hidden = {"west": TopicTraits(unknown=frozenset({f"east.{topic}"}))}
    assert "configs" in one_unread(flow, hidden).reason
    admin = AdminClient(flow.target.client())
    admin.delete_topics([f"east.{topic}"])[f"east.{topic}"].result(20)
    assert "does not exist at west" in one_unread(flow).reason


def test_a_target_with_times_of_its_own_is_compared_without_them(flow: HandMadeFlow) -> None:
    topic = topic_of(flow, target={"message.timestamp.type": "LogAppendTime"})
    flow.fill(topic, numbered(20), numbered(20))
    traits = {"west": TopicTraits(append_time=frozenset({f"east.{topic}"}))}
    [plan] = bounds_of(flow.settings(f"{flow.name}-.*"), TimeWindow(), traits).ranges
    assert compared(plan)[:2] == (True, 20)
    assert not compared(replace(plan, timestamps=True))[0]
    assert "LogAppendTime" in one_unread(flow, traits, TimeWindow(1)).reason


def test_an_unreachable_cluster_makes_the_flow_unknown(flow: HandMadeFlow) -> None:
    settings = flow.settings(f"{flow.name}-.*")
    gone = replace(settings, source=replace(settings.source, bootstrap_servers=("127.0.0.1:1",)))
    found = bounds_of(gone, TimeWindow(), {})
    assert not found.ranges
    assert "127.0.0.1:1" in found.unread[0].reason


def test_a_partition_that_cannot_be_read_says_so_in_its_row(
    flow: HandMadeFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_client, "UNREAD_S", 2.0)
    flow.fill(topic_of(flow), numbered(5), numbered(5))
    plan = one_range(flow)
    strange = replace(plan, target=replace(plan.target, topic="not-there"))
    [row] = [row for row in each(compare.compared, [Continued(strange)]) if isinstance(row, PartitionReading)]
    assert "not-there" in row.error
    assert row.todo
    [row] = [row for row in each(entries_of, [strange]) if isinstance(row, PartitionReading)]
    assert "not-there" in row.error


def test_records_behind_the_position_at_the_target_come_from_the_source(flow: HandMadeFlow) -> None:
    """What a running mirror leaves: data copied, position not yet committed. A stranger's record is seen there too."""
    topic, good = topic_of(flow), numbered(30)
    flow.fill(topic, good, good[:25], position=20)
    assert compared(one_range(flow))[:2] == (True, 25)
    write(flow.target, f"east.{topic}", [(b"stranger", b"", (), 1)])
    assert not compared(one_range(flow))[0]


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_batch_that_would_take_the_memory_is_not_opened(
    flow: HandMadeFlow, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, bomb = topic_of(flow), [(b"k", bytes(4 << 20), 1_700_000_000_000)]
    flow.fill(topic, numbered(5), numbered(5))
    handle, name = (flow.source, topic) if side == "source" else (flow.target, f"east.{topic}")
    produce_raw(handle, name, bomb, codecs.GZIP)
    plan = one_range(flow)
    assert not compared(plan)[2].error, "four MiB are nothing yet"
    monkeypatch.setattr(codecs, "MOST_OPENED", 1 << 20)
    for found in (each(compare.compared, [Continued(plan)]), each(entries_of, [plan])):
        [row] = [row for row in found if isinstance(row, PartitionReading)]
        assert "the batch at offset 5 is more than 1 MiB once decompressed" in row.error
        assert handle.name in row.error
