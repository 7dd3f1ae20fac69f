"""Record work on bytes: exactly the records that pass arrive, as they were but for the added headers, and the position
passes all others. The readers' side is kafka-python."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reconciler_mirror.lane.fetch.pieces import delivered_pieces, pieces_of
from reconciler_mirror.model.lane import ProvenanceSettings, RecordWork
from reconciler_mirror.record_work import provenance_header as provenance
from reconciler_mirror.record_work.on_bytes import RecordWorker

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.protocol.fetch import FetchedPartition
from reconciler.kafka.records import fields
from reconciler.kafka.records.batches import CorruptBatchError
from reconciler.kafka.records.records import Record
from reconciler.replication.expressions.record_filter import (
    AddedHeader,
    Exists,
    Header,
    Key,
    Matches,
    Not,
    Prefix,
    Timestamp,
    Where,
)
from reconciler.replication.handover import FORWARD, LOCAL, Provenance
from tests.support.lanes.batches import (
    EAST,
    GROUND,
    NORTH,
    SPEC,
    WEST,
    Plain,
    batch_of,
    checked,
    read,
    work_on,
)

_data = st.none() | st.binary(max_size=30)
_headers = st.lists(st.tuples(st.sampled_from(["a", "b", "é", ""]), _data), max_size=4)
_records = st.lists(st.tuples(st.integers(-5, 2**45), _data, _data, _headers), min_size=1, max_size=12)
_batches = st.lists(st.tuples(_records, st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=6)
_works = st.sampled_from(
    [
        Header("a", Exists(True)),
        Not(Header("a", Exists(True))),
        Key(Exists(True)),
        Key(Prefix(b"")),
        Timestamp(2**40),
        Timestamp(-5),
        Timestamp(2**46),
    ]
)


def passing(where: Where, plain: Plain) -> bool:
    """What the tests above mean, said once more by hand."""
    timestamp, key, _, headers = plain
    has = any(name == "a" for name, _ in headers)
    match where:
        case Header():
            return has
        case Not():
            return not has
        case Key():
            return key is not None
        case Timestamp(low, _):
            return low is None or timestamp >= low
    raise AssertionError(where)


@given(_batches, _works, st.sampled_from([1 << 31, 300]))
def test_exactly_the_records_that_pass_arrive_and_the_position_passes_all(
    batches: list[tuple[list[Plain], int, int]], where: Where, largest: int
) -> None:
    raw, offset, expected = bytearray(), 0, []
    for plain, codec, gap in batches:
        raw += batch_of(plain, offset, codec)
        expected += [one for one in plain if passing(where, one)]
        offset += len(plain) + gap
    total = sum(len(plain) for plain, _, _ in batches)
    pieces, covered, partition = work_on(raw, RecordWork(where), largest=largest)
    assert [record for piece in pieces for record in read(piece)] == expected
    assert sum(piece.records for piece in pieces) == len(expected)
    assert covered == offset - batches[-1][2]
    steps = [piece.next_offset for piece in pieces]
    assert steps == sorted(set(steps))
    partition.figures.committed(covered, None)
    assert partition.figures.filtered == total - len(expected)


@given(_batches, st.integers(0, 40))
def test_a_start_in_the_middle_keeps_only_what_is_not_before(
    batches: list[tuple[list[Plain], int, int]], position: int
) -> None:
    raw, offset, expected = bytearray(), 0, []
    for plain, codec, gap in batches:
        raw += batch_of(plain, offset, codec)
        expected += [one for index, one in enumerate(plain) if offset + index >= position]
        offset += len(plain) + gap
    pieces, _, _ = work_on(raw, RecordWork(Timestamp(-5)), position=position)
    assert [record for piece in pieces for record in read(piece)] == expected


@given(_batches)
def test_added_headers_come_last_and_nothing_else_changes(batches: list[tuple[list[Plain], int, int]]) -> None:
    raw, offset, expected = bytearray(), 0, []
    for plain, codec, gap in batches:
        raw += batch_of(plain, offset, codec)
        for index, (timestamp, key, value, headers) in enumerate(plain):
            added = [("from", b"east/orders-3"), ("at", b"%d" % (offset + index)), ("a", b"{x}")]
            expected.append((timestamp, key, value, [*headers, *added]))
        offset += len(plain) + gap
    wished = ("from", "{source_cluster}/{topic}-{partition}"), ("at", "{offset}"), ("a", "{{x}}")
    pieces, _, _ = work_on(raw, RecordWork(headers=tuple(AddedHeader(*one) for one in wished)))
    assert [record for piece in pieces for record in read(piece)] == expected


def test_a_batch_of_which_everything_passes_travels_whole() -> None:
    plain: list[Plain] = [(1000 + i, b"k", b"v%d" % i, []) for i in range(50)]
    raw = batch_of(plain, 0, 3)
    pieces, _, _ = work_on(raw, RecordWork(Key(Exists(True))))
    assert [bytes(piece.raw) for piece in pieces] == [bytes(raw)]


def test_neighbours_are_gathered_also_over_batches_that_are_left_out_as_a_whole() -> None:
    raw = bytearray()
    for offset in range(1000):
        raw += batch_of([(offset, b"k" if offset % 10 else None, b"v", [])], offset)
    pieces, covered, partition = work_on(raw, RecordWork(Key(Exists(True))))
    assert [(piece.records, piece.next_offset) for piece in pieces] == [(900, 1000)]
    raw = bytearray().join(batch_of([(1, None, b"v", [])], offset) for offset in range(20))
    pieces, covered, partition = work_on(raw, RecordWork(Key(Exists(True))))
    assert (pieces, covered) == ([], 20)
    partition.figures.committed(20, None)
    assert partition.figures.filtered == 20


def test_what_is_left_out_counts_once_when_it_is_read_again() -> None:
    raw = batch_of([(1, None, b"v", [])] * 5, 0) + batch_of([(1, None, b"v", [])] * 5, 5)
    _, covered, partition = work_on(raw, RecordWork(Key(Exists(True))))
    partition.figures.committed(5, None)
    partition.log.reached = 5
    partition.drop_unsent()
    partition.log.covered = 5
    partition.figures.passed.forget_beyond(5)
    pieces_of(partition, FetchedPartition("orders", 3, 0, 10, 10, 0, (), -1, memoryview(raw)), None, delivered_pieces)
    partition.figures.committed(covered, None)
    assert partition.figures.filtered == 10


def test_awkward_records_survive() -> None:
    many: list[tuple[str, bytes | None]] = [(f"h{i}", None if i % 3 else b"x" * i) for i in range(200)]
    plain: list[Plain] = [
        (-1, None, None, many),
        (-(2**40), b"", b"", []),
        (5, b"big", bytes(range(256)) * 3600, [("h", b"")]),
    ]
    for codec in range(5):
        pieces, _, _ = work_on(batch_of(plain, 7, codec), RecordWork(headers=(AddedHeader("x", "y"),)))
        assert [r for piece in pieces for r in read(piece)] == [(t, k, v, [*h, ("x", b"y")]) for t, k, v, h in plain]


def test_append_time_becomes_the_records_time_and_holes_stay_holes() -> None:
    raw = batch_of([(5, b"a", b"1", []), (9, b"b", b"2", [])], 4)
    raw[22] |= 0x08
    struct.pack_into(">q", raw, 35, 7777)
    checked(raw)
    pieces, _, _ = work_on(raw, RecordWork(Timestamp(7000)))
    assert [record[0] for piece in pieces for record in read(piece)] == [7777, 7777]
    pieces, _, _ = work_on(raw, RecordWork(Timestamp(8000)))
    assert pieces == []


@given(_records, st.data())
def test_a_flipped_bit_is_found_before_anything_is_sent(plain: list[Plain], choice: st.DataObject) -> None:
    raw = batch_of(plain, 0)
    bit = choice.draw(st.integers(61 * 8, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << bit % 8
    with pytest.raises((CorruptBatchError, MalformedResponseError)):
        work_on(raw, RecordWork(headers=(AddedHeader("x", "y"),)))


def test_fields_that_do_not_fill_a_record_are_an_error() -> None:
    worker = RecordWorker(RecordWork(Header("a", Exists(True))), SPEC, ("flow", "east"), GROUND)
    for tail in (b"", b"\x10k", b"\x02k\x02v", b"\x02k\x02v\x02", b"\x01\x01\x00rest"):
        with pytest.raises(MalformedResponseError):
            worker.apply([Record(0, 0, 0, memoryview(tail))])


def test_a_value_that_takes_too_long_to_be_judged_stops_behind_the_records_before_it() -> None:
    """Whoever produces it must not keep the lane: 400 instructions times a megabyte are too many."""
    work = RecordWork(Key(Matches("(?:a|b)*a(?:a|b){200}c|x")))
    small, large = batch_of([(1, b"x", b"v", [])], 0), batch_of([(1, b"ab" * (1 << 19), b"v", [])], 1)
    began = time.thread_time()
    pieces, covered, _ = work_on(small + large, work)
    assert [record[1] for piece in pieces for record in read(piece)] == [b"x"]
    assert covered == 1
    with pytest.raises(MalformedResponseError, match="where of the flow cannot judge a record: 1,048,576 bytes, and"):
        work_on(large, work)
    assert time.thread_time() - began < 2.0


# provenance


def copied(plain: Sequence[Plain], source: bytes, target: bytes, carry: str = FORWARD) -> list[Plain]:
    work = RecordWork(provenance=Provenance(carry))
    pieces, _, _ = work_on(batch_of(plain, 0), work, ProvenanceSettings(source, target))
    return [record for piece in pieces for record in read(piece)]


@given(_records)
def test_a_copy_names_its_clusters_once_and_never_returns(plain: list[Plain]) -> None:
    at_west = copied(plain, EAST, WEST)
    assert [(t, k, v, h[:-1]) for t, k, v, h in at_west] == plain
    assert copied(at_west, WEST, EAST) == []
    at_north = copied(at_west, WEST, NORTH)
    assert len(at_north) == len(plain)
    assert copied(at_north, NORTH, EAST) == copied(at_north, NORTH, WEST) == []
    assert copied(at_west, WEST, NORTH, LOCAL) == []
    for _, key, value, headers in at_north:
        marks = [data for name, data in headers if name == "mirror.path"]
        check = provenance.check_of("orders", fields.body(key, value))
        assert [provenance.path_of(mark, check) for mark in marks] == [(EAST, WEST)]


def test_the_bytes_of_the_header() -> None:
    ((_, _, _, headers),) = copied([(1, b"k", b"v", [])], EAST, WEST)
    name, value = headers[-1]
    assert name == "mirror.path"
    assert value is not None
    assert len(value) == 11
    assert value[:1] == b"\x01"
    assert value[5:] == EAST == bytes.fromhex("6bdb262b0201"), "the first six bytes of the cluster id's sha256"


def test_a_header_that_an_application_handed_on_does_not_keep_its_own_record() -> None:
    ((stamp, key, _, headers),) = copied([(1, b"k", b"v", [])], EAST, WEST)
    ((_, _, _, again),) = copied([(stamp, key, b"another value", headers)], WEST, EAST)
    assert [name for name, _ in again] == ["mirror.path"]
    assert copied([(stamp, key, b"v", headers)], WEST, EAST) == []
