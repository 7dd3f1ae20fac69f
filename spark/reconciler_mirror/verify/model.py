"""The subject of a comparison: one partition of a flow on source and target, its bounds and its records.

All values are frozen and picklable, because they travel from the driver to Spark tasks and back.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile
from typing import NamedTuple

from reconciler.replication.handover import Endpoint
from reconciler.replication.runs.verification import FirstDifference
from reconciler_mirror.record_work.on_records import DecodedWorker

SOURCE, TARGET = "source", "target"
DIGEST_BYTES = 16
_LENGTHS = struct.Struct(">qiii")  # timestamp, lengths of key and value, number of headers
_LENGTH = struct.Struct(">i")
_OFFSET = struct.Struct(">q")

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Record timestamps in ms, from ``from_ms`` to before ``to_ms``. None: no limit."""

    from_ms: int | None = None
    to_ms: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetSpan:
    """Offsets of one partition from ``start`` to before ``end``, for a reader at ``isolation``.

    ``cut``: this side may have lost older records (its log does not start at 0), or never had them.
    """

    endpoint: Endpoint
    topic: str
    partition: int
    isolation: str
    start: int
    end: int
    cut: bool = False

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition} at {self.endpoint.cluster}"


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """``index`` identifies it in all data frames. Every committed source record before ``position`` must be in
    ``target``, and every record of ``target`` must come from ``source``
    (docs/decisions/copy/0020-how-verify-bounds-both-sides.md). ``until``: end of the source range; records after the
    position are lag. ``worker``: the flow's record work; the source then consists of the records that it passes, the
    target of the records that came by this flow. ``same_offsets``: copies have the source's offsets, so the comparison
    includes offsets; ``producer``: the producer id of the flow's data, None if unknown. ``ids``: of both topics.
    ``parts``: ranges of source offsets for a sample; None: everything."""

    index: int
    flow: str
    source: OffsetSpan
    target: OffsetSpan
    position: int
    until: int
    window: TimeWindow = TimeWindow()
    compacted: bool = False
    timestamps: bool = True
    worker: DecodedWorker | None = None
    same_offsets: bool = False
    producer: int | None = None
    ids: tuple[str, str] = ("", "")
    parts: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """A partition, or with an empty ``topic`` a whole flow, that cannot be compared."""

    flow: str
    topic: str
    target_topic: str
    partition: int
    reason: str
    todo: str


class VerifiedRecord(NamedTuple):
    """``timestamp`` in ms since 1970."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def encoded(record: VerifiedRecord, *, offset: bool = False) -> bytes:
    """Each part with its length, -1 for null, so that different records have different bytes. ``offset``: included."""
    at, timestamp, key, value, headers = record
    lengths = (-1 if key is None else len(key), -1 if value is None else len(value), len(headers))
    parts = [_LENGTHS.pack(timestamp, *lengths), key or b"", value or b""]
    if offset:
        parts.insert(0, _OFFSET.pack(at))
    for name, data in headers:
        title = name.encode()
        parts += (_LENGTH.pack(len(title)), title, _LENGTH.pack(-1 if data is None else len(data)), data or b"")
    return b"".join(parts)


def digest(data: bytes) -> bytes:
    """16 bytes in place of a record or key, so that billions fit into a shuffle; two different ones with equal digests
    are not to be expected before some 2^64 of them."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def within(records: Iterable[VerifiedRecord], window: TimeWindow) -> Iterator[VerifiedRecord]:
    """Records from the first one not older than the window's begin to before the first one not older than its end.

    Both sides have the same records in the same order, so this cuts both at the same records.
    """
    verified_records = iter(records)
    low, high = window.from_ms, window.to_ms
    if low is not None:
        verified_records = dropwhile(lambda record: record.timestamp < low, verified_records)
    if high is not None:
        verified_records = takewhile(lambda record: record.timestamp < high, verified_records)
    return verified_records


# The progress of one partition's comparison; pieces add up.

MOST_NAMED = 20
"""Named differences per partition, at most; all are counted."""


@dataclass(frozen=True, slots=True)
class ComparedStretch:
    """A row of the chunk table: the equal part of a piece, or a stretch of different records. ``first_*``: None if that
    side has none."""

    equal: bool
    source_records: int
    target_records: int
    first_source: int | None
    first_target: int | None


@dataclass(frozen=True, slots=True)
class PartitionReading:
    """``*_start``: first offsets of the comparison; ``*_next``: next offsets to compare; ``done``: nothing is left.
    ``older_*``: records on one side only, before the first common one. ``source_end``: the source offset after the
    last compared record. ``equal``, ``source_records``, ``target_records``, ``differing``: numbers of records.
    ``differences``: the first ones. ``error`` and ``todo``: why it could not be read, and the remedy. ``one_client``:
    clusters that librdkafka could not log in to, and why. ``by_bytes``: equal records in equal batches; ``sampled``:
    equal records that librdkafka read, too. ``unconfirmed``: a second reading did not find a difference. ``rest``: the
    source offset from which on nothing is compared, because both sides have nothing in common any more. ``unsure``:
    source offsets among which the first difference of a sample lies, if its part was placed by most of its records."""

    index: int
    source_start: int = 0
    target_start: int = 0
    older_source: int = 0
    older_target: int = 0
    source_end: int = 0
    error: str = ""
    todo: str = ""
    one_client: tuple[tuple[str, str], ...] = ()
    by_bytes: int = 0
    sampled: int = 0
    source_next: int = 0
    target_next: int = 0
    done: bool = True
    equal: int = 0
    source_records: int = 0
    target_records: int = 0
    differing: int = 0
    differences: tuple[FirstDifference, ...] = ()
    unconfirmed: bool = False
    rest: int | None = None
    unsure: tuple[int, int] | None = None
    stretches: tuple[ComparedStretch, ...] = ()


def together(first: PartitionReading | None, then: PartitionReading) -> PartitionReading:
    """Adds the next piece, ``then``, to ``first``; ``then`` numbers its records from its own first one."""
    if first is None:
        return then
    numbered = tuple(
        replace(difference, record=difference.record + first.source_records) for difference in then.differences
    )
    return replace(
        then,
        source_start=first.source_start,
        target_start=first.target_start,
        older_source=first.older_source,
        older_target=first.older_target,
        source_end=max(first.source_end, then.source_end),
        one_client=tuple(sorted({*first.one_client, *then.one_client})),
        by_bytes=first.by_bytes + then.by_bytes,
        sampled=first.sampled + then.sampled,
        equal=first.equal + then.equal,
        source_records=first.source_records + then.source_records,
        target_records=first.target_records + then.target_records,
        differing=first.differing + then.differing,
        differences=(*first.differences, *numbered)[:MOST_NAMED],
        unconfirmed=first.unconfirmed or then.unconfirmed,
        unsure=first.unsure if first.differences else then.unsure,
        stretches=(*first.stretches, *then.stretches),
    )
