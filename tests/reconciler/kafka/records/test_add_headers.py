"""Headers added without taking records apart: what kafka-python reads is what was there, and the headers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.produce.outbox import Piece
from reconciler_mirror.model.lane import RecordWork

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.records import fields
from reconciler.kafka.records.add_headers import with_headers_added
from reconciler.kafka.records.batches import HEADER, CorruptBatchError, scan
from reconciler.replication.expressions.record_filter import AddedHeader
from tests.support.lanes.batches import Plain, batch_of, checked, read, work_on

_sizes = st.sampled_from([0, 1, 30, 63, 64, 200, 8191, 8192, 20_000])
_data = st.none() | _sizes.map(lambda size: b"x" * size) | st.binary(max_size=30)
_headers = st.lists(st.tuples(st.sampled_from(["a", "é", ""]), st.none() | st.binary(max_size=20)), max_size=3)
_records = st.lists(st.tuples(st.integers(-5, 2**45), _data, _data, _headers), min_size=1, max_size=12)
_added = st.lists(st.tuples(st.sampled_from(["from", "n" * 70]), st.binary(max_size=90)), min_size=1, max_size=70)


def _spliced(raw: bytes | bytearray, added: list[tuple[str, bytes]]) -> list[Plain]:
    view = memoryview(bytes(raw))
    (batch,) = scan(view)
    more = b"".join(fields.encoded(name.encode(), value) for name, value in added)
    made = checked(with_headers_added(view, batch, len(added), more))
    (after,) = scan(memoryview(made))
    assert (after.records, after.last_delta) == (batch.records, batch.last_delta)
    assert (after.base_timestamp, after.max_timestamp) == (batch.base_timestamp, batch.max_timestamp)
    return read(Piece(memoryview(made), after.records, 0, 0, 0, ()))


@given(_records, _added, st.integers(0, 4))
def test_every_record_has_them_behind_its_own_and_is_else_as_it_was(
    plain: list[Plain], added: list[tuple[str, bytes]], codec: int
) -> None:
    expected = [(timestamp, key, value, [*headers, *added]) for timestamp, key, value, headers in plain]
    assert _spliced(batch_of(plain, 7, codec), added) == expected


@given(_records, st.data())
def test_a_flipped_bit_is_found(plain: list[Plain], choice: st.DataObject) -> None:
    raw = batch_of(plain, 0)
    bit = choice.draw(st.integers(HEADER * 8, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptBatchError):
        _spliced(raw, [("a", b"1")])


@given(_records, st.data())
def test_records_that_do_not_add_up_are_an_error_and_nothing_else(plain: list[Plain], choice: st.DataObject) -> None:
    """With a checksum that is right: a producer that errs. What can be read all the same has as many records."""
    raw = batch_of(plain, 0)
    at = choice.draw(st.integers(HEADER, len(raw) - 1))
    raw[at] = choice.draw(st.integers(0, 255))
    view = memoryview(bytes(checked(raw)))
    (batch,) = scan(view)
    try:
        made = with_headers_added(view, batch, 1, fields.encoded(b"a", b"1"))
    except MalformedResponseError:
        return
    (after,) = scan(memoryview(made))
    assert after.records == batch.records


def _worked(count: int, work: RecordWork, largest: int = 1 << 31) -> tuple[list[Piece], Partition]:
    plain: list[Plain] = [(1000 + i, b"k", b"v%d" % i, []) for i in range(count)]
    raw = batch_of(plain, 0, 3) + batch_of(plain, count, 3)
    pieces, _, partition = work_on(raw, work, largest=largest)
    assert [headers for piece in pieces for *_, headers in read(piece)] == [[("x", b"orders")]] * 2 * count
    assert [(piece.next_offset, piece.copied) for piece in pieces][-1][0] == 2 * count
    return pieces, partition


def test_big_batches_stay_apart_and_small_ones_are_gathered() -> None:
    work = RecordWork(headers=(AddedHeader("x", "{topic}"),))
    assert [piece.records for piece in _worked(50, work)[0]] == [50, 50]
    assert [piece.records for piece in _worked(10, work)[0]] == [20]


def test_one_that_becomes_too_large_is_split() -> None:
    pieces, _ = _worked(200, RecordWork(headers=(AddedHeader("x", "{topic}"),)), largest=1000)
    assert all(len(piece.raw) <= 1000 for piece in pieces)
    assert len(pieces) > 2
