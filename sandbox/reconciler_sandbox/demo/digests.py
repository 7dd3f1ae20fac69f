"""Digest of the records of a partition, and the first difference between two partitions.

Key, value, headers and timestamp count, in their order; offsets do not, since transactions leave gaps in them.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

_MARK_EVERY = 2_048
_LENGTHS = struct.Struct(">qiii")
_LENGTH = struct.Struct(">i")

Headers = tuple[tuple[str, bytes | None], ...]
Content = tuple[bytes | None, bytes | None, Headers, int]
"""Key, value, headers, timestamp in ms since 1970."""


@dataclass(frozen=True, slots=True)
class ProvedRecord:
    """``offset`` is where it lies; it is not part of what is compared. ``timestamp_ms`` since 1970."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int

    @property
    def content(self) -> Content:
        return self.key, self.value, self.headers, self.timestamp_ms


@dataclass(frozen=True, slots=True)
class Mark:
    """``digest`` is over the first ``records`` records; the next one lies at ``offset`` or behind it."""

    records: int
    offset: int
    digest: str


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """``marks`` begin with the empty one, so that a difference is found without reading everything again."""

    records: int
    digest: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """The first one of a partition. ``record`` counts from 0; an offset is None where that side has no such record."""

    record: int
    source_offset: int | None
    target_offset: int | None
    what: str


class FingerprintBuilder:
    """Takes the records of one partition in order."""

    def __init__(self, start: int) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._records = 0
        self._marks = [Mark(0, start, self._hash.hexdigest())]

    def add(self, offset: int, content: Content) -> None:
        self._hash.update(encoded(content))
        self._records += 1
        if self._records % _MARK_EVERY == 0:
            self._marks.append(Mark(self._records, offset + 1, self._hash.hexdigest()))

    def done(self) -> Fingerprint:
        return Fingerprint(self._records, self._hash.hexdigest(), tuple(self._marks))


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def encoded(content: Content) -> bytes:
    """One record as bytes, each part with its length, -1 for null: different records never look alike."""
    key, value, headers, timestamp_ms = content
    parts = [_LENGTHS.pack(timestamp_ms, _length(key), _length(value), len(headers)), key or b"", value or b""]
    for name, data in headers:
        title = name.encode()
        parts += [_LENGTH.pack(len(title)), title, _LENGTH.pack(_length(data)), data or b""]
    return b"".join(parts)


def last_common_mark(source: Fingerprint, target: Fingerprint) -> tuple[Mark, Mark]:
    """Up to here both sides are equal."""
    common = source.marks[0], target.marks[0]
    for ours, theirs in zip(source.marks, target.marks, strict=False):
        if ours.digest != theirs.digest:
            break
        common = ours, theirs
    return common


def first_difference(
    source: Iterable[ProvedRecord], target: Iterable[ProvedRecord], skipped: int = 0
) -> RecordDifference | None:
    """``skipped``: how many equal records lie before the two streams."""
    for index, (ours, theirs) in enumerate(zip_longest(_with_next(source), _with_next(target)), start=skipped):
        record, after = ours or (None, None)
        copy, after_copy = theirs or (None, None)
        if record is None or copy is None or record.content != copy.content:
            ours_at, theirs_at = (side.offset if side else None for side in (record, copy))
            return RecordDifference(index, ours_at, theirs_at, _what(record, after, copy, after_copy))
    return None


def _with_next(records: Iterable[ProvedRecord]) -> Iterator[tuple[ProvedRecord, ProvedRecord | None]]:
    stream = iter(records)
    current = next(stream, None)
    while current is not None:
        following = next(stream, None)
        yield current, following
        current = following


def _same(record: ProvedRecord | None, other: ProvedRecord | None) -> bool:
    return record is not None and other is not None and record.content == other.content


def _what(
    record: ProvedRecord | None, after: ProvedRecord | None, copy: ProvedRecord | None, after_copy: ProvedRecord | None
) -> str:
    if copy is None:
        return "the record is missing at the target, which ends before it"
    if record is None:
        return "the target has a record more than the source"
    if _same(record, after_copy) and _same(after, copy):
        return "this record and the next one are swapped at the target"
    if _same(after, copy):
        return "the record is missing at the target; the next one is in its place"
    if _same(record, after_copy):
        return "the target has a record here that the source does not have"
    return "; ".join(_field_differences(record, copy))


def _field_differences(record: ProvedRecord, copy: ProvedRecord) -> Iterator[str]:
    if record.key != copy.key:
        yield f"key: {_shown(record.key)} at the source, {_shown(copy.key)} at the target"
    if record.value != copy.value:
        yield f"value: {_shown(record.value)} at the source, {_shown(copy.value)} at the target"
    if record.headers != copy.headers:
        yield f"headers: {_shown_headers(record.headers)} at the source, {_shown_headers(copy.headers)} at the target"
    if record.timestamp_ms != copy.timestamp_ms:
        yield f"timestamp: {record.timestamp_ms} ms at the source, {copy.timestamp_ms} ms at the target"


def _shown(data: bytes | None) -> str:
    if data is None:
        return "null"
    if not data:
        return "empty"
    text = data[:60].decode("utf-8", "backslashreplace")
    return f"{text!r} and {len(data) - 60} bytes more" if len(data) > 60 else repr(text)


def _shown_headers(headers: Headers) -> str:
    return "{" + ", ".join(f"{name}={_shown(data)}" for name, data in headers) + "}"
