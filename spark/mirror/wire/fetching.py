"""Fetch by hand: layouts 11 (topic names) and 13 (topic ids, KIP-516), incremental sessions (KIP-227).

An answer is read with bounds checked at every step; record bytes are views into the response, never copied.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from mirror.wire.errors import MalformedResponseError

NAMES, IDS = 11, 13
SESSION_NOT_FOUND, INVALID_SESSION_EPOCH = 70, 71
SESSION_ERRORS = frozenset({SESSION_NOT_FOUND, INVALID_SESSION_EPOCH, 103, 106})

_I = struct.Struct(">i")
_LIMITS = struct.Struct(">iiiibii")
_PARTITION_11 = struct.Struct(">iiqqi")
_PARTITION_13 = struct.Struct(">iiqiqib")
_ANSWER = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")

Topic = tuple[str, UUID]
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Want:
    """What to fetch of one partition. ``epoch``: the leader epoch we know (KIP-320), -1 unknown."""

    topic: str
    topic_id: UUID
    partition: int
    offset: int
    epoch: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchLimits:
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    committed: bool
    rack: str = ""


@dataclass(frozen=True, slots=True)
class FetchedPartition:
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


class FetchSession:
    """The client's half of an incremental fetch session on one broker: only differences travel, and only differences
    cost, however many partitions are idle."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = 0
        self.wanted: dict[Key, Want] = {}
        self.sent: dict[Key, Want] = {}
        self._changed: dict[Key, Want] = {}
        self._forgotten: dict[Key, Want] = {}

    def want(self, want: Want) -> None:
        key = (want.topic, want.partition)
        before = self.wanted.get(key)
        if before == want:
            return
        if before is not None and before.topic_id != want.topic_id:
            self.reset()
        self.wanted[key] = self._changed[key] = want
        self._forgotten.pop(key, None)

    def forget(self, key: Key) -> None:
        want = self.wanted.pop(key, None)
        self._changed.pop(key, None)
        if want is not None:
            self._forgotten[key] = want

    def take_difference(self) -> tuple[list[Want], list[Want]]:
        """(to send, to forget): all that the broker does not know yet. Taken once; if the request fails, ``reset``."""
        changed = list(self._changed.values()) if self.epoch else list(self.wanted.values())
        forgotten = list(self._forgotten.values()) if self.epoch else []
        self._changed.clear()
        self._forgotten.clear()
        self.sent.update(((want.topic, want.partition), want) for want in changed)
        return changed, forgotten

    def answers(self, key: Key, offset: int) -> bool:
        """Is an answer for ``key`` the answer for this offset? An older request may still have been on its way."""
        sent = self.sent.get(key)
        return sent is not None and sent.offset == offset

    def accept(self, answer: Fetched) -> bool:
        """False: the broker lost or refused the session; everything has to be sent again."""
        if answer.error or answer.session_id == 0:
            self.reset()
            return not answer.error
        self.session_id = answer.session_id
        self.epoch = 1 if self.epoch >= 0x7FFFFFFF else self.epoch + 1
        return True

    def reset(self) -> None:
        """The next request sends everything and asks for a new session."""
        self.session_id, self.epoch = 0, 0
        self._changed.clear()
        self._forgotten.clear()


def pack(version: int, session: FetchSession, limits: FetchLimits) -> bytes:
    """The body of a Fetch request for layout 11 or 13."""
    changed, forgotten = session.take_difference()
    bounds = (limits.max_wait_ms, limits.min_bytes, limits.max_bytes, int(limits.committed))
    head = _LIMITS.pack(-1, *bounds, session.session_id, session.epoch)
    if version == NAMES:
        rack = limits.rack.encode()
        return b"".join((head, _topics_11(changed), _forgotten_11(forgotten), struct.pack(">h", len(rack)), rack))
    rack = limits.rack.encode()
    return b"".join((head, _topics_13(changed), _forgotten_13(forgotten), _uvarint(len(rack) + 1), rack, b"\0"))


def _by_topic(wants: Iterable[Want]) -> dict[Topic, list[Want]]:
    grouped: dict[Topic, list[Want]] = {}
    for want in wants:
        grouped.setdefault((want.topic, want.topic_id), []).append(want)
    return grouped


def _topics_11(wants: Iterable[Want]) -> bytes:
    grouped = _by_topic(wants)
    out = [_I.pack(len(grouped))]
    for (topic, _), members in grouped.items():
        name = topic.encode()
        out.append(struct.pack(">h", len(name)) + name + _I.pack(len(members)))
        out.extend(_PARTITION_11.pack(w.partition, w.epoch, w.offset, -1, w.max_bytes) for w in members)
    return b"".join(out)


def _topics_13(wants: Iterable[Want]) -> bytes:
    grouped = _by_topic(wants)
    out = [_uvarint(len(grouped) + 1)]
    for (_, topic_id), members in grouped.items():
        out.append(topic_id.bytes + _uvarint(len(members) + 1))
        out.extend(_PARTITION_13.pack(w.partition, w.epoch, w.offset, -1, -1, w.max_bytes, 0) for w in members)
        out.append(b"\0")
    return b"".join(out)


def _forgotten_11(wants: Iterable[Want]) -> bytes:
    grouped = _by_topic(wants)
    out = [_I.pack(len(grouped))]
    for (topic, _), members in grouped.items():
        name = topic.encode()
        out.append(struct.pack(">h", len(name)) + name + _I.pack(len(members)))
        out.extend(_I.pack(w.partition) for w in members)
    return b"".join(out)


def _forgotten_13(wants: Iterable[Want]) -> bytes:
    grouped = _by_topic(wants)
    out = [_uvarint(len(grouped) + 1)]
    for (_, topic_id), members in grouped.items():
        out.append(topic_id.bytes + _uvarint(len(members) + 1))
        out.extend(_I.pack(w.partition) for w in members)
        out.append(b"\0")
    return b"".join(out)


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


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
