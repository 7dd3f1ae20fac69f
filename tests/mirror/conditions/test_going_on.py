"""``on_condition: continue``: the partition goes on behind what is lost, and the count of it is exact."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import LaneProgress
from reconciler_sandbox.handles import Sandbox

from reconciler.replication.names import CONTINUABLE
from tests.support.lanes.lane_runs import Content, Flow, caught_up, fill

CreateTopic = Callable[..., str]
ALL = frozenset(CONTINUABLE)
NOW = int(time.time() * 1000)


def _records(count: int, size: int = 50, first: int = 0) -> list[Content]:
    return [(b"%d" % (first + i), b"v" * size, (), NOW) for i in range(count)]


@pytest.fixture
def flow(plain: Sandbox, unique: str) -> Flow:
    return Flow(plain["east"], plain["west"], unique, 1)


def _both(flow: Flow, create_topic: CreateTopic, **target: str) -> None:
    create_topic(flow.source, flow.topic, 1, retention_ms="-1")
    create_topic(flow.target, flow.remote, 1, retention_ms="-1", **target)


def _lost(progress: LaneProgress) -> list[tuple[str, int, int, int]]:
    return [(one.code, one.offsets, one.records, one.batches) for p in progress.partitions for one in p.losses]


def test_retention_that_passed_is_gone_past_and_counted(flow: Flow, create_topic: CreateTopic) -> None:
    _both(flow, create_topic)
    fill(flow.source, flow.topic, _records(50))
    flow.run(batch_path, continue_on=ALL)
    fill(flow.source, flow.topic, _records(200, first=50))
    admin, until = AdminClient(flow.source.super_client()), TopicPartition(flow.topic, 0, 180)
    admin.delete_records([until])[until].result(20)
    report, _ = flow.run(batch_path, continue_on=ALL)
    assert _lost(report.progress) == [("source_retention_passed", 130, 0, 0)]
    assert report.progress.conditions == ()
    assert [key for key, *_ in flow.target_content()[0]] == [b"%d" % i for i in (*range(50), *range(180, 250))]
    report, _ = flow.run(batch_path, continue_on=ALL)
    assert _lost(report.progress) == []


def test_a_position_beyond_the_source_goes_back_to_its_end_and_on_from_there(
    flow: Flow, create_topic: CreateTopic
) -> None:
    _both(flow, create_topic)
    fill(flow.source, flow.topic, _records(50))
    flow.set_position(60)
    report, _ = flow.run(batch_path, continue_on=ALL)
    assert _lost(report.progress) == [("source_truncated", 10, 0, 0)]
    assert flow.position().offset == 50
    fill(flow.source, flow.topic, _records(7, first=50))
    flow.run(batch_path, continue_on=ALL)
    assert flow.target_content()[0] == flow.source_content()[0][50:]


def test_only_the_refused_records_are_left_out(flow: Flow, create_topic: CreateTopic) -> None:
    _both(flow, create_topic, cleanup_policy="compact")
    good = _records(30)
    bad: Content = (None, b"no key", (), NOW)
    fill(flow.source, flow.topic, [*good[:10], bad, *good[10:25], bad, bad, *good[25:]], linger_ms=100)
    report, _ = flow.run(batch_path, continue_on=ALL)
    assert _lost(report.progress) == [("record_refused", 3, 3, 0)]
    assert [key for key, *_ in flow.target_content()[0]] == [key for key, *_ in good]


def test_a_record_above_the_targets_limit_is_left_out(flow: Flow, create_topic: CreateTopic) -> None:
    _both(flow, create_topic, max_message_bytes="20000")
    fill(flow.source, flow.topic, [*_records(10), (b"big", b"x" * 50_000, (), NOW), *_records(10)], linger_ms=50)
    report, _ = flow.run(batch_path, continue_on=ALL)
    assert _lost(report.progress) == [("record_refused", 1, 1, 0)]
    assert len(flow.target_content()[0]) == 20


def test_what_is_not_named_still_stops(flow: Flow, create_topic: CreateTopic) -> None:
    _both(flow, create_topic)
    fill(flow.source, flow.topic, _records(50))
    flow.set_position(60)
    others = ALL - {"source_truncated"}

    def stopped(progress: LaneProgress) -> bool:
        return any(one.code == "source_truncated" and one.stops for one in progress.conditions)

    report, _ = flow.run(batch_path, stopped, continue_on=others)
    assert _lost(report.progress) == []


def _corrupt(flow: Flow, base: int) -> None:
    """Flips a byte of the records of the batch at offset ``base``, in the source broker's own file."""
    folder = next(flow.source.home.rglob(f"{flow.topic}-0"))
    log = next(folder.glob("*.log"))
    raw = bytearray(log.read_bytes())
    at = 0
    while int.from_bytes(raw[at : at + 8], "big") != base:
        at += 12 + int.from_bytes(raw[at + 8 : at + 12], "big")
    raw[at + 70] ^= 0xFF
    with log.open("r+b") as handle:
        handle.seek(at + 70)
        handle.write(raw[at + 70 : at + 71])


@pytest.mark.parametrize(("sizes", "which"), [((20, 30, 50), 0), ((20, 30, 50), 2), ((2, 3, 5), 1)])
def test_a_corrupt_batch_is_left_out_wherever_it_lies(
    which: int, sizes: tuple[int, ...], flow: Flow, create_topic: CreateTopic
) -> None:
    _both(flow, create_topic)
    wanted: list[bytes] = []
    bases = [sum(sizes[:i]) for i in range(3)]
    for i, size in enumerate(sizes):
        fill(flow.source, flow.topic, _records(size, first=bases[i]), linger_ms=200)
        wanted += [b"%d" % (bases[i] + n) for n in range(size) if i != which]
    _corrupt(flow, bases[which])
    report, _ = flow.run(batch_path, caught_up, continue_on=ALL)
    assert _lost(report.progress) == [("corrupt_source_batch", sizes[which], 0, 1)]
    assert [key for key, *_ in flow.target_content()[0]] == wanted


@pytest.mark.parametrize("before", [(20,), (5, 5, 5, 5)], ids=["one batch", "batches that are gathered"])
def test_a_corrupt_batch_stops_its_partition_by_default(
    before: tuple[int, ...], flow: Flow, create_topic: CreateTopic
) -> None:
    """What lies before it is copied, also where one answer of the source holds both."""
    _both(flow, create_topic)
    for size in (*before, 20):
        fill(flow.source, flow.topic, _records(size), linger_ms=200)
    _corrupt(flow, 20)

    def stopped(progress: LaneProgress) -> bool:
        codes = [one.code for one in progress.conditions if one.stops]
        return codes == ["corrupt_source_batch"] and progress.partitions[0].position == 20

    report, _ = flow.run(batch_path, stopped)
    assert "not copied further than source offset 20" in report.progress.conditions[0].text
    assert report.progress.partitions[0].waiting_since_ms == NOW, "how long it is behind is told"
    assert [key for key, *_ in flow.target_content()[0]] == [b"%d" % i for size in before for i in range(size)]
