"""Batch headers: read, filtered, patched. Builders of kafka-python serve as a second opinion."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.records.batches import (
    CONTROL,
    HEADER,
    TRANSACTIONAL,
    Batch,
    CommittedFilter,
    CorruptBatchError,
    next_sequence,
    scan,
    seal,
    verify,
    why_not_whole,
)

LIMIT = 1 << 20


def made(count: int = 3, timestamp: int = 1000, codec: int = 0) -> bytearray:
    builder = MemoryRecordsBuilder(2, codec, LIMIT)
    for i in range(count):
        builder.append(timestamp + i, b"key%d" % i, b"value", [("h", b"1")])
    builder.close()
    return bytearray(builder.buffer())


def with_header(raw: bytearray, base: int = 0, **fields: int) -> bytearray:
    """``raw`` with header fields changed and its checksum made right again."""
    places = {"attributes": (">h", 21), "last_delta": (">i", 23), "producer_id": (">q", 43), "records": (">i", 57)}
    out = bytearray(raw)
    struct.pack_into(">q", out, 0, base)
    for name, value in fields.items():
        layout, at = places[name]
        struct.pack_into(layout, out, at, value)
    struct.pack_into(">I", out, 17, crc32c(out[21:]))
    return out


def control(base: int, producer_id: int, kind: int) -> bytearray:
    """``kind`` 0 aborts, 1 commits (ControlRecordType)."""
    body = b"\x20\x00\x00\x00\x08" + struct.pack(">hh", 0, kind) + b"\x0c\x00\x00\x00\x00\x00\x00\x00"
    header = made(1)[:HEADER]
    struct.pack_into(">i", header, 8, HEADER - 12 + len(body))
    return with_header(header + body, base, attributes=TRANSACTIONAL | CONTROL, producer_id=producer_id)


def transactional(base: int, producer_id: int) -> bytearray:
    return with_header(made(1), base, attributes=TRANSACTIONAL, producer_id=producer_id)


def test_scan_reads_what_the_builder_wrote() -> None:
    raw = with_header(made(5, 77), 42) + with_header(made(2), 47)
    first, second = scan(memoryview(raw))
    assert (first.base, first.records, first.last_delta, first.magic) == (42, 5, 4, 2)
    assert (first.base_timestamp, first.max_timestamp, first.next_offset) == (77, 81, 47)
    assert (second.base, second.start, second.end) == (47, first.end, len(raw))


@given(st.integers(0, 400))
def test_a_batch_cut_short_is_left_out(cut: int) -> None:
    whole, last = with_header(made(3), 0), with_header(made(3), 3)
    raw = (whole + last)[: len(whole) + min(cut, len(last) - 1)]
    assert [batch.base for batch in scan(memoryview(raw))] == [0]


@given(st.binary(max_size=300))
def test_scan_never_reads_past_its_bytes(raw: bytes) -> None:
    try:
        found = scan(memoryview(raw))
    except MalformedResponseError:
        return
    assert all(0 <= batch.start < batch.end <= len(raw) for batch in found)


@pytest.mark.parametrize(("field", "value"), [("last_delta", -1), ("records", -1), ("records", 9)])
def test_impossible_headers_are_an_error(field: str, value: int) -> None:
    with pytest.raises(MalformedResponseError):
        scan(memoryview(with_header(made(3), 0, **{field: value})))


def test_seal_changes_the_header_and_nothing_else() -> None:
    source = with_header(made(3), 91, attributes=0x08 | 0x10 | 0x40 | 3)
    raw = bytearray(source)
    seal(memoryview(raw), (7001, 5), 12, transactional=True)
    (batch,) = scan(memoryview(raw))
    assert raw[HEADER:] == source[HEADER:]
    assert raw[23:43] == source[23:43]
    assert (batch.base, batch.leader_epoch, batch.attributes) == (0, -1, TRANSACTIONAL | 3)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7001, 5, 12)
    verify(memoryview(raw), batch)


def test_sealed_bytes_are_these() -> None:
    """The header byte by byte, as the broker wants it (whole-batch rules: base offset 0, leader epoch -1)."""
    raw = with_header(made(1, 1000), 500, attributes=0x18)
    seal(memoryview(raw), (1, 2), 3, transactional=True)
    expected = (
        "0000000000000000" "0000004e" "ffffffff" "02" "{crc:08x}" "0010" "00000000" "00000000000003e8"
        "00000000000003e8" "0000000000000001" "0002" "00000003" "00000001"
    )  # fmt: skip
    length = len(raw) - 12
    assert raw[:HEADER].hex() == expected.replace("0000004e", f"{length:08x}").format(crc=crc32c(raw[21:]))


def test_a_sealed_batch_reads_as_before() -> None:
    raw = made(4, 123, 1)
    before = [(r.key, r.value, r.headers, r.timestamp) for r in MemoryRecords(bytes(raw)).next_batch()]
    seal(memoryview(raw), (9, 1), 0, transactional=False)
    records = MemoryRecords(bytes(raw))
    batch = records.next_batch()
    assert batch.validate_crc()
    assert [(r.key, r.value, r.headers, r.timestamp) for r in batch] == before


@given(st.data())
def test_one_flipped_bit_is_found(data: st.DataObject) -> None:
    raw = made(3)
    (batch,) = scan(memoryview(raw))
    bit = data.draw(st.integers(21 * 8, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptBatchError):
        verify(memoryview(raw), batch)


def test_sequences_wrap_after_2_to_the_31() -> None:
    assert next_sequence(2**31 - 3, 2) == 2**31 - 1
    assert next_sequence(2**31 - 1, 1) == 0
    assert next_sequence(2**31 - 2, 5) == 3


def _batch(**fields: int) -> Batch:
    (batch,) = scan(memoryview(made(3)))
    return batch._replace(**fields)


@pytest.mark.parametrize(
    ("fields", "position", "largest", "why"),
    [
        ({}, 0, LIMIT, None),
        ({"base": 10}, 11, LIMIT, "starts before the position"),
        ({"last_delta": 3}, 0, LIMIT, "holes after compaction"),
        ({}, 0, 50, "larger than max.message.bytes"),
        ({"attributes": 0x08}, 0, LIMIT, "log append time"),
        ({"magic": 1}, 0, LIMIT, "format 1"),
    ],
)
def test_why_a_batch_cannot_go_whole(fields: dict[str, int], position: int, largest: int, why: str | None) -> None:
    assert why_not_whole(_batch(**fields), position, largest) == why


def _delivered(raw: bytearray, aborted: list[tuple[int, int]]) -> list[int]:
    view = memoryview(raw)
    keep = CommittedFilter(view, aborted)
    return [batch.base for batch in scan(view) if keep.delivers(batch)]


def test_aborted_batches_and_markers_are_left_out() -> None:
    raw = transactional(0, 7) + transactional(1, 8) + control(2, 7, 0) + transactional(3, 7) + control(4, 8, 1)
    assert _delivered(raw, [(7, 0)]) == [1, 3]
    assert _delivered(raw, []) == [0, 1, 3]


def test_an_abort_that_begins_later_spares_what_was_before() -> None:
    raw = transactional(0, 7) + control(1, 7, 1) + transactional(2, 7) + control(3, 7, 0)
    assert _delivered(raw, [(7, 2)]) == [0]


def test_the_aborted_list_need_not_be_sorted() -> None:
    raw = transactional(0, 7) + control(1, 7, 0) + transactional(2, 8) + control(3, 8, 0) + transactional(4, 9)
    assert _delivered(raw, [(8, 2), (7, 0)]) == [4]


def test_plain_batches_of_an_aborted_producer_id_stay() -> None:
    assert _delivered(with_header(made(1), 0, producer_id=7) + transactional(1, 7), [(7, 0)]) == [0]


@pytest.mark.parametrize(
    ("base", "count", "sound"), [(2**63 - 3, 3, True), (2**63 - 2, 3, False), (2**63 - 1, 2, False)]
)
def test_offsets_beyond_64_bits_are_refused(base: int, count: int, sound: bool) -> None:
    raw = memoryview(with_header(made(count), base))
    if sound:
        assert scan(raw)[0].next_offset == 2**63
    else:
        with pytest.raises(MalformedResponseError, match=f"the batch at offset {base} claims"):
            scan(raw)
