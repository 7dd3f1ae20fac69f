"""What arrives is what was there: keys, values, headers, timestamps and order, whatever the batches look like."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import LaneEnd, RecordWork
from reconciler_sandbox.handles import Sandbox

from reconciler.kafka.client import transactions
from reconciler.kafka.records.batches import CODEC, build, scan, seal
from reconciler.kafka.records.records import varint
from reconciler.replication.expressions.record_filter import AddedHeader
from reconciler.replication.names import OFFSETS_PARTITIONS, OwnTopics
from tests.support.lanes.lane_runs import Content, Flow, fill
from tests.support.lanes.raw import produce_raw, send

CreateTopic = Callable[..., str]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NOW = int(time.time() * 1000)


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: CreateTopic) -> Flow:
    made = Flow(plain["east"], plain["west"], unique, 2)
    create_topic(made.source, made.topic, 2)
    create_topic(made.target, made.remote, 2)
    return made


def _awkward() -> list[Content]:
    many = tuple((f"h{i}", b"v" * (i % 7)) for i in range(200))
    return [
        (b"tombstone", None, (), NOW),
        (None, b"no key", (), NOW + 1),
        (None, None, (), NOW + 2),
        (b"", b"", (), NOW + 3),
        (b"k", b"v", (("twice", b"1"), ("twice", b"2"), ("null", None), ("", b"")), NOW - 500_000),
        (b"many", b"headers", many, NOW + 4),
        (b"big", bytes(range(256)) * 3600, (), NOW + 5),
        *((b"%d" % i, b"x" * (i % 300), (), NOW + i * 17 % 999) for i in range(700)),
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_awkward_records_are_equal_in_every_codec(flow: Flow, codec: str) -> None:
    for partition in range(2):
        fill(flow.source, flow.topic, _awkward(), partition, compression_type=codec, linger_ms=20)
    report, _ = flow.run(batch_path)
    assert report.end is LaneEnd.STOPPED, report
    source = flow.source_content()
    assert [len(records) for records in source.values()] == [707, 707]
    assert flow.target_content() == source


@pytest.mark.parametrize("work", [RecordWork(), RecordWork(headers=(AddedHeader("at", "{offset}"),))])
def test_a_target_gets_no_compressed_records_and_no_long_requests_where_it_refuses_them(
    flow: Flow, unique: str, create_topic: CreateTopic, work: RecordWork
) -> None:
    """As Event Hubs: neither copies nor the offset map are compressed, whatever the source has."""
    own = OwnTopics(f"{unique}.").offsets
    create_topic(flow.target, own, OFFSETS_PARTITIONS, cleanup_policy="compact")
    for codec in CODECS:
        fill(flow.source, flow.topic, _awkward(), compression_type=codec, linger_ms=20)
        fill(flow.source, flow.topic, [(b"k", b"small", (), NOW)] * 3, 1, compression_type=codec)
    target = replace(flow.lane().target, topic_prefix=f"{unique}.", uncompressed=True, request_bytes=100_000)
    report, _ = flow.run(batch_path, target=target, delivery="at_least_once", work=work)
    assert report.end is LaneEnd.STOPPED, report
    copied = [[record[:2] for record in part] for part in flow.target_content().values()]
    assert copied == [[record[:2] for record in part] for part in flow.source_content().values()]
    logs = {name: list(flow.target.folder.glob(f"*/data/{name}-*/*.log")) for name in (flow.remote, own)}
    for name, files in logs.items():
        batches = [batch for file in files for batch in scan(memoryview(file.read_bytes()))]
        assert batches, name
        assert [batch for batch in batches if batch.attributes & CODEC] == [], name
        assert [batch for batch in batches if batch.records > 1 and batch.end - batch.start > 100_000] == [], name


@pytest.mark.parametrize("codec", range(5), ids=CODECS)
def test_negative_and_zero_timestamps_survive(flow: Flow, codec: int) -> None:
    stamps = [0, -1, 0, NOW, -1]
    produce_raw(flow.source, flow.topic, [(b"k%d" % i, b"v", stamp) for i, stamp in enumerate(stamps)], codec)
    flow.run(batch_path)
    assert [record[3] for record in flow.target_content()[0]] == [record[3] for record in flow.source_content()[0]]
    assert next(record[3] for record in flow.target_content()[0]) == 0


@pytest.mark.parametrize("delivery", ["exactly_once", "classic", "at_least_once"])
def test_aborted_records_are_left_out(flow: Flow, delivery: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _transactions(flow)
    if delivery == "classic":
        monkeypatch.setattr(transactions, "speaks_version_2", lambda _: False)
        delivery = "exactly_once"
    report, _ = flow.run(batch_path, delivery=delivery)
    assert report.end is LaneEnd.STOPPED, report
    copied = flow.target_content()
    assert copied == flow.source_content()
    assert not any(b"aborted" in (value or b"") for records in copied.values() for _, value, _, _ in records)
    assert sum(map(len, copied.values())) == 60 * 7 // 2 * 2


def test_read_uncommitted_copies_aborted_records_too(flow: Flow) -> None:
    _transactions(flow)
    report, _ = flow.run(batch_path, isolation="read_uncommitted")
    assert report.end is LaneEnd.STOPPED, report
    copied = flow.target_content()
    assert copied == flow.source_content("read_uncommitted")
    assert any(b"aborted" in (value or b"") for records in copied.values() for _, value, _, _ in records)


def _transactions(flow: Flow) -> None:
    """Committed, aborted and plain records from three producers, interleaved on two partitions."""
    client = flow.source.super_client()
    writers = [Producer({**client, "transactional.id": f"{flow.topic}-{i}"}) for i in range(2)]
    plain = Producer(client)
    for writer in writers:
        writer.init_transactions(30)
    for round_number in range(60):
        for writer in writers:
            writer.begin_transaction()
        for number, writer in enumerate(writers):
            fate = b"aborted" if (round_number + number) % 2 else b"kept"
            for i in range(5):
                writer.produce(flow.topic, b"%s %d %d" % (fate, round_number, i), partition=round_number % 2)
            writer.flush(20)
        for i in range(2):
            plain.produce(flow.topic, b"plain %d %d" % (round_number, i), partition=round_number % 2)
        plain.flush(20)
        for number, writer in enumerate(writers):
            (writer.abort_transaction if (round_number + number) % 2 else writer.commit_transaction)(20)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_log_append_time_topic_keeps_its_append_times(
    plain: Sandbox, unique: str, create_topic: CreateTopic, codec: str
) -> None:
    flow = Flow(plain["east"], plain["west"], unique)
    create_topic(flow.source, flow.topic, message_timestamp_type="LogAppendTime")
    create_topic(flow.target, flow.remote)
    old = NOW - 86_400_000
    fill(flow.source, flow.topic, [(b"%d" % i, b"v" * 50, (), old) for i in range(300)], compression_type=codec)
    flow.run(batch_path)
    source = flow.source_content()
    assert all(record[3] > NOW - 60_000 for record in source[0])
    assert flow.target_content() == source


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_holes_left_by_compaction(plain: Sandbox, unique: str, create_topic: CreateTopic, codec: str) -> None:
    flow = Flow(plain["east"], plain["west"], unique)
    eager = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "100"}
    create_topic(flow.source, flow.topic, **eager, max_compaction_lag_ms="100", file_delete_delay_ms="100")
    create_topic(flow.target, flow.remote)
    records: list[Content] = [(b"%d" % (i % 97 if i % 3 else i), b"%d" % i, (), NOW) for i in range(2000)]
    fill(flow.source, flow.topic, records, compression_type=codec, linger_ms=50)
    until = time.monotonic() + 90
    while len(flow.source_content()[0]) > 1500:
        assert time.monotonic() < until, "the source was never compacted"
        fill(flow.source, flow.topic, [(b"roll", b"the segment", (), int(time.time() * 1000))])
        time.sleep(1)
    flow.run(batch_path)
    copied, source = flow.target_content()[0], flow.source_content()[0]
    survivors = set(source)
    assert [record for record in copied if record in survivors] == source
    assert len(copied) <= 1500


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_start_in_the_middle_of_a_batch(flow: Flow, codec: str) -> None:
    records: list[Content] = [(b"%d" % i, b"v" * i, (("n", b"%d" % i),), NOW + i) for i in range(500)]
    fill(flow.source, flow.topic, records, compression_type=codec, linger_ms=200)
    flow.set_position(123)
    flow.run(batch_path)
    assert flow.target_content()[0] == flow.source_content()[0][123:]


def test_tiny_batches_are_gathered(flow: Flow) -> None:
    records: list[Content] = [(b"%d" % i, b"v" * 100, (("h", b"1"),), NOW + i) for i in range(3000)]
    fill(flow.source, flow.topic, records, batch_num_messages=1, compression_type="none")
    fill(flow.source, flow.topic, records, 1, batch_num_messages=2, compression_type="lz4")
    report, _ = flow.run(batch_path)
    assert flow.target_content() == flow.source_content()
    ways = {(p.path, p.path_reason) for p in report.progress.partitions if p.partition < 2}
    assert ways == {("record level", "small batches gathered")}


def test_timestamps_that_wrap_in_64_bits_stop_no_lane(flow: Flow) -> None:
    """A broker takes them, because Java adds longs; a lane that did not began again for ever, with all its topics."""
    fill(flow.source, flow.topic, [(b"k", b"other partition", (), NOW)], 1)
    for _ in range(4):
        content = b"\0" + varint(NOW - 2**63) + b"\0\2k\2v\0"
        raw = build(0, varint(len(content)) + content, (-(2**63), NOW), 1)
        seal(memoryview(raw), (-1, -1), -1, transactional=False)
        assert asyncio.run(send(flow.source, flow.topic, memoryview(raw))) == 0
    report, _ = flow.run(batch_path)
    assert report.end is LaneEnd.STOPPED, report
    assert [record[3] for record in flow.target_content()[0]] == [NOW] * 4
    assert flow.target_content() == flow.source_content()
