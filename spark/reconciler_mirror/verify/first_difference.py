"""The differences between two sides, by lengths and digests, never by values.

Ordered partitions are compared record by record. Compacted ones are compared by the last record of each key, because
compaction may have removed a superseded record or an old tombstone on one side only.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice, zip_longest

from reconciler.replication.runs.verification import FieldDigest, FirstDifference, ShownRecord
from reconciler_mirror.verify.model import SOURCE, PartitionRange, VerifiedRecord, digest, encoded

LOOK_AHEAD = 64


def first_difference(
    source: Iterable[VerifiedRecord], target: Iterable[VerifiedRecord], skipped: int = 0, *, offsets: bool = False
) -> FirstDifference | None:
    """``skipped``: number of equal records before the two streams. ``offsets``: compared, too."""
    ours, theirs = iter(source), iter(target)
    for number, (record, copy) in enumerate(zip_longest(ours, theirs), skipped):
        if record is None or copy is None:
            return difference(number, ("missing",) if record else ("extra",), record, copy)
        if record[1:] != copy[1:]:
            # The later records of the other side distinguish a missing record from a changed one.
            missing, extra = _distance(copy, ours), _distance(record, theirs)
            if missing is not None and missing == extra:
                return difference(number, ("swapped",), record, copy)
            if missing is not None and (extra is None or missing < extra):
                return difference(number, ("missing",), record, copy, missing)
            if extra is not None:
                return difference(number, ("extra",), record, copy, extra)
            return difference(number, fields_that_differ(record, copy), record, copy)
        if offsets and record.offset != copy.offset:
            return difference(number, ("offset",), record, copy)
    return None


def _distance(wanted: VerifiedRecord, following: Iterable[VerifiedRecord]) -> int | None:
    """Where ``wanted`` is among the ``following`` records, counted from 1; None if not in the next ``LOOK_AHEAD``."""
    ahead = enumerate(islice(following, LOOK_AHEAD - 1), 1)
    return next((distance for distance, record in ahead if record[1:] == wanted[1:]), None)


def differences(
    source: Sequence[VerifiedRecord], target: Sequence[VerifiedRecord], skipped: int = 0, *, offsets: bool = False
) -> Iterator[FirstDifference]:
    """All differences of a few records, in order. Arguments as in ``first_difference``."""
    ours, theirs = ([record if offsets else record[1:] for record in side] for side in (source, target))
    if ours == theirs:
        return
    # The same records in another order are one difference; record by record, each of them would look wrong.
    if Counter(record[1:] for record in source) == Counter(record[1:] for record in target) and not offsets:
        first = next(index for index, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
        last = max(index for index, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
        yield difference(skipped + first, ("swapped",), source[first], target[first], last + 1 - first)
        return
    for tag, at, end, begin, until in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        # Where both sides have records, they are compared in pairs, and only the surplus of one side is missing or
        # extra.
        both = min(end - at, until - begin)
        for index in range(both):
            a, b = source[at + index], target[begin + index]
            yield difference(skipped + at + index, fields_that_differ(a, b) or ("offset",), a, b)
        number, at, begin = skipped + at + both, at + both, begin + both
        if count := max(end - at, until - begin):
            record, copy = (next(iter(side[i : i + 1]), None) for side, i in ((source, at), (target, begin)))
            yield difference(number, ("missing",) if end > at else ("extra",), record, copy, count)


def shown(record: VerifiedRecord) -> ShownRecord:
    headers = digest(encoded(VerifiedRecord(0, 0, None, None, record.headers))).hex()
    return ShownRecord(
        _part(record.key), _part(record.value), FieldDigest(len(record.headers), headers), record.timestamp
    )


def difference(
    number: int, names: tuple[str, ...], record: VerifiedRecord | None, copy: VerifiedRecord | None, count: int = 1
) -> FirstDifference:
    ours, theirs = ((side.offset, shown(side)) if side else (None, None) for side in (record, copy))
    return FirstDifference(number, names, ours[0], theirs[0], ours[1], theirs[1], count)


def fields_that_differ(record: VerifiedRecord, copy: VerifiedRecord) -> tuple[str, ...]:
    """Names of the different fields, the most telling first."""
    pairs = (
        ("key", record.key, copy.key),
        ("value", record.value, copy.value),
        ("headers", record.headers, copy.headers),
        ("timestamp", record.timestamp, copy.timestamp),
    )
    return tuple(name for name, entry, other in pairs if entry != other)


def _part(data: bytes | None) -> FieldDigest:
    return FieldDigest(None, "") if data is None else FieldDigest(len(data), digest(data).hex())


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """``key`` is a digest. ``late``: after the position, so perhaps not copied yet; or another writer's record."""

    index: int
    side: str
    key: bytes
    offset: int
    digest: bytes
    tombstone: bool
    late: bool


def entries(plan: PartitionRange, side: str, records: Iterable[tuple[VerifiedRecord, bool]]) -> Iterator[KeyEntry]:
    """Entries of records with a key; others never survive compaction. Each record comes with whether it is this flow's:
    a key that another writer wrote last is not compared, since compaction may have removed this flow's record."""
    for record, ours in records:
        if record.key is not None:
            late = not ours or (side == SOURCE and record.offset >= plan.position)
            content = digest(encoded(record, offset=plan.same_offsets))
            yield KeyEntry(plan.index, side, digest(record.key), record.offset, content, record.value is None, late)


def last_of(keys: frozenset[bytes], records: Iterable[VerifiedRecord]) -> dict[bytes, VerifiedRecord]:
    """The last record of each key, by the digest of the key."""
    verified_records: dict[bytes, VerifiedRecord] = {}
    for record in records:
        if record.key is not None and (name := digest(record.key)) in keys:
            verified_records[name] = record
    return verified_records


def confirmed(
    plan: PartitionRange,
    keys: Iterable[bytes],
    source: dict[bytes, VerifiedRecord],
    target: dict[bytes, VerifiedRecord],
) -> FirstDifference | None:
    """The first of ``keys`` that differs in the second reading, too; a key written meanwhile does not count."""
    for key in keys:
        record, copy = source.get(key), target.get(key)
        if record is not None and record.offset >= plan.position:
            continue
        names: tuple[str, ...] = ()
        if record is not None and copy is not None:
            names = fields_that_differ(record, copy)
            if not names and plan.same_offsets and record.offset != copy.offset:
                names = ("offset",)
        # Compaction may have removed a tombstone on one side already.
        elif record is not None and record.value is not None:
            names = ("missing",)
        elif copy is not None and copy.value is not None:
            names = ("extra",)
        if names:
            return difference(0, names, record, copy)
    return None
