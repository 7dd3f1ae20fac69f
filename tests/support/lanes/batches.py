"""Batches of records, written and read by kafka-python."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from crc32c import crc32c
from kafka.record import MemoryRecords, MemoryRecordsBuilder
from reconciler_mirror.lane.fetch.pieces import delivered_pieces, pieces_of
from reconciler_mirror.lane.partition import Partition, SourceLog
from reconciler_mirror.lane.produce.outbox import BatchSizes, Piece
from reconciler_mirror.model.lane import PartitionSpec, ProvenanceSettings, RecordWork
from reconciler_mirror.record_work import provenance_header as provenance
from reconciler_mirror.record_work.on_bytes import RecordWorker

from reconciler.kafka.protocol.fetch import FetchedPartition
from reconciler.kafka.records import codecs
from reconciler.kafka.records.batches import scan
from reconciler.kafka.records.records import encode, records_of


def checked(raw: bytearray) -> bytearray:
    """With a right checksum, which otherwise is made when a batch is sealed."""
    struct.pack_into(">I", raw, 17, crc32c(raw[21:]))
    return raw


def uncompressed(raw: bytearray) -> bytearray:
    """The same batch without codec, for readers that lack it."""
    body = codecs.decompress(raw[22] & 7, memoryview(raw)[61:])
    out = raw[:61] + body
    struct.pack_into(">i", out, 8, len(out) - 12)
    out[22] &= 0xF8
    return checked(out)


EAST, WEST, NORTH = (provenance.short_id(name) for name in ("east", "west", "north"))
GROUND = ProvenanceSettings(EAST, WEST)
SPEC = PartitionSpec("orders", 3, "orders", "id")
Plain = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def batch_of(plain: Sequence[Plain], base: int, codec: int = 0) -> bytearray:
    """As a producer writes it: kafka-python's builder, compressed by ours where kafka-python lacks the codec."""
    builder = MemoryRecordsBuilder(2, 0, 1 << 24)
    for timestamp, key, value, headers in plain:
        assert builder.append(timestamp, key, value, headers) is not None
    builder.close()
    raw = bytearray(builder.buffer())
    struct.pack_into(">q", raw, 0, base)
    if codec:
        view = memoryview(bytes(raw))
        (batch,) = scan(view)
        raw = encode(records_of(view, batch), codec)
        struct.pack_into(">q", raw, 0, base)
        checked(raw)
    return raw


def read(piece: Piece) -> list[Plain]:
    found: list[Plain] = []
    batches = MemoryRecords(bytes(uncompressed(bytearray(piece.raw))))
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        found += [(r.timestamp, r.key, r.value, r.headers) for r in batch]
    return found


def work_on(
    raw: bytes | bytearray,
    work: RecordWork,
    ground: ProvenanceSettings = GROUND,
    position: int = 0,
    largest: int = 1 << 31,
) -> tuple[list[Piece], int, Partition]:
    worker = RecordWorker(work, SPEC, ("flow", "east"), ground)
    partition = Partition(
        SPEC,
        worker=worker,
        log=SourceLog(committed=0, reached=position, covered=position),
        sizes=BatchSizes(largest=largest),
    )
    pieces, partition.log.covered = pieces_of(partition, _fetched(raw), None, delivered_pieces)
    if (
        partition.log.doubted[0] == partition.log.covered
    ):  # a gap before the last batch is believed when two answers tell it
        last = list(scan(memoryview(raw)))[-1]
        more, partition.log.covered = pieces_of(partition, _fetched(raw[last.start :]), None, delivered_pieces)
        pieces = [*pieces, *more]
    return pieces, partition.log.covered, partition


def _fetched(raw: bytes | bytearray) -> FetchedPartition:
    return FetchedPartition("orders", 3, 0, 10**9, 10**9, 0, (), -1, memoryview(raw))
