"""``python -m bench.record_work``: what record work costs a record, in one process and without brokers.

Source batches of 100 records of 1 KB, lz4, in memory; CPU seconds of the best of several turns.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from crc32c import crc32c

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "spark"))

from reconciler_mirror.lane.fetch.pieces import delivered_pieces, pieces_of
from reconciler_mirror.lane.partition import Partition, SourceLog
from reconciler_mirror.model.lane import PartitionSpec, ProvenanceSettings, RecordWork
from reconciler_mirror.record_work.on_bytes import RecordWorker

from bench.copy.figures import CASES
from bench.records.load import records
from reconciler.kafka.protocol.fetch import FetchedPartition
from reconciler.kafka.records.batches import scan, seal, verify
from reconciler.kafka.records.codecs import LZ4
from reconciler.kafka.records.fields import body
from reconciler.kafka.records.records import Record, encode
from reconciler.replication.expressions.record_filter import AddedHeader, Exists, Key
from reconciler.replication.handover import LOCAL, Provenance

BATCHES, PER_BATCH, TURNS = 40, 100, 7
SPEC = PartitionSpec("orders", 0, "orders", "")
WORKS = {
    "where, everything passes": RecordWork(Key(Exists(True))),
    "headers": RecordWork(headers=(AddedHeader("copied-from", "{source_cluster}"),)),
    "provenance": RecordWork(provenance=Provenance(LOCAL)),
}


def batches() -> bytes:
    """As a fetch brings them."""
    found = bytearray()
    made = records(CASES["1kb-lz4"].data, BATCHES * PER_BATCH, 1_700_000_000_000)
    kept = [Record(0, stamp, 0, memoryview(body(key, value) + b"\0")) for _, key, value, stamp in made]
    for number in range(BATCHES):
        raw = encode(kept[number * PER_BATCH : (number + 1) * PER_BATCH], LZ4)
        struct.pack_into(">q", raw, 0, number * PER_BATCH)
        struct.pack_into(">I", raw, 17, crc32c(raw[21:]))
        found += raw
    return bytes(found)


def whole(raw: bytes) -> None:
    view = memoryview(bytearray(raw))
    for batch in scan(view):
        part = view[batch.start : batch.end]
        verify(part, batch)
        seal(part, (1, 1), 0, transactional=True)


def worked(raw: bytes, work: RecordWork) -> None:
    worker = RecordWorker(work, SPEC, ("flow", "east"), ProvenanceSettings(b"source", b"target"))
    partition = Partition(SPEC, worker=worker, log=SourceLog(committed=0, reached=0, covered=0))
    view = memoryview(bytearray(raw))
    for piece in pieces_of(partition, FetchedPartition("orders", 0, 0, 1, 1, 0, (), -1, view), None, delivered_pieces)[
        0
    ]:
        seal(piece.raw, (1, 1), 0, transactional=True)


def best(turn: Callable[[], None]) -> float:
    """Microseconds of CPU a record."""
    least = float("inf")
    for _ in range(TURNS):
        began = time.process_time()
        turn()
        least = min(least, time.process_time() - began)
    return least / (BATCHES * PER_BATCH) * 1e6


def main() -> None:
    raw = batches()
    print(f"whole batches: {best(lambda: whole(raw)):.2f} microseconds of CPU a record")
    for name, work in WORKS.items():
        print(f"{name}: {best(lambda work=work: worked(raw, work)):.2f}")  # type: ignore[misc]


if __name__ == "__main__":
    main()
