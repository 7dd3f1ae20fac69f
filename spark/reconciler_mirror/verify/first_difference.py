"""The first place where two streams part, told without showing a value: lengths and digests only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from mirror.verify.records import Record, digest, encoded

LOOK_AHEAD = 64


@dataclass(frozen=True, slots=True)
class Part:
    """A key, value or header list: its length in bytes (headers: their number) and digest; null has length None."""

    length: int | None
    digest: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A record as a report may show it. ``timestamp`` in ms since 1970."""

    key: Part
    value: Part
    headers: Part
    timestamp: int


@dataclass(frozen=True, slots=True)
class Difference:
    """``what``: key, value, headers, timestamp, missing, extra or swapped. ``record`` counts from the first compared
    one. An offset is None where that side has nothing. ``count``: how many are missing or extra in a row here."""

    record: int
    what: tuple[str, ...]
    source_offset: int | None
    target_offset: int | None
    source: Shown | None
    target: Shown | None
    count: int = 1


def first_difference(source: Iterable[Record], target: Iterable[Record], skipped: int = 0) -> Difference | None:
    """``skipped``: how many equal records lie before the two streams."""
    ours, theirs = _Ahead(source), _Ahead(target)
    number = skipped
    while True:
        record, copy = ours.peek(0), theirs.peek(0)
        if record is None and copy is None:
            return None
        if record is None or copy is None or not same(record, copy):
            return _told(number, ours, theirs)
        ours.drop()
        theirs.drop()
        number += 1


def same(record: Record, copy: Record) -> bool:
    return record[1:] == copy[1:]


def shown(record: Record) -> Shown:
    headers = digest(encoded(Record(0, 0, None, None, record.headers))).hex()
    return Shown(_part(record.key), _part(record.value), Part(len(record.headers), headers), record.timestamp)


def fields_that_differ(record: Record, copy: Record) -> tuple[str, ...]:
    pairs = (
        ("key", record.key, copy.key),
        ("value", record.value, copy.value),
        ("headers", record.headers, copy.headers),
        ("timestamp", record.timestamp, copy.timestamp),
    )
    return tuple(name for name, one, other in pairs if one != other)


def _part(data: bytes | None) -> Part:
    return Part(None, "") if data is None else Part(len(data), digest(data).hex())


class _Ahead:
    """A stream whose next records can be looked at before they are taken."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._stream: Iterator[Record] = iter(records)
        self._held: list[Record] = []

    def peek(self, index: int) -> Record | None:
        if len(self._held) <= index:
            self._held += islice(self._stream, index + 1 - len(self._held))
        return self._held[index] if index < len(self._held) else None

    def drop(self) -> None:
        del self._held[:1]

    def find(self, wanted: Record) -> int | None:
        for index in range(1, LOOK_AHEAD):
            found = self.peek(index)
            if found is None:
                return None
            if same(found, wanted):
                return index
        return None


def _told(number: int, ours: _Ahead, theirs: _Ahead) -> Difference:
    record, copy = ours.peek(0), theirs.peek(0)
    what, count = _what(record, copy, ours, theirs)
    return Difference(
        number,
        what,
        record.offset if record else None,
        copy.offset if copy else None,
        shown(record) if record else None,
        shown(copy) if copy else None,
        count,
    )


def _what(record: Record | None, copy: Record | None, ours: _Ahead, theirs: _Ahead) -> tuple[tuple[str, ...], int]:
    if record is None or copy is None:
        return (("missing",) if record else ("extra",)), 1
    missing, extra = ours.find(copy), theirs.find(record)
    if missing is not None and missing == extra:
        return ("swapped",), 1
    if missing is not None and (extra is None or missing < extra):
        return ("missing",), missing
    if extra is not None:
        return ("extra",), extra
    return fields_that_differ(record, copy), 1
