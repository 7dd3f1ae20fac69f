"""Adds headers to every record of a batch without decoding the records.

For batches that could go whole; ``records`` and ``fields`` do the same for any other.
"""

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.records.batches import CODEC, HEADER, Batch, build, verify
from reconciler.kafka.records.codecs import compress, decompress
from reconciler.kafka.records.records import signed, varint


def with_headers_added(view: memoryview, batch: Batch, count: int, more: bytes) -> bytearray:
    """The batch with ``more``, ``count`` encoded headers, appended to each record's. The caller must seal it.

    Raises CorruptBatchError or MalformedResponseError.
    """
    raw = view[batch.start : batch.end]
    verify(raw, batch)
    codec = batch.attributes & CODEC
    body = decompress(codec, raw[HEADER:])
    try:
        pieces = _spliced(body, batch.records, count, more)
    except IndexError:
        pieces = None
    if pieces is None:
        raise MalformedResponseError(f"the records of the batch at offset {batch.base} do not fill it")
    times = (batch.base_timestamp, batch.max_timestamp)
    return build(codec, compress(codec, b"".join(pieces)), times, batch.records)


def _spliced(body: memoryview, records: int, count: int, more: bytes) -> list[bytes | memoryview] | None:
    """None, or IndexError: the lengths do not add up. Numbers of one or two bytes are read here, as ``records_of``."""
    alone = varint(count) + more
    pieces: list[bytes | memoryview] = []
    behind, end = 0, len(body)
    for _ in range(records):
        low, high = body[behind], body[behind + 1]
        if low < 0x80:
            length, start = (low >> 1) ^ -(low & 1), behind + 1
        elif high < 0x80:
            length, start = ((low & 0x7F | high << 7) >> 1) ^ -(low & 1), behind + 2
        else:
            length, start = signed(body, behind)
        behind = start + length
        if length < 4 or behind > end:
            return None
        at = start + 2
        while body[at - 1] & 0x80:  # the timestamp's delta
            at += 1
        at += 1
        while body[at - 1] & 0x80:  # the offset's delta
            at += 1
        low = body[at]
        size, at = ((low >> 1) ^ -(low & 1), at + 1) if low < 0x80 else signed(body, at)
        if size > 0:
            at += size
        low = body[at]
        size, at = ((low >> 1) ^ -(low & 1), at + 1) if low < 0x80 else signed(body, at)
        if size > 0:
            at += size
        if at >= behind:
            return None
        # Only the record's length and its count of headers change; what lies between is copied as it is. The offset
        # delta stays, so the batch keeps its offsets.
        if body[at]:
            had, own = signed(body, at)
            counted = varint(had + count)
            pieces += (
                varint(at - start + len(counted) + behind - own + len(more)),
                body[start:at],
                counted,
                body[own:behind],
                more,
            )
        elif at + 1 == behind:
            pieces += (varint(length - 1 + len(alone)), body[start:at], alone)
        else:
            return None
    return pieces if behind == end else None
