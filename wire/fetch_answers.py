"""Fetch responses by hand, layouts 11 and 13.

Bounds are checked at every step; record bytes are views into the response, never copied.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from wire.errors import MalformedResponseError

NAMES, IDS = 11, 13

_I = struct.Struct(">i")
_ANSWER = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")


class FetchedPartition(NamedTuple):
    topic: str
    partition: int
    error: int
    high_watermark: int
    last_stable: int
    log_start: int
    aborted: tuple[tuple[int, int], ...]
    preferred_replica: int
    records: memoryview


@dataclass(frozen=True, slots=True)
class Fetched:
    throttle_ms: int
    error: int
    session_id: int
    partitions: tuple[FetchedPartition, ...]


def unpack(version: int, frame: memoryview, names: Mapping[UUID, str]) -> Fetched:
    """Reads a response; ``frame`` begins with the correlation id. Raises MalformedResponseError."""
    try:
        return (_Names(frame) if version == NAMES else _Ids(frame, names)).read()
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise MalformedResponseError(f"a Fetch response cannot be read: {error}") from error


class _Names:
    """Layout 11."""

    def __init__(self, frame: memoryview) -> None:
        self._frame = frame
        self._at = 4

    def read(self) -> Fetched:
        throttle, error, session, topics = struct.unpack_from(">ihii", self._frame, 4)
        self._at = 18
        found: list[FetchedPartition] = []
        for _ in range(_count(topics)):
            topic = self._string()
            for _ in range(_count(self._int())):
                found.append(self._partition(topic))
        self._finish(0)
        return Fetched(throttle, error, session, tuple(found))

    def _partition(self, topic: str) -> FetchedPartition:
        index, error, high, stable, start = _ANSWER.unpack_from(self._frame, self._at)
        self._at += 30
        aborted = self._aborted(_count(max(self._int(), 0)))
        replica = self._int()
        return FetchedPartition(topic, index, error, high, stable, start, aborted, replica, self._bytes(self._int()))

    def _aborted(self, count: int) -> tuple[tuple[int, int], ...]:
        end = self._at + 16 * count
        if end > len(self._frame):
            raise ValueError("the list of aborted transactions is cut")
        pairs = tuple(_ABORTED.iter_unpack(self._frame[self._at : end])) if count else ()
        self._at = end
        return pairs

    def _bytes(self, size: int) -> memoryview:
        end = self._at + max(size, 0)
        if end > len(self._frame):
            raise ValueError(f"{size} bytes of records are announced, {len(self._frame) - self._at} are there")
        view = self._frame[self._at : end]
        self._at = end
        return view

    def _int(self) -> int:
        (number,) = _I.unpack_from(self._frame, self._at)
        self._at += 4
        return int(number)

    def _string(self) -> str:
        (size,) = struct.unpack_from(">h", self._frame, self._at)
        self._at += 2
        if size < 0:
            raise ValueError("a topic has no name")
        return str(self._bytes(size), "utf-8")

    def _finish(self, tail: int) -> None:
        if self._at + tail != len(self._frame):
            raise ValueError(f"{len(self._frame) - self._at} bytes are left over")


class _Ids(_Names):
    """Layout 13: compact lengths, tagged fields, topic ids."""

    def __init__(self, frame: memoryview, names: Mapping[UUID, str]) -> None:
        super().__init__(frame)
        self._names = names

    def read(self) -> Fetched:
        self._at = 4
        self._tags()
        throttle, error, session = struct.unpack_from(">ihi", self._frame, self._at)
        self._at += 10
        found: list[FetchedPartition] = []
        for _ in range(_count(self._uint() - 1)):
            topic_id = UUID(bytes=bytes(self._bytes(16)))
            topic = self._names.get(topic_id, "")
            for _ in range(_count(self._uint() - 1)):
                found.append(self._partition(topic))
            self._tags()
        self._tags()
        self._finish(0)
        return Fetched(throttle, error, session, tuple(found))

    def _partition(self, topic: str) -> FetchedPartition:
        index, error, high, stable, start = _ANSWER.unpack_from(self._frame, self._at)
        self._at += 30
        pairs: list[tuple[int, int]] = []
        for _ in range(_count(max(self._uint() - 1, 0))):
            pairs.append(_ABORTED.unpack_from(self._frame, self._at))
            self._at += 16
            self._tags()
        replica = self._int()
        records = self._bytes(self._uint() - 1)
        self._tags()
        return FetchedPartition(topic, index, error, high, stable, start, tuple(pairs), replica, records)

    def _uint(self) -> int:
        number = shift = 0
        while True:
            byte = self._frame[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift > 28:
                raise ValueError("a length has too many bytes")

    def _tags(self) -> None:
        for _ in range(_count(self._uint())):
            self._uint()
            self._bytes(self._uint())


def _count(number: int) -> int:
    if not 0 <= number <= 1_000_000:
        raise ValueError(f"a list of {number} entries is announced")
    return number
