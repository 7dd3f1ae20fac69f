"""Produce by hand: layout 8 (classic and idempotent) and 12 (KIP-890 version 2), one batch per partition per request.

Two batches of one partition in a request would be lost silently (the broker keeps the later entry), so the request is a
mapping by partition and cannot say it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from wire.errors import MalformedResponseError

CLASSIC, VERSION_2 = 8, 12
ACKS_ALL = -1

_ANSWER = struct.Struct(">ihqqq")
_I = struct.Struct(">i")
_ENTRY = struct.Struct(">ii")
_NOTHING_SAID = b"\x01\0\0"  # no record errors, no message, no tagged fields

Key = tuple[str, int]


class Produced(NamedTuple):
    """One partition's answer. ``message``: the broker's words about a refusal."""

    topic: str
    partition: int
    error: int
    base_offset: int
    message: str


def pack(
    version: int, transactional_id: str | None, batches: Mapping[Key, memoryview], timeout_ms: int
) -> list[bytes | memoryview]:
    """The body of a Produce request in pieces; the batches are not copied."""
    by_topic: dict[str, list[tuple[int, memoryview]]] = {}
    for (topic, partition), raw in batches.items():
        by_topic.setdefault(topic, []).append((partition, raw))
    if version == CLASSIC:
        return _pack_8(transactional_id, by_topic, timeout_ms)
    return _pack_12(transactional_id, by_topic, timeout_ms)


def _pack_8(
    transactional_id: str | None, by_topic: Mapping[str, list[tuple[int, memoryview]]], timeout_ms: int
) -> list[bytes | memoryview]:
    name = transactional_id.encode() if transactional_id is not None else b""
    pending = struct.pack(">h", len(name) if transactional_id is not None else -1) + name
    pending += struct.pack(">hii", ACKS_ALL, timeout_ms, len(by_topic))
    pieces: list[bytes | memoryview] = []
    for topic, members in by_topic.items():
        raw_name = topic.encode()
        pending += struct.pack(">h", len(raw_name)) + raw_name + _I.pack(len(members))
        for partition, raw in members:
            pieces += (pending + _ENTRY.pack(partition, len(raw)), raw)
            pending = b""
    return pieces


def _pack_12(
    transactional_id: str | None, by_topic: Mapping[str, list[tuple[int, memoryview]]], timeout_ms: int
) -> list[bytes | memoryview]:
    name = transactional_id.encode() if transactional_id is not None else b""
    pending = _uvarint(len(name) + 1) + name if transactional_id is not None else b"\0"
    pending += struct.pack(">hi", ACKS_ALL, timeout_ms) + _uvarint(len(by_topic) + 1)
    pieces: list[bytes | memoryview] = []
    for topic, members in by_topic.items():
        raw_name = topic.encode()
        pending += _uvarint(len(raw_name) + 1) + raw_name + _uvarint(len(members) + 1)
        for partition, raw in members:
            pieces += (pending + _I.pack(partition) + _uvarint(len(raw) + 1), raw)
            pending = b"\0"
        pending += b"\0"
    return [*pieces, pending + b"\0"]


def _uvarint(number: int) -> bytes:
    if number < 1 << 7:
        return bytes((number,))
    if number < 1 << 14:
        return bytes((number & 0x7F | 0x80, number >> 7))
    return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80)) + _uvarint(number >> 14)


def unpack(version: int, frame: memoryview) -> tuple[int, list[Produced]]:
    """(throttle in ms, answers); ``frame`` begins with the correlation id. Raises MalformedResponseError."""
    try:
        reader = _Reader(frame, compact=version != CLASSIC)
        return reader.read()
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise MalformedResponseError(f"a Produce response cannot be read: {error}") from error


class _Reader:
    def __init__(self, frame: memoryview, *, compact: bool) -> None:
        self._frame = frame
        self._at = 4
        self._compact = compact

    def read(self) -> tuple[int, list[Produced]]:
        self._tags()
        found: list[Produced] = []
        for _ in range(self._count()):
            topic = self._string() or ""
            for _ in range(self._count()):
                found.append(self._partition(topic))
            self._tags()
        (throttle,) = _I.unpack_from(self._frame, self._at)
        self._at += 4
        self._tags()
        if self._at != len(self._frame):
            raise ValueError(f"{len(self._frame) - self._at} bytes are left over")
        return throttle, found

    def _partition(self, topic: str) -> Produced:
        index, error, base, _, _ = _ANSWER.unpack_from(self._frame, self._at)
        self._at += 30
        if self._compact and self._frame[self._at : self._at + 3] == _NOTHING_SAID:
            self._at += 3
            return Produced(topic, index, error, base, "")
        said: list[str] = []
        for _ in range(self._count()):
            self._at += 4
            said.append(self._string() or "")
            self._tags()
        said.append(self._string() or "")
        self._tags()
        return Produced(topic, index, error, base, "; ".join(dict.fromkeys(part for part in said if part)))

    def _count(self) -> int:
        if self._compact:
            number = self._uint() - 1
        else:
            (number,) = _I.unpack_from(self._frame, self._at)
            self._at += 4
        if not 0 <= number <= 1_000_000:
            raise ValueError(f"a list of {number} entries is announced")
        return int(number)

    def _string(self) -> str | None:
        if self._compact:
            size = self._uint() - 1
        else:
            (size,) = struct.unpack_from(">h", self._frame, self._at)
            self._at += 2
        if size < 0:
            return None
        return str(self._take(size), "utf-8")

    def _take(self, size: int) -> memoryview:
        end = self._at + size
        if end > len(self._frame):
            raise ValueError(f"{size} bytes are announced, {len(self._frame) - self._at} are there")
        piece = self._frame[self._at : end]
        self._at = end
        return piece

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
        if not self._compact:
            return
        for _ in range(self._uint()):
            self._uint()
            self._take(self._uint())
