"""Record batches (magic 2): headers decoded, filtered and patched in place; records are not touched.

Layout and broker rules: Kafka's DefaultRecordBatch and LogValidator; KIP-98 for transactions.
"""

import struct
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from crc32c import crc32c

from reconciler.kafka.client.errors import MalformedResponseError

HEADER = 61
CODEC, APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20
SEQUENCES = 1 << 31
_OFFSETS = 1 << 63

# DefaultRecordBatch: base offset, length after it, leader epoch of the partition, magic, CRC-32C of all that follows,
# attributes, last offset delta, first and largest timestamp, producer id, epoch, first sequence, number of records.
_FIXED = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qi")
_CRC_AT, _CRC_FROM = 17, 21
_CRC = struct.Struct(">I")
_FRONT = struct.Struct(">qiibih")  # base offset to attributes; the length is written back as it was
_PRODUCER = struct.Struct(">qhi")
_MARKER = struct.Struct(">hh")


class CorruptBatchError(Exception):
    """A source batch with a wrong checksum. ``offset``: its base offset."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the checksum of the batch at offset {offset} does not match its bytes")


class Batch(NamedTuple):
    """A record batch as its header has it, and where it lies in its view. ``magic`` below 2 (before Kafka 0.11): only
    ``base``, ``size``, ``magic``, ``start`` and ``end`` mean something."""

    base: int
    """Offset of its first record; the broker sets it when it appends the batch."""
    size: int
    """Bytes after this field, as in the wire format."""
    leader_epoch: int
    """Epoch of the leader that appended it, -1 unknown; not covered by ``crc``."""
    magic: int
    crc: int
    """CRC-32C of everything from ``attributes`` on."""
    attributes: int
    """Bits 0 to 2 codec, 3 timestamp type, 4 transactional, 5 control batch, 6 delete horizon (KIP-534)."""
    last_delta: int
    """Of the last offset to ``base``; compaction keeps it when it removes the last record."""
    base_timestamp: int
    """Of the first record, to which the others are relative; -1 unknown."""
    max_timestamp: int
    producer_id: int
    """-1: neither idempotent nor transactional."""
    producer_epoch: int
    base_sequence: int
    """Of the first record; brokers refuse a gap (KIP-98)."""
    records: int
    """Number of records that are left; compaction can leave 0."""
    start: int
    end: int

    @property
    def next_offset(self) -> int:
        return self.base + self.last_delta + 1


def scan(view: memoryview) -> list[Batch]:
    """Every whole batch in ``view``, without a truncated one at the end. Raises MalformedResponseError."""
    batches: list[Batch] = []
    position, end = 0, len(view)
    # Offset, length and magic are in the same places in every format, and take 17 bytes. A message set of format 0 has
    # at least 26; brokers cut the last batch of an answer where its size limit falls (KIP-74).
    while end - position >= 17:
        size = _PREFIX.unpack_from(view, position)[1] + 12
        if size < 26:
            raise MalformedResponseError(f"a batch announces a length of {size - 12} bytes")
        stop = position + size
        if stop > end:
            break
        if view[position + 16] == 2:
            if size < HEADER:
                raise MalformedResponseError(f"a batch of {size} bytes is shorter than its header")
            batch = Batch._make((*_FIXED.unpack_from(view, position), position, stop))
            beyond = batch.base < 0 or batch.base + batch.last_delta >= _OFFSETS
            if beyond or batch.last_delta < 0 or batch.records < 0 or batch.records > batch.last_delta + 1:
                raise MalformedResponseError(
                    f"the batch at offset {batch.base} claims {batch.records} records and last delta {batch.last_delta}"
                )
        else:
            base = _PREFIX.unpack_from(view, position)[0]
            batch = Batch(base, size - 12, -1, view[position + 16], 0, 0, 0, -1, -1, -1, -1, -1, 1, position, stop)
        batches.append(batch)
        position = stop
    return batches


class CommittedFilter:
    """read_committed over one partition's response (KIP-98): feed batches in order."""

    __slots__ = ("_dead", "_todo", "_view")

    def __init__(self, view: memoryview, aborted: Iterable[tuple[int, int]]) -> None:
        """``aborted``: (producer id, first offset) of aborted transactions that overlap the response."""
        self._todo = deque(sorted(aborted, key=lambda entry: entry[1]))
        self._dead: set[int] = set()
        self._view = view

    def delivers(self, batch: Batch) -> bool:
        """False: a control batch, records of an aborted transaction, or a batch that compaction emptied."""
        while self._todo and self._todo[0][1] < batch.next_offset:
            self._dead.add(self._todo.popleft()[0])
        if batch.attributes & CONTROL:
            if batch.records and _is_abort(self._view, batch):
                self._dead.discard(batch.producer_id)
            return False
        if batch.attributes & TRANSACTIONAL and batch.producer_id in self._dead:
            return False
        return batch.records > 0


def _is_abort(view: memoryview, batch: Batch) -> bool:
    """Control record: varints length, timestamp delta, offset delta and key length around the attributes byte, then
    key = version int16, type int16 with 0 = abort."""
    position = batch.start + HEADER
    position = _skip_varint(view, position, batch.end) + 1  # length, attributes
    for _ in range(3):
        position = _skip_varint(view, position, batch.end)
    if position + 4 > batch.end:
        raise MalformedResponseError(f"the control batch at offset {batch.base} is cut")
    return bool(_MARKER.unpack_from(view, position)[1] == 0)


def _skip_varint(view: memoryview, position: int, end: int) -> int:
    """The position after the varint at ``position``."""
    while position < end:
        position += 1
        if view[position - 1] < 0x80:
            return position
    raise MalformedResponseError("a control record is cut")


def why_not_whole(batch: Batch, position: int, largest: int) -> str | None:
    """Why the batch must go record by record, or None. ``largest``: the target's max.message.bytes.
    The source's append time is kept, as MirrorMaker 2 does."""
    if batch.magic != 2:
        return f"format {batch.magic}"
    if batch.base < position:
        return "starts before the position"
    if batch.records != batch.last_delta + 1:
        return "holes after compaction"
    if batch.end - batch.start > largest:
        return "larger than max.message.bytes"
    if batch.attributes & APPEND_TIME:
        return "log append time"
    return None


def verify(raw: memoryview, batch: Batch) -> None:
    """Compares the checksum (CRC-32C from the attributes on) with the bytes. The base offset and the leader epoch lie
    before it, since brokers set both. Raises CorruptBatchError."""
    if crc32c(raw[_CRC_FROM:]) != batch.crc:
        raise CorruptBatchError(batch.base)


def seal(raw: memoryview, producer: tuple[int, int], sequence: int, *, transactional: bool) -> None:
    """Rewrites the header in place for our producer (id, epoch) and sequence; ``raw`` is exactly one batch.

    Clears LogAppendTime, control and delete-horizon bits; the leader assigns the base offset. Verify first: this gives
    any bytes a valid checksum.
    """
    attributes = raw[22] & CODEC | (TRANSACTIONAL if transactional else 0)
    _FRONT.pack_into(raw, 0, 0, len(raw) - 12, -1, 2, 0, attributes)
    _PRODUCER.pack_into(raw, 43, producer[0], producer[1], sequence)
    _CRC.pack_into(raw, _CRC_AT, crc32c(raw[_CRC_FROM:]))


def next_sequence(sequence: int, records: int) -> int:
    """Sequences wrap to 0 after 2^31 - 1 (DefaultRecordBatch.incrementSequence)."""
    return (sequence + records) % SEQUENCES


def build(codec: int, body: bytes, times: tuple[int, int], count: int) -> bytearray:
    """A batch around ``body`` (records with deltas 0..count-1, compressed), to be sealed. ``times``: base, max."""
    header = _FIXED.pack(
        0, HEADER - 12 + len(body), -1, 2, 0, codec, count - 1, times[0], times[1], -1, -1, -1, count
    )  # fmt: skip
    return bytearray(header) + body
