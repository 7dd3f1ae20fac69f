"""Whoever may write one topic writes what they like: at most that partition stops, with words."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reconciler_mirror.conditions.lane import corrupt
from reconciler_mirror.lane.fetch import pieces as sorting
from reconciler_mirror.lane.fetch.pieces import delivered_pieces, pieces_of
from reconciler_mirror.lane.partition import Partition, SourceLog
from reconciler_mirror.model.lane import RecordWork

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.protocol.fetch import FetchedPartition
from reconciler.kafka.records import codecs, records
from reconciler.kafka.records.batches import CorruptBatchError, build, scan
from reconciler.kafka.records.codecs import ZSTD, compress
from reconciler.kafka.records.records import records_of, varint
from tests.support.lanes.batches import SPEC, Plain, batch_of, checked, work_on

NOW = 1_700_000_000_000
ROOM = 1 << 20


def batch(base: int, timestamp: int = NOW, delta: int = 0, value: bytes = b"v", codec: int = 0) -> bytes:
    """One record, as the broker takes it: Java wraps the sum of timestamp and delta."""
    content = b"\0" + varint(delta) + b"\0\2k" + varint(len(value)) + value + b"\0"
    body = varint(len(content)) + content
    raw = build(codec, compress(codec, body), (timestamp, NOW), 1)
    struct.pack_into(">q", raw, 0, base)
    return bytes(checked(raw))


def poison(base: int) -> bytes:
    """The base timestamp -2^63 and a delta that wraps to now."""
    return batch(base, -(2**63), NOW - 2**63)


def fetched(*batches: bytes) -> tuple[list[Any], int, Partition]:
    partition = Partition(SPEC, log=SourceLog(committed=0, reached=0, covered=0))
    answer = FetchedPartition("orders", 3, 0, 10**9, 10**9, 0, (), -1, memoryview(b"".join(batches)))
    return (*pieces_of(partition, answer, None, delivered_pieces), partition)


def copied(pieces: list[Any]) -> list[tuple[int, int]]:
    return [span for piece in pieces for span in piece.copied]


def test_timestamps_that_wrap_are_gathered_like_others() -> None:
    """One such producer stopped every topic of its lane for good."""
    pieces, covered, partition = fetched(*(poison(at) if at % 2 else batch(at) for at in range(300)))
    assert (covered, partition.hold.why, copied(pieces)) == (300, "small batches gathered", [(0, 300)])
    (made,) = scan(memoryview(bytes(pieces[0].raw)))
    raw = memoryview(bytes(checked(bytearray(pieces[0].raw))))
    assert {record.timestamp for record in records_of(raw, made._replace(crc=scan(raw)[0].crc))} == {NOW}


def test_a_filter_reads_them_as_kafka_does() -> None:
    pieces, covered, _ = work_on(poison(0) + batch(1), RecordWork())
    assert (covered, copied(pieces)) == (2, [(0, 2)])


@pytest.mark.parametrize("error", [struct.error("argument out of range"), MemoryError(), RecursionError(), KeyError(1)])
def test_whatever_goes_wrong_with_a_batch_is_that_partitions_condition(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(sorting, "gather", broken)
    monkeypatch.setattr(sorting, "_log", SimpleNamespace(exception=lambda *_, **__: None))
    with pytest.raises(MalformedResponseError, match=type(error).__name__) as caught:
        fetched(batch(0), batch(1))
    condition = corrupt(SPEC, 7, str(caught.value))
    assert condition.stops
    assert (condition.topic, condition.partition) == ("orders", 3)
    assert "source offset 7" in condition.text


def test_what_lies_before_it_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    gather = records.gather

    def broken(view: memoryview, batches: Any, largest: int) -> Any:
        if any(each.base >= 3 for each in batches):
            raise ZeroDivisionError
        return gather(view, batches, largest)

    monkeypatch.setattr(sorting, "gather", broken)
    pieces, covered, _ = fetched(*map(batch, range(6)))
    assert (covered, copied(pieces)) == (3, [(0, 3)])


def test_a_bomb_among_small_batches_goes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert codecs.MOST_OPENED == 128 << 20, "docs/SECURITY.md names the figure"
    monkeypatch.setattr(codecs, "MOST_OPENED", ROOM)
    bomb = batch(1, value=bytes(ROOM + 1), codec=ZSTD)
    pieces, covered, _ = fetched(batch(0), bomb, batch(2))
    assert (covered, copied(pieces)) == (3, [(0, 1), (1, 1), (2, 1)])
    assert bytes(pieces[1].raw) == bomb


def test_a_bomb_that_has_to_be_opened_stops_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "MOST_OPENED", ROOM)
    bomb = batch(1, value=bytes(ROOM + 1), codec=ZSTD)
    pieces, covered, _ = work_on(batch(0) + bomb, RecordWork())
    assert (covered, copied(pieces)) == (1, [(0, 1)])
    with pytest.raises(MalformedResponseError, match="more than 1 MiB"):
        work_on(bomb, RecordWork(), position=1)


@given(st.data())
def test_no_bytes_do_more_than_stop_their_partition(data: st.DataObject) -> None:
    raw = bytearray()
    for index in range(data.draw(st.integers(1, 4))):
        count = data.draw(st.integers(1, 4))
        plain: list[Plain] = [(NOW + number, b"k", b"v" * number, [("h", b"x")]) for number in range(count)]
        raw += batch_of(plain, 10 * index, data.draw(st.integers(0, 4)))
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):  # as a producer would: the checksum is right
        for each in _scanned(raw):
            raw[each.start : each.end] = checked(raw[each.start : each.end])
    for attempt in (lambda: fetched(bytes(raw)), lambda: work_on(bytes(raw), RecordWork())):
        try:
            pieces, covered, _ = attempt()
        except (CorruptBatchError, MalformedResponseError) as error:
            if "the log of the task" in str(error):
                pytest.fail(f"a case that nobody thought of: {error}")
        else:
            assert all(first + count <= covered for first, count in copied(pieces))


def _scanned(raw: bytearray) -> list[Any]:
    try:
        return [SimpleNamespace(start=b.start, end=b.end) for b in scan(memoryview(bytes(raw))) if b.magic == 2]
    except MalformedResponseError:
        return []
