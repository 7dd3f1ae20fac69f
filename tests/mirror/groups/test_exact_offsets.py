"""The offset map of real lanes against brute force on real brokers: no error, in both directions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_mirror.lane.run import batch_path
from reconciler_sandbox.handles import Sandbox

from reconciler.kafka.client import transactions
from reconciler.replication.offsets.map import Exactness
from reconciler.replication.offsets.map_topic import prune
from tests.support.lanes.lane_runs import Flow, producer
from tests.support.lanes.raw import cluster_of
from tests.support.lanes.truth import map_topic, offset_map, placed

CreateTopic = Callable[..., str]


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: CreateTopic) -> Flow:
    made = Flow(plain["east"], plain["west"], unique)
    create_topic(made.source, made.topic)
    create_topic(made.target, made.remote)
    map_topic(made.target)
    return made


def _check(flow: Flow) -> int:
    """Every position of both sides; returns how many were compared."""
    here, there = placed(flow.source, flow.topic), placed(flow.target, flow.remote)
    assert there.keys() == here.keys()
    pairs = sorted((here[value], there[value]) for value in here)
    end = flow.position().offset
    ours = offset_map(flow)
    assert ours.source_end == end
    at = 0
    for source in range(end + 1):
        while at < len(pairs) and pairs[at][0] < source:
            at += 1
        found = ours.downstream(source)
        assert found.exact, (source, found)
        right = pairs[at][1] if at < len(pairs) else pairs[-1][1] + 1
        assert found.offset == right, (source, found, pairs[at : at + 1])
        assert (found.exactness is Exactness.RECORD) == (at < len(pairs) and pairs[at][0] == source)
    at = 0
    for target in range(pairs[-1][1] + 2):
        while at < len(pairs) and pairs[at][1] < target:
            at += 1
        back = ours.upstream(target)
        assert back.exact, (target, back)
        assert back.offset == (pairs[at][0] if at < len(pairs) else end), (target, back)
    return end


def _round(flow: Flow, number: int, writers: list[Producer], plain: Producer) -> None:
    for writer in writers:
        writer.begin_transaction()
    for index, writer in enumerate(writers):
        for i in range(1 + number % 7):
            writer.produce(flow.topic, b"%d %d %d" % (number, index, i))
        writer.flush(20)
    for i in range(number % 40):
        plain.produce(flow.topic, b"%d plain %d" % (number, i))
    plain.flush(20)
    for index, writer in enumerate(writers):
        (writer.abort_transaction if (number + index) % 3 == 0 else writer.commit_transaction)(20)


@pytest.mark.parametrize("delivery", ["exactly_once", pytest.param("classic", marks=pytest.mark.long), "at_least_once"])
def test_aborted_records_markers_and_several_sessions(
    flow: Flow, delivery: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if delivery == "classic":
        monkeypatch.setattr(transactions, "speaks_version_2", lambda _: False)
        delivery = "exactly_once"
    writers = [producer(flow.source, transactional_id=f"{flow.topic}-{i}") for i in range(2)]
    plain = producer(flow.source, compression_type="lz4", linger_ms=5)
    for writer in writers:
        writer.init_transactions(30)
    for session in range(3):
        for number in range(session * 20, session * 20 + 20):
            _round(flow, number, writers, plain)
        flow.run(batch_path, flow.at_end(), delivery=delivery)
    assert _check(flow) > 1200


def test_copying_while_the_source_is_written(flow: Flow) -> None:
    """Many small transactions of the lane: each brings a marker on the target."""
    writing = producer(flow.source, linger_ms=0)
    written = 0

    def done(_: object) -> bool:
        nonlocal written
        for _ in range(7):
            writing.produce(flow.topic, b"%d" % written)
            written += 1
        writing.flush(20)
        return written > 120

    flow.run(batch_path, done)
    flow.run(batch_path, flow.at_end())
    assert _check(flow) >= 120
    assert len(offset_map(flow).stretches) < 6


def test_both_sides_compacted_before_and_after(plain: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    """A consumer that goes on at the translated offset sees exactly the survivors it has not seen."""
    flow = Flow(plain["east"], plain["west"], unique)
    eager = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "100"}
    eager |= {"max_compaction_lag_ms": "100", "file_delete_delay_ms": "100"}
    create_topic(flow.source, flow.topic, **eager)
    create_topic(flow.target, flow.remote, **eager)
    map_topic(flow.target)
    writing = producer(flow.source, compression_type="lz4", linger_ms=20)
    born: dict[bytes, int] = {}

    def write(numbers: range) -> None:
        def delivered(_: object, message: object) -> None:
            born[message.value()] = message.offset()  # type: ignore[attr-defined]

        for i in numbers:
            writing.produce(flow.topic, b"%d" % i, b"%d" % (i % 97 if i % 3 else i), on_delivery=delivered)
        writing.flush(20)

    write(range(900))
    _until_compacted(flow, write, 900)
    copied = _copied(flow)
    write(range(2000, 2600))
    copied += _copied(flow)
    until, number = time.monotonic() + 90, 3000
    while len(again := placed(flow.target, flow.remote)) > copied - 100:
        assert time.monotonic() < until, "the target was never compacted"
        time.sleep(0.3)
        number += 1
        write(range(number, number + 1))  # a record, so that the segment before it is closed
        flow.run(batch_path, flow.at_end())
    end = flow.position().offset
    pairs = sorted((born[value], target) for value, target in again.items())
    ours = offset_map(flow)
    for source in range(end + 1):
        found = ours.downstream(source)
        assert found.exact
        assert found.offset is not None
        seen = [born_at for born_at, target in pairs if target >= found.offset]
        assert seen == [born_at for born_at, _ in pairs if born_at >= source], source


def _copied(flow: Flow) -> int:
    report, _ = flow.run(batch_path, flow.at_end())
    return report.progress.partitions[0].records


def _until_compacted(flow: Flow, write: Callable[[range], None], written: int) -> None:
    until, number = time.monotonic() + 90, written
    while len(placed(flow.source, flow.topic)) > written - 100:
        assert time.monotonic() < until, "the source was never compacted"
        write(range(number, number + 1))  # a record, so that the segment before it is closed
        number += 1
        time.sleep(0.3)


def test_what_the_source_has_deleted_leaves_the_map_and_the_rest_stays_exact(flow: Flow) -> None:
    writing = producer(flow.source)
    for session in range(4):
        for i in range(50):
            writing.produce(flow.topic, b"%d %d" % (session, i))
        writing.flush(20)
        flow.run(batch_path, flow.at_end())
        writing.produce(flow.topic, b"%d is lost of the map" % session)  # so that each session has a chunk of its own
        writing.flush(20)
        flow.set_position(51 * (session + 1))
    before = offset_map(flow)
    admin = AdminClient(flow.source.super_client())
    (deleted,) = admin.delete_records([TopicPartition(flow.topic, 0, 110)]).values()
    deleted.result(20)

    async def pruned() -> int:
        source, target = cluster_of(flow.source), cluster_of(flow.target)
        try:
            return await prune(source, target, flow.topic, [(flow.topic, 0)])
        finally:
            source.close()
            target.close()

    assert [stretch.begin for stretch in before.stretches] == [0, 51, 102, 153]
    assert asyncio.run(pruned()) == 2
    assert asyncio.run(pruned()) == 0
    after = offset_map(flow)
    assert [stretch.begin for stretch in after.stretches] == [102, 153]
    for position in range(110, 203):
        assert after.downstream(position) == before.downstream(position)
