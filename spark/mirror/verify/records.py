"""A record as it is compared, its bytes and its digest: key, value, headers in their order, timestamp; null is not
empty; the offset does not count."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from itertools import dropwhile, takewhile
from typing import NamedTuple

from mirror.verify.ranges import Window

DIGEST_BYTES = 16
_LENGTHS = struct.Struct(">qiii")
_LENGTH = struct.Struct(">i")

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """``timestamp`` in ms since 1970."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def encoded(record: Record) -> bytes:
    """Each part with its length, -1 for null: different records never have equal bytes."""
    _, timestamp, key, value, headers = record
    lengths = (-1 if key is None else len(key), -1 if value is None else len(value), len(headers))
    parts = [_LENGTHS.pack(timestamp, *lengths), key or b"", value or b""]
    for name, data in headers:
        title = name.encode()
        parts += (_LENGTH.pack(len(title)), title, _LENGTH.pack(-1 if data is None else len(data)), data or b"")
    return b"".join(parts)


def digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def within(records: Iterable[Record], window: Window) -> Iterator[Record]:
    """From the first record that is not older than the window up to the first that is not older than its end.

    Both sides hold the same records in the same order, so this cuts both at the same records.
    """
    found = iter(records)
    low, high = window.from_ms, window.to_ms
    if low is not None:
        found = dropwhile(lambda record: record.timestamp < low, found)
    if high is not None:
        found = takewhile(lambda record: record.timestamp < high, found)
    return found
