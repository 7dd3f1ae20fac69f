"""Record level work: every record survives, with a second opinion by kafka-python's reader."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.records import batches, codecs
from reconciler.kafka.records.batches import Batch, CorruptBatchError, scan
from reconciler.kafka.records.codecs import (
    LZ4,
    TooMuchToOpenError,
    compress,
    decompress,
    with_right_checksum,
)
from reconciler.kafka.records.records import Record, encode, gather, rebuild, records_of, varint
from tests.support.lanes.batches import checked, uncompressed

HUGE = 1 << 40
Plain = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

data = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=5), data), max_size=4)
timestamps = st.integers(-1, 2**45)
records = st.lists(st.tuples(timestamps, data, data, headers), min_size=1, max_size=30)


def build(given_records: list[Plain], base: int = 0) -> bytearray:
    builder = MemoryRecordsBuilder(2, 0, 1 << 24)
    for timestamp, key, value, more in given_records:
        assert builder.append(timestamp, key, value, more) is not None
    builder.close()
    raw = bytearray(builder.buffer())
    struct.pack_into(">q", raw, 0, base)
    return raw


def read(raw: bytes | bytearray) -> list[Plain]:
    batches = MemoryRecords(bytes(raw))
    found: list[Plain] = []
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        found += [(r.timestamp, r.key, r.value, r.headers) for r in batch]
    return found


@given(records, st.integers(0, 4))
def test_encoded_records_read_the_same(plain: list[Plain], codec: int) -> None:
    raw = build(plain, 90)
    (batch,) = scan(memoryview(raw))
    out = encode(records_of(memoryview(raw), batch), codec)
    assert read(uncompressed(out)) == plain
    (again,) = scan(memoryview(out))
    assert (again.records, again.last_delta) == (len(plain), len(plain) - 1)
    assert again.max_timestamp == max(timestamp for timestamp, *_ in plain)


@given(records, st.integers(0, 40))
def test_rebuild_keeps_exactly_what_is_not_before_the_position(plain: list[Plain], skip: int) -> None:
    raw = build(plain, 100)
    (batch,) = scan(memoryview(raw))
    out = list(rebuild(memoryview(raw), batch, 100 + skip, HUGE))
    assert [r for made in out for r in read(checked(made.raw))] == plain[skip:]
    assert [made.next_offset for made in out] == ([100 + len(plain)] if skip < len(plain) else [])
    assert [made.spans for made in out] == ([((100 + skip, len(plain) - skip),)] if skip < len(plain) else [])


@given(records, st.integers(80, 500))
def test_rebuild_splits_to_fit_and_its_positions_grow(plain: list[Plain], largest: int) -> None:
    raw = build(plain, 5)
    (batch,) = scan(memoryview(raw))
    pieces = list(rebuild(memoryview(raw), batch, 0, largest))
    assert [r for made in pieces for r in read(checked(made.raw))] == plain
    assert all(len(made.raw) <= largest or made.records == 1 for made in pieces)
    done = 5
    for made in pieces:
        assert made.spans == ((done, made.records),)
        done += made.records
        assert made.next_offset == done


def test_holes_are_closed_and_positions_stay_source_offsets() -> None:
    kept = [Record(offset, 1000, 0, memoryview(b"\x02k\x02v\x00")) for offset in (10, 13, 19)]
    raw = checked(_with_deltas(kept, 10, 12))
    (batch,) = scan(memoryview(raw))
    assert [record.offset for record in records_of(memoryview(raw), batch)] == [10, 13, 19]
    pieces = list(rebuild(memoryview(raw), batch, 0, 75))
    assert [made.next_offset for made in pieces] == [11, 14, 23]
    assert [made.spans for made in pieces] == [((10, 1),), ((13, 1),), ((19, 1),)]
    (whole,) = rebuild(memoryview(raw), batch, 0, HUGE)
    assert whole.spans == ((10, 1), (13, 1), (19, 1))


def _with_deltas(kept: list[Record], base: int, last_delta: int) -> bytearray:
    body = b""
    for record in kept:
        inner = b"\0" + varint(0) + varint(record.offset - base) + record.tail
        body += varint(len(inner)) + inner
    raw = encode(kept, 0)[:61] + body
    struct.pack_into(">q", raw, 0, base)
    struct.pack_into(">i", raw, 8, len(raw) - 12)
    struct.pack_into(">i", raw, 23, last_delta)
    return raw


def test_append_time_becomes_the_records_time() -> None:
    raw = build([(5, b"a", b"1", []), (9, b"b", b"2", [])])
    raw[22] |= 0x08
    struct.pack_into(">q", raw, 35, 7777)
    checked(raw)
    (batch,) = scan(memoryview(raw))
    (made,) = rebuild(memoryview(raw), batch, 0, HUGE)
    assert [timestamp for timestamp, *_ in read(checked(made.raw))] == [7777, 7777]
    assert not made.raw[22] & 0x08


@given(st.lists(records, min_size=1, max_size=8), st.sampled_from([200, 2000, HUGE]))
def test_gathering_keeps_all_records_in_order(groups: list[list[Plain]], largest: int) -> None:
    raw, offset = bytearray(), 0
    for group in groups:
        raw += build(group, offset)
        offset += len(group)
    view = memoryview(raw)
    out = list(gather(view, scan(view), largest))
    assert [r for made, _ in out for r in read(checked(made.raw))] == [r for group in groups for r in group]
    assert sum(made.records for made, _ in out) == offset
    assert out[-1][1].next_offset == out[-1][0].next_offset == offset
    assert next(made.spans for made, _ in out)[0][0] == 0


@given(st.lists(records, min_size=1, max_size=5), st.data())
def test_gathering_finds_a_flipped_bit(groups: list[list[Plain]], choice: st.DataObject) -> None:
    raw = bytearray()
    for group in groups:
        raw += build(group, 0)
    batches = scan(memoryview(raw))
    hit = choice.draw(st.sampled_from(batches))
    bit = choice.draw(st.integers((hit.start + 61) * 8, hit.end * 8 - 1))
    raw[bit // 8] ^= 1 << bit % 8
    with pytest.raises((CorruptBatchError, MalformedResponseError)):
        list(gather(memoryview(raw), batches, HUGE))


@given(st.binary(max_size=200_000), st.integers(0, 4))
def test_codecs_come_back(plain: bytes, codec: int) -> None:
    assert bytes(codecs.decompress(codec, memoryview(codecs.compress(codec, plain)))) == plain


@given(st.lists(st.tuples(st.binary(max_size=200_000), st.integers(0, 4)), min_size=2, max_size=4))
def test_what_is_opened_in_the_same_place_stays_whole(plain: list[tuple[bytes, int]]) -> None:
    packed = [(codec, memoryview(codecs.compress(codec, data))) for data, codec in plain]
    assert [codecs.decompressed(*each) for each in packed] == [data for data, _ in plain]


def test_a_batch_that_cannot_be_opened_does_not_harm_the_next_one() -> None:
    sound, large = memoryview(codecs.compress(3, b"abc" * 50_000)), memoryview(codecs.compress(3, bytes(300_000)))
    assert codecs.decompressed(3, sound) == b"abc" * 50_000
    for _ in range(3):
        with pytest.raises(MalformedResponseError):
            codecs.decompressed(3, memoryview(bytes(large[:11]) + b"\xff" * (len(large) - 15) + bytes(4)))
        assert codecs.decompressed(3, sound) == b"abc" * 50_000
    assert codecs.decompressed(3, large) == bytes(300_000)


@given(st.binary(min_size=1, max_size=100), st.integers(1, 4))
def test_rubbish_is_an_error_and_not_a_record(rubbish: bytes, codec: int) -> None:
    raw = build([(1, b"k", b"v", [])])[:61] + rubbish
    struct.pack_into(">i", raw, 8, len(raw) - 12)
    raw[22] = codec
    checked(raw)
    (batch,) = scan(memoryview(raw))
    try:
        found = records_of(memoryview(raw), batch)
    except MalformedResponseError:
        return
    assert len(found) == 1


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_are_zigzag(number: int) -> None:
    out, value, shift = varint(number), 0, 0
    for byte in out:
        value |= (byte & 0x7F) << shift
        shift += 7
    assert (value >> 1) ^ -(value & 1) == number
    assert all(byte & 0x80 for byte in out[:-1])
    assert not out[-1] & 0x80


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_old_formats(magic: int, codec: int) -> None:
    builder = MemoryRecordsBuilder(magic, codec, 1 << 20)
    plain = [(1000 + i, b"k%d" % i if i % 2 else None, None if i == 3 else b"v%d" % i) for i in range(6)]
    for timestamp, key, value in plain:
        builder.append(timestamp if magic else None, key, value)
    builder.close()
    raw = bytearray(builder.buffer())
    if codec:
        struct.pack_into(">q", raw, 0, 5)  # as a broker does: a wrapper carries the offset of its last message
    view = memoryview(raw)
    out = [piece for batch in scan(view) for piece in rebuild(view, batch, 0, HUGE)]
    found = [(r[0], r[1], r[2]) for made in out for r in read(uncompressed(made.raw))]
    assert found == [(timestamp if magic else -1, key, value) for timestamp, key, value in plain]
    assert out[-1].next_offset == 6


def test_a_corrupt_old_message_is_found() -> None:
    builder = MemoryRecordsBuilder(1, 0, 1 << 20)
    builder.append(1, b"k", b"v")
    builder.close()
    raw = bytearray(builder.buffer())
    raw[-1] ^= 1
    (batch,) = scan(memoryview(raw))
    with pytest.raises(CorruptBatchError):
        list(rebuild(memoryview(raw), batch, 0, HUGE))
    assert zlib.crc32(raw[16:]) != struct.unpack_from(">I", raw, 12)[0]


def test_an_lz4_frame_of_format_0_is_read_although_its_checksum_is_wrong() -> None:
    body = bytes(range(256)) * 300
    frame = bytearray(compress(LZ4, body))
    right = frame[6]
    frame[6] ^= 0x55
    with pytest.raises(MalformedResponseError):
        decompress(LZ4, memoryview(frame))
    repaired = with_right_checksum(memoryview(frame))
    assert repaired[6] == right
    assert bytes(decompress(LZ4, repaired)) == body
    sized = b"\x04\x22\x4d\x18\x68\x40" + struct.pack("<Q", len(body)) + b"\0" + bytes(frame[7:])
    assert bytes(decompress(LZ4, with_right_checksum(memoryview(sized)))) == body


# what a hostile producer writes


edges = st.sampled_from([-(2**63), -(2**63) + 1, -1, 0, 1, 2**31, 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1)


def java_sum(left: int, right: int) -> int:
    """Of two longs."""
    return int.from_bytes(((left + right) % 2**64).to_bytes(8, "big"), "big", signed=True)


@given(edges, st.lists(edges, min_size=1, max_size=5), st.integers(0, 4))
def test_timestamps_are_added_as_java_adds_them_and_survive(base: int, deltas: list[int], codec: int) -> None:
    raw = memoryview(bytes(batch_of_deltas(base, deltas)))
    (batch,) = scan(raw)
    wanted = [java_sum(base, delta) for delta in deltas]
    assert [record.timestamp for record in records_of(raw, batch)] == wanted
    for out, count in ((encode(records_of(raw, batch), codec), 1), *gathered(raw, batch)):
        again = memoryview(bytes(checked(out)))
        (made,) = scan(again)
        assert [record.timestamp for record in records_of(again, made)] == wanted * count


def gathered(raw: memoryview, batch: Batch) -> Iterator[tuple[bytearray, int]]:
    """As small batches that stand one after the other."""
    later = batch._replace(base=batch.next_offset)
    for made, _ in gather(raw, [batch, later], HUGE):
        yield made.raw, 2


ROOM = 1 << 20


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "MOST_OPENED", ROOM)


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("codec", range(1, 5))
def test_a_bomb_is_given_up_before_it_takes_the_memory(codec: int) -> None:
    assert len(decompress(codec, memoryview(compress(codec, bytes(ROOM))))) == ROOM
    for size in (ROOM + 1, 40 * ROOM):
        with pytest.raises(TooMuchToOpenError, match="more than 1 MiB"):
            decompress(codec, memoryview(compress(codec, bytes(size))))


@pytest.mark.usefixtures("room")
@given(st.integers(1, 4), st.integers(1, ROOM - (1 << 15)), st.binary(min_size=1, max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_opened_into_a_room_is_whole(codec: int, size: int, seed: bytes) -> None:
    plain = hashlib.sha512(seed).digest() * 300 + (seed * (size // len(seed) + 1))[:size]
    assert decompress(codec, memoryview(compress(codec, plain[:ROOM]))) == plain[:ROOM]


def test_an_old_message_within_messages_within_messages_is_refused() -> None:
    inner = old_message(0, b"x")
    for _ in range(40):
        inner = old_message(0, compress(codecs.GZIP, inner), codecs.GZIP)
    (batch,) = scan(memoryview(inner))
    with pytest.raises(MalformedResponseError, match="compressed once more"):
        records_of(memoryview(inner), batch)


@pytest.mark.parametrize("offsets", [(1, 0), (0, 0), (-3, 1)])
def test_old_messages_whose_offsets_do_not_grow_are_refused(offsets: tuple[int, int]) -> None:
    raw = old_message(5, compress(codecs.GZIP, b"".join(old_message(at, b"x") for at in offsets)), codecs.GZIP)
    (batch,) = scan(memoryview(raw))
    if offsets == (-3, 1):
        assert [record.offset for record in records_of(memoryview(raw), batch)] == [1, 5]
        return
    with pytest.raises(MalformedResponseError, match="do not grow"):
        records_of(memoryview(raw), batch)


def old_message(offset: int, value: bytes, codec: int = 0) -> bytes:
    """Format 1 (KIP-32)."""
    body = struct.pack(">BBqii", 1, codec, 1, -1, len(value)) + value
    raw = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(raw)) + raw


def batch_of_deltas(base: int, deltas: list[int]) -> bytearray:
    """Records ``k: v`` with timestamps as a producer of Java's arithmetic writes them."""
    body = b""
    for index, delta in enumerate(deltas):
        content = b"\0" + varint(delta) + varint(index) + b"\2k\2v\0"
        body += varint(len(content)) + content
    count = len(deltas)
    head = struct.pack(">qiibIhiqqqhii", 0, 49 + len(body), -1, 2, 0, 0, count - 1, base, base, -1, -1, -1, count)
    return checked(bytearray(head + body))


@pytest.mark.parametrize("content", [b"\0\0\0\1", b"\0\0\0\1\1", b"\0\x80\x80\x80", b"\0\0\x80\x80\1"])
def test_a_record_without_room_for_its_parts_is_refused(content: bytes) -> None:
    body = varint(len(content)) + content + varint(len(content)) + content
    raw = memoryview(bytes(checked(batches.build(0, body, (0, 0), 2))))
    (batch,) = scan(raw)
    with pytest.raises(MalformedResponseError, match="is cut"):
        records_of(raw, batch)
