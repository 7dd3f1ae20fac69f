"""Compacted partitions: the surviving state, one row a record; the last one of each key counts.

Compaction may have removed a superseded record or an old tombstone on one side only, so keys are compared, not order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mirror.verify.differences import Difference, fields_that_differ, shown
from mirror.verify.ranges import SOURCE, PartitionRange
from mirror.verify.records import Record, digest, encoded


@dataclass(frozen=True, slots=True)
class Entry:
    """``key`` is a digest. ``late``: beyond the position, so perhaps not copied yet; or not this flow's to carry."""

    index: int
    side: str
    key: bytes
    offset: int
    digest: bytes
    tombstone: bool
    late: bool


def entries(plan: PartitionRange, side: str, records: Iterable[tuple[Record, bool]]) -> Iterator[Entry]:
    """Records without a key never survive compaction and are left out. ``records`` come with whether they are this
    flow's: a key that others wrote last is not compared, since compaction may have removed what this flow carried."""
    for record, ours in records:
        if record.key is not None:
            late = not ours or (side == SOURCE and record.offset >= plan.position)
            content = digest(encoded(record))
            yield Entry(plan.index, side, digest(record.key), record.offset, content, record.value is None, late)


def last_of(keys: frozenset[bytes], records: Iterable[Record]) -> dict[bytes, Record]:
    """The last record of each key, by the digest of the key."""
    found: dict[bytes, Record] = {}
    for record in records:
        if record.key is not None and (name := digest(record.key)) in keys:
            found[name] = record
    return found


def confirmed(
    plan: PartitionRange, keys: Iterable[bytes], source: dict[bytes, Record], target: dict[bytes, Record]
) -> Difference | None:
    """The first of ``keys`` that still differs when it is read again; one that was written meanwhile does not count."""
    for key in keys:
        record, copy = source.get(key), target.get(key)
        if record is not None and record.offset >= plan.position:
            continue
        what = _what(record, copy)
        if what:
            return Difference(
                0,
                what,
                record.offset if record else None,
                copy.offset if copy else None,
                shown(record) if record else None,
                shown(copy) if copy else None,
            )
    return None


def _what(record: Record | None, copy: Record | None) -> tuple[str, ...]:
    if record is not None and copy is not None:
        return fields_that_differ(record, copy)
    if record is not None:
        return () if record.value is None else ("missing",)
    return () if copy is None or copy.value is None else ("extra",)
