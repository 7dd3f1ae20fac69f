"""What a flow with record work should have carried, and what at the target came by it.

Evaluated on decoded records, by other code than the batch path's. Offsets stay those of the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from mirror.decoded_work import Decoded, DecodedWorker, Left
from mirror.verify.ranges import SOURCE, PartitionRange, Span
from mirror.verify.reading import Readers, records
from mirror.verify.records import Record


def own(plan: PartitionRange, side: str, span: Span, readers: Readers, *, to_end: bool = False) -> Iterator[Record]:
    """Source: the records that travel, with the headers of their copies. Target: those that this flow brought."""
    return (record for record, ours in travelling(plan, side, span, readers, to_end=to_end) if ours)


def travelling(
    plan: PartitionRange, side: str, span: Span, readers: Readers, *, to_end: bool = False
) -> Iterator[tuple[Record, bool]]:
    """Every record and whether it is one of ``own``; others as they lie there. Raises UnreadableError."""
    worker = plan.worker
    if worker is None:
        yield from ((record, True) for record in records(span, readers, timestamps=plan.timestamps, to_end=to_end))
        return
    for record in records(span, readers, to_end=to_end):
        found, ours = _judged(worker, side, record)
        yield (found if plan.timestamps else found._replace(timestamp=0)), ours


def _judged(worker: DecodedWorker, side: str, record: Record) -> tuple[Record, bool]:
    decoded = Decoded(record.offset, record.timestamp, record.key, record.value, record.headers)
    if side != SOURCE:
        return record, worker.arrived(decoded)
    headers = worker.headers(decoded)
    return (record, False) if isinstance(headers, Left) else (record._replace(headers=tuple(headers)), True)
