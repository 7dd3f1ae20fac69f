"""Message formats 0 and 1 of brokers before 0.11 (KIP-31, KIP-32), converted to record batches."""

import struct
import zlib
from collections.abc import Iterator
from itertools import pairwise

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.protocol.flexible import uvarint
from reconciler.kafka.records.batches import Batch, CorruptBatchError
from reconciler.kafka.records.codecs import LZ4, decompress, with_right_checksum

_OVERHEAD = 12
_APPEND_TIME = 0x08
NO_TIMESTAMP = -1

Legacy = tuple[int, int, int, memoryview]


def legacy_records(raw: memoryview, batch: Batch) -> list[Legacy]:
    """(offset, timestamp, attributes 0, key and value in format 2 without headers) of one message or wrapper.

    Format 0 has no timestamps: -1. Raises CorruptBatchError or MalformedResponseError.
    """
    try:
        records = list(_message(raw, batch.base, None))
    except (struct.error, IndexError) as error:
        raise MalformedResponseError(f"the message at offset {batch.base} cannot be read: {error}") from error
    offsets = [-1, *(record[0] for record in records)]
    if offsets[-1] != batch.base or any(later <= offset for offset, later in pairwise(offsets)):
        raise MalformedResponseError(f"offsets in the message at offset {batch.base} do not grow up to it")
    return records


def _message(raw: memoryview, offset: int, append_time: int | None, *, inner: bool = False) -> Iterator[Legacy]:
    """The records in one message of format 0 or 1. A compressed one holds a message set, whose offsets count from the
    outer one's (format 1), and whose time is the outer one's with LogAppendTime. Format 0 has no time, and its LZ4
    frames have the wrong header checksum that Kafka wrote then (KIP-57)."""
    crc, magic, attributes = struct.unpack_from(">IBb", raw, _OVERHEAD)
    if zlib.crc32(raw[_OVERHEAD + 4 :]) != crc:
        raise CorruptBatchError(offset)
    if magic > 1:
        raise MalformedResponseError(f"the message at offset {offset} has format {magic}")
    position, timestamp = _OVERHEAD + 6, NO_TIMESTAMP
    if magic == 1:
        (timestamp,) = struct.unpack_from(">q", raw, position)
        position += 8
    if append_time is not None:
        timestamp = append_time
    key, position = _bytes(raw, position)
    value, _ = _bytes(raw, position)
    codec = attributes & 0x07
    if codec == 0:
        yield offset, timestamp, 0, memoryview(_field(key) + _field(value) + b"\0")
        return
    if inner:
        raise MalformedResponseError(f"a message inside the one at offset {offset} is compressed once more")
    if value is None:
        raise MalformedResponseError(f"the compressed message at offset {offset} is empty")
    if codec == LZ4 and magic == 0:
        value = with_right_checksum(value)
    yield from _inner(decompress(codec, value), (magic, offset), timestamp if attributes & _APPEND_TIME else None)


def _inner(body: memoryview, wrapper: tuple[int, int], append_time: int | None) -> Iterator[Legacy]:
    """Format 1 counts inner offsets from 0, and the wrapper carries the offset of the last one."""
    magic, offset = wrapper
    parts: list[tuple[int, memoryview]] = []
    position = 0
    while position < len(body):
        inner, size = struct.unpack_from(">qi", body, position)
        end = position + _OVERHEAD + size
        if size < 14 or end > len(body):
            raise MalformedResponseError(f"a message inside the one at offset {offset} is cut")
        parts.append((inner, body[position:end]))
        position = end
    if not parts:
        raise MalformedResponseError(f"the compressed message at offset {offset} is empty")
    shift = offset - parts[-1][0] if magic == 1 else 0
    for inner, raw in parts:
        yield from _message(raw, inner + shift, append_time, inner=True)


def _bytes(raw: memoryview, position: int) -> tuple[memoryview | None, int]:
    """Nullable bytes with a length of 32 bits, and the position behind them."""
    (size,) = struct.unpack_from(">i", raw, position)
    position += 4
    if size < 0:
        return None, position
    if position + size > len(raw):
        raise MalformedResponseError("a key or value is cut")
    return raw[position : position + size], position + size


def _field(data: memoryview | None) -> bytes:
    return b"\x01" if data is None else uvarint(len(data) << 1) + bytes(data)
