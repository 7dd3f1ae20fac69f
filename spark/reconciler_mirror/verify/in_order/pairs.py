"""Compares the records of two batches pair by pair if only their framing differs: base offsets and deltas.

One loop reads both sides without making records: it compares timestamps, and the bytes after the offset delta. Any
encoding that producers do not write ends the loop, and the general code decodes the rest.
"""

from dataclasses import dataclass

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.records.batches import APPEND_TIME, CODEC, HEADER, Batch, verify
from reconciler.kafka.records.codecs import decompressed
from reconciler.kafka.records.records import Record, records_in

DELETE_HORIZON = 0x40  # then the base timestamp is a delete horizon instead (KIP-534)
_LATEST = 1 << 62


@dataclass(slots=True)
class OpenBatch:
    """A decompressed batch without holes. ``index``: of the next record, which begins at ``place`` of ``data``."""

    batch: Batch
    data: bytes
    place: int = 0
    index: int = 0

    @property
    def over(self) -> bool:
        """Raises MalformedResponseError for bytes after the last record."""
        if self.index < self.batch.records:
            return False
        if self.place != len(self.data):
            raise MalformedResponseError(f"the batch at offset {self.batch.base} has bytes after its last record")
        return True

    def decoded(self) -> list[Record]:
        """The records from ``index`` on. Raises MalformedResponseError."""
        return records_in(memoryview(self.data), self.batch)[self.index :]

    def at(self, index: int) -> "OpenBatch":
        """The same batch with another next record. It has been decoded before, so its varints are sound."""
        place = 0
        for _ in range(index):
            length, start = _varint(self.data, place)
            place = start + (length >> 1)
        return OpenBatch(self.batch, self.data, place, index)


def opened(view: memoryview, header: Batch) -> OpenBatch | None:
    """The batch for comparison by pairs; None if that is not possible. ``view``: the whole batch. Raises
    CorruptBatchError and MalformedResponseError."""
    if header.magic != 2 or header.attributes & (APPEND_TIME | DELETE_HORIZON):
        return None
    if header.records != header.last_delta + 1 or not 0 <= header.base_timestamp < _LATEST:
        return None
    verify(view, header)
    return OpenBatch(header, decompressed(header.attributes & CODEC, view[HEADER:]))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The zigzag varint as written, and the position after it. Raises IndexError, also for more than 63 bits."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 56:
            raise IndexError


def equal_pairs(ours: OpenBatch, theirs: OpenBatch, *, timed: bool) -> int:
    """Passes equal records in both batches; returns how many. ``timed``: compares timestamps, too."""
    s, t = ours.data, theirs.data
    p, q = ours.place, theirs.place
    i, j = 2 * ours.index, 2 * theirs.index
    shift = theirs.batch.base_timestamp - ours.batch.base_timestamp
    most = min(ours.batch.records - ours.index, theirs.batch.records - theirs.index)
    done, last, final = 0, len(s), len(t)
    try:
        # Most varints have one or two bytes. They are read inline, because calls would dominate the cost of this loop.
        while done < most:
            length, start = s[p], p + 1
            if length >= 0x80:
                length, start = length & 0x7F | s[start] << 7, p + 2
                if length > 0x3FFF:
                    length, start = _varint(s, p)
            end, time, at = start + (length >> 1), s[start + 1], start + 2
            if time >= 0x80:
                time, at = time & 0x7F | s[at] << 7, start + 3
                if time > 0x3FFF:
                    time, at = _varint(s, start + 1)
            start, offset, at = at, s[at], at + 1
            if offset >= 0x80:
                offset, at = offset & 0x7F | s[at] << 7, start + 2
                if offset > 0x3FFF:
                    offset, at = _varint(s, start)
            # Producers write positive lengths, and offset deltas 0, 1, 2 ... (zigzag: twice the number). Any other
            # record, and one too short for its remaining fields, is left to the general decoder.
            if offset != i or length & 1 or at + 3 > end:
                break
            length, start = t[q], q + 1
            if length >= 0x80:
                length, start = length & 0x7F | t[start] << 7, q + 2
                if length > 0x3FFF:
                    length, start = _varint(t, q)
            stop, copied, there = start + (length >> 1), t[start + 1], start + 2
            if copied >= 0x80:
                copied, there = copied & 0x7F | t[there] << 7, start + 3
                if copied > 0x3FFF:
                    copied, there = _varint(t, start + 1)
            start, offset, there = there, t[there], there + 1
            if offset >= 0x80:
                offset, there = offset & 0x7F | t[there] << 7, start + 2
                if offset > 0x3FFF:
                    offset, there = _varint(t, start)
            if offset != j or length & 1 or there + 3 > stop:
                break
            # Timestamp deltas count from each batch's base timestamp, so those of equal times differ by ``shift``.
            if timed:
                if (time | copied) & 1:  # one is negative
                    time, copied = (time >> 1) ^ -(time & 1), (copied >> 1) ^ -(copied & 1)
                    if time - copied != shift:
                        break
                elif time - copied != 2 * shift:
                    break
            if end > last or stop > final or s[at:end] != t[there:stop]:
                break
            p, q, i, j, done = end, stop, i + 2, j + 2, done + 1
    # A record that ends outside of its batch: the general decoder reports it.
    except IndexError:
        pass
    ours.place, ours.index = p, ours.index + done
    theirs.place, theirs.index = q, theirs.index + done
    return done
