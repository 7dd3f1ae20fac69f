"""Decodes a record batch into records and encodes it again, for batches that cannot be copied whole.

For batches that cannot go whole: holes, a start before the position, too many bytes, append time, old formats, and for
batches so small that one big batch is cheaper than many.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.records.batches import APPEND_TIME, CODEC, HEADER, Batch, build, verify
from reconciler.kafka.records.codecs import compress, decompress
from reconciler.kafka.records.legacy_formats import legacy_records

GATHER_BYTES = 512 << 10
"""Limit of a gathered batch's uncompressed bytes, like ``GATHER_RECORDS``."""
GATHER_RECORDS = 10_000
GATHER_OPENED = 64 << 20
"""Bytes of decompressed records that may wait to share a batch."""
_WORD, _HALF = (1 << 64) - 1, 1 << 63


class Record(NamedTuple):
    """``tail``: everything after the offset delta (key, value, headers), as it lies in the source."""

    offset: int
    timestamp: int
    attributes: int
    tail: memoryview


record_of: Callable[[type[Record], tuple[int, int, int, memoryview]], Record] = tuple.__new__
"""``Record`` from its fields, without the call that names them."""


def wrapped(number: int) -> int:
    """As a signed 64-bit number overflows: so Java, and with it the broker, adds timestamps and their deltas."""
    return (number + _HALF & _WORD) - _HALF


def _zigzag(number: int) -> bytes:
    """A signed varint: zigzag makes small negative numbers short, too (as in Protocol Buffers)."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_SMALLER = 4096
"""Numbers below it have their varint in a table."""
_SMALL = tuple(_zigzag(number) for number in range(_SMALLER))


def varint(number: int) -> bytes:
    """Zigzag varint of a signed 64-bit number."""
    return _SMALL[number] if 0 <= number < _SMALLER else _zigzag(number)


def signed(body: memoryview, position: int) -> tuple[int, int]:
    """(number, position after it). Raises IndexError at the end of the bytes."""
    byte = body[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    number, shift = byte & 0x7F, 7
    while byte >= 0x80:
        byte = body[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise MalformedResponseError("a number in a record has too many bytes")
    number &= _WORD  # ten bytes have room for more than 64 bits
    return (number >> 1) ^ -(number & 1), position


def records_of(view: memoryview, batch: Batch) -> list[Record]:
    """The records of a batch, checksum verified, append time applied.

    Raises CorruptBatchError or MalformedResponseError; of these ``TooMuchToOpenError`` where the records are more than
    ``codecs.MOST_OPENED`` bytes.
    """
    raw = view[batch.start : batch.end]
    if batch.magic != 2:
        return [Record(*record) for record in legacy_records(raw, batch)]
    verify(raw, batch)
    return records_in(decompress(batch.attributes & CODEC, raw[HEADER:]), batch)


def records_in(body: memoryview, batch: Batch) -> list[Record]:
    """``records_of`` for the decompressed body of a batch of format 2. Raises MalformedResponseError."""
    append_time = batch.max_timestamp if batch.attributes & APPEND_TIME else None
    records: list[Record] = []
    position, end, base, first = 0, len(body), batch.base, batch.base_timestamp
    lowest, beyond = -_HALF, _HALF
    try:
        for _ in range(batch.records):
            # Numbers of one or two bytes, which most are, are read here: calls are what this loop costs.
            low, high = body[position], body[position + 1]
            if low < 0x80:
                length, start = (low >> 1) ^ -(low & 1), position + 1
            elif high < 0x80:
                length, start = ((low & 0x7F | high << 7) >> 1) ^ -(low & 1), position + 2
            else:
                length, start = signed(body, position)
            position = start + length
            if length < 4 or position > end:
                raise MalformedResponseError(f"a record in the batch at offset {batch.base} is cut")
            low = body[start + 1]
            delta, at = ((low >> 1) ^ -(low & 1), start + 2) if low < 0x80 else signed(body, start + 1)
            low = body[at]
            offset, at = ((low >> 1) ^ -(low & 1), at + 1) if low < 0x80 else signed(body, at)
            if position < at + 3:  # the lengths of key and value, and the number of headers
                raise IndexError
            timestamp = first + delta if append_time is None else append_time
            if not lowest <= timestamp < beyond:
                timestamp = wrapped(timestamp)
            records.append(record_of(Record, (base + offset, timestamp, body[start], body[at:position])))
    except IndexError:
        raise MalformedResponseError(f"a record in the batch at offset {batch.base} is cut") from None
    if position != end:
        raise MalformedResponseError(
            f"the batch at offset {batch.base} has {end - position} bytes after its last record"
        )
    _check_offsets(batch, records)
    return records


def _check_offsets(batch: Batch, records: Sequence[Record]) -> None:
    """Raises MalformedResponseError: offsets of a batch only grow, and stay below its last one. What breaks this would
    be placed wrongly in the offset map."""
    last = batch.base - 1
    for record in records:
        if record.offset <= last:
            raise MalformedResponseError(f"offsets in the batch at offset {batch.base} do not grow")
        last = record.offset
    if last >= batch.next_offset:
        raise MalformedResponseError(f"the batch at offset {batch.base} has a record beyond its end")


def encode(records: Sequence[Record], codec: int) -> bytearray:
    """One batch with offset deltas 0..n-1, to be sealed."""
    base, beyond = records[0].timestamp, _HALF
    pieces: list[bytes | memoryview] = []
    latest = base
    for index, (_, timestamp, attributes, tail) in enumerate(records):
        if timestamp > latest:
            latest = timestamp
        delta = timestamp - base
        if delta >= beyond or delta < -beyond:
            delta = wrapped(delta)
        head = b"%c%b%b" % (
            attributes,
            _SMALL[delta] if 0 <= delta < _SMALLER else _zigzag(delta),
            _SMALL[index] if index < _SMALLER else _zigzag(index),
        )
        length = len(head) + len(tail)
        pieces += (_SMALL[length] if length < _SMALLER else _zigzag(length), head, tail)
    return build(codec, compress(codec, b"".join(pieces)), (base, latest), len(records))


class Rebuilt(NamedTuple):
    """A batch made of source records."""

    raw: bytearray
    spans: tuple[tuple[int, int], ...]
    """Their source offsets, (first, how many) of each consecutive part."""
    records: int
    next_offset: int
    """The source offset after it and after what was left out behind it."""


def spans_of(records: Sequence[Record]) -> tuple[tuple[int, int], ...]:
    """(first offset, count) of each consecutive part; ``records``: not empty, in order."""
    begin = records[0].offset
    if records[-1].offset - begin == len(records) - 1:
        return ((begin, len(records)),)
    spans: list[tuple[int, int]] = []
    expected = begin
    for record in records:
        offset = record.offset
        if offset != expected:
            spans.append((begin, expected - begin))
            begin = offset
        expected = offset + 1
    spans.append((begin, expected - begin))
    return tuple(spans)


def rebuild(view: memoryview, batch: Batch, position: int, largest: int, codec: int | None = None) -> Iterator[Rebuilt]:
    """The records from ``position`` on, in batches of at most ``largest`` bytes where records allow it. ``codec``: None
    for that of the source batch.

    The last one covers the whole source batch.
    """
    codec = codec_of(view, batch) if codec is None else codec
    records = [record for record in records_of(view, batch) if record.offset >= position]
    if records:
        yield from fitting(records, codec, largest, batch.next_offset)


def fitting(records: list[Record], codec: int, largest: int, next_offset: int) -> Iterator[Rebuilt]:
    """``rebuild`` for existing records."""
    out = encode(records, codec)
    if len(out) <= largest or len(records) == 1:
        yield Rebuilt(out, spans_of(records), len(records), next_offset)
        return
    middle = len(records) // 2
    yield from fitting(records[:middle], codec, largest, records[middle - 1].offset + 1)
    yield from fitting(records[middle:], codec, largest, next_offset)


def codec_of(view: memoryview, batch: Batch) -> int:
    """The codec of a batch of any format."""
    at = 22 if batch.magic == 2 else 17
    return view[batch.start + at] & CODEC


def _single(view: memoryview, batch: Batch) -> list[Record]:
    """The record of a batch that holds one plain record with deltas 0, as a producer without linger writes it; empty
    for any other batch."""
    size = batch.end - batch.start - HEADER
    if batch.records != 1 or batch.last_delta or batch.attributes & (CODEC | APPEND_TIME) or size < 10:
        return []
    length, at = signed(view, batch.start + HEADER)
    if length < 4 or at + length != batch.end or view[at + 1] or view[at + 2]:
        return []
    verify(view[batch.start : batch.end], batch)
    return [Record(batch.base, batch.base_timestamp, view[at], view[at + 3 : batch.end])]


def gather(view: memoryview, batches: Sequence[Batch], largest: int) -> Iterator[tuple[Rebuilt, Batch]]:
    """Merges consecutive batches of one partition into few bigger ones, each with its last source batch."""
    limit = min(GATHER_BYTES, largest // 2)
    held: list[Record] = []
    size, opened, codec, last = 0, 0, -1, None
    for batch in batches:
        mine = batch.attributes & CODEC
        full = size >= limit or len(held) >= GATHER_RECORDS or opened >= GATHER_OPENED
        if last is not None and (mine != codec or full):
            yield Rebuilt(encode(held, codec), spans_of(held), len(held), last.next_offset), last
            held, size, opened = [], 0, 0
        records = _single(view, batch) or records_of(view, batch)
        held += records
        size += batch.end - batch.start
        opened += sum(len(record.tail) for record in records) if mine else 0
        codec, last = mine, batch
    if last is not None and held:
        yield Rebuilt(encode(held, codec), spans_of(held), len(held), last.next_offset), last


def tail_of(key: bytes | None, value: bytes | None, headers: Sequence[tuple[bytes, bytes | None]] = ()) -> memoryview:
    """The bytes of a record behind its offset delta. None is Kafka's null; as ``value``, a tombstone."""
    pieces = [_field(key), _field(value), varint(len(headers))]
    pieces += (_field(part) for header in headers for part in header)
    return memoryview(b"".join(pieces))


def _field(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def key_and_value(record: Record) -> tuple[bytes | None, bytes | None]:
    """Copies; None is Kafka's null. Raises MalformedResponseError."""
    try:
        entries: list[bytes | None] = []
        at = 0
        for _ in range(2):
            size, at = signed(record.tail, at)
            if at + size > len(record.tail):
                raise IndexError
            entries.append(bytes(record.tail[at : at + size]) if size >= 0 else None)
            at += max(size, 0)
        return entries[0], entries[1]
    except IndexError:
        raise MalformedResponseError(f"the record at offset {record.offset} is cut") from None
