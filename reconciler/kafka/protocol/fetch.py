"""Fetch: versions 11 (topic names) and 13 (topic ids, KIP-516), incremental sessions (KIP-227)."""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from reconciler.kafka.protocol.flexible import ClassicReader, ResponseReader, count, reading, uvarint

# Fetch responses, versions 11 and 13: bounds are checked at every step, records are views and never copied.

NAMES, IDS = 11, 13

_HEAD = struct.Struct(">ihi")
_ANSWER = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")


def version_for(negotiated: Callable[[int, int, int, str], int], *, by_name: bool) -> int:
    """The layout to ask a broker in, as it offers them; ``by_name``: the id of a topic is not known."""
    version = negotiated(1, NAMES, NAMES if by_name else IDS, "Fetch")
    return IDS if version >= IDS else NAMES


class FetchedPartition(NamedTuple):
    """One partition of a Fetch response."""

    topic: str
    partition: int
    error: int
    """Kafka's code."""
    high_watermark: int
    """End of what all in-sync replicas have; no consumer reads further."""
    last_stable: int
    """End of what is decided: the first offset of the first open transaction, or the high watermark."""
    log_start: int
    """First offset that retention and DeleteRecords have left; -1 unknown."""
    aborted: tuple[tuple[int, int], ...]
    """Producer id and first offset of each aborted transaction that overlaps the records; only readers of committed
    records get them."""
    preferred_replica: int
    """Broker to fetch from instead (KIP-392); -1: this one."""
    records: memoryview
    """A view into the receive buffer; its last batch may be cut."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """``error``: code of the fetch session (KIP-227); partitions have their own. Contains only partitions with news."""

    throttle_ms: int
    error: int
    session_id: int
    partitions: tuple[FetchedPartition, ...]


@reading("a Fetch")
def unpack(version: int, frame: memoryview, names: Mapping[UUID, str]) -> Fetched:
    """Reads a response; ``frame`` begins with the correlation id. Raises MalformedResponseError."""
    reader = ClassicReader(frame, views=True) if version == NAMES else ResponseReader(frame, views=True)
    throttle, error, session = reader.fixed(_HEAD)
    partitions: list[FetchedPartition] = []
    for _ in range(reader.count()):
        topic = reader.string() if version == NAMES else names.get(reader.uuid(), "")
        if version == NAMES and not topic:
            raise ValueError("a topic has no name")
        partitions += [_partition(reader, topic) for _ in range(reader.count())]
        reader.tags()
    reader.finish()
    return Fetched(throttle, error, session, tuple(partitions))


def _partition(reader: ResponseReader, topic: str) -> FetchedPartition:
    index, error, high, stable, start = reader.fixed(_ANSWER)
    aborted = tuple(_aborted(reader) for _ in range(reader.count()))
    replica, records = reader.int32(), memoryview(reader.raw())
    reader.tags()
    return FetchedPartition(topic, index, error, high, stable, start, aborted, replica, records)


def _aborted(reader: ResponseReader) -> tuple[int, int]:
    producer_id, first_offset = reader.fixed(_ABORTED)
    reader.tags()
    return producer_id, first_offset


SESSION_NOT_FOUND, INVALID_SESSION_EPOCH = 70, 71
SESSION_ERRORS = frozenset({SESSION_NOT_FOUND, INVALID_SESSION_EPOCH, 103, 106})

_I = struct.Struct(">i")
# Field for field as in FetchRequest.json of Kafka. Limits: replica id (-1: a client), wait, least and most bytes,
# isolation, session id and epoch. Partition: index, leader epoch, offset, (13: epoch of the last record read, -1), log
# start offset (-1: only followers have one), most bytes.
_LIMITS = struct.Struct(">iiiibii")
_PARTITION_11 = struct.Struct(">iiqqi")
_PARTITION_13 = struct.Struct(">iiqiqib")

Topic = tuple[str, UUID]
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Want:
    """What to fetch of one partition."""

    topic: str
    topic_id: UUID
    partition: int
    offset: int
    """The next one to read."""
    epoch: int
    """The leader epoch that we know (KIP-320), so that a former leader refuses; -1: unknown."""
    max_bytes: int
    """Of this partition in one answer; a larger first batch still comes whole (KIP-74)."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits and terms of one Fetch request, over all its partitions."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    """Of the whole answer; the first batch comes even if it is larger (KIP-74)."""
    committed: bool
    """Isolation level read_committed."""
    rack: str = ""
    """Of this client, for a replica nearby (KIP-392)."""


class FetchSession:
    """The client's half of an incremental fetch session on one broker (KIP-227): only differences travel, and only
    differences cost, however many partitions are idle.

    One request at a time may be under way: the broker counts them by ``epoch``, and refuses one out of order.
    """

    def __init__(self) -> None:
        self.session_id = 0
        """Given by the broker with its first answer; 0: none yet."""
        self.epoch = 0
        """Number of the next request; 0 asks for a new session and sends everything."""
        self.wanted: dict[Key, Want] = {}
        self.sent: dict[Key, Want] = {}
        """What the broker was last asked for, kept over ``reset``: an answer under way may still be about it."""
        self._changed: dict[Key, Want] = {}
        """The part of ``wanted`` that the broker does not know yet."""
        self._forgotten: dict[Key, Want] = {}
        """What it still fetches and is no longer wanted; no key is in ``wanted``, too."""

    def want(self, want: Want) -> None:
        """Fetches a partition from the next request on, or moves its offset. An equal want changes nothing."""
        key = (want.topic, want.partition)
        before = self.wanted.get(key)
        if before == want:
            return
        known = (before, self._forgotten.get(key))
        if any(entry is not None and entry.topic_id != want.topic_id for entry in known):
            self.reset()  # the broker reports the former topic as missing while it is in the session
        self.wanted[key] = self._changed[key] = want
        self._forgotten.pop(key, None)

    def forget(self, key: Key) -> None:
        """No longer fetches a partition. An answer to an earlier request may still hold its records."""
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
    by_name, rack = version == NAMES, limits.rack.encode()
    entry = _entry_11 if by_name else _entry_13
    topics = (
        *_topics(changed, entry, by_name=by_name),
        *_topics(forgotten, lambda w: _I.pack(w.partition), by_name=by_name),
    )
    tail = struct.pack(">h", len(rack)) + rack if by_name else uvarint(len(rack) + 1) + rack + b"\0"
    return b"".join((head, *topics, tail))


def _topics(wants: Iterable[Want], entry: Callable[[Want], bytes], *, by_name: bool) -> Iterator[bytes]:
    """Partitions by topic: by its name as before KIP-482, or compact, by its id."""
    grouped: dict[Topic, list[Want]] = {}
    for want in wants:
        grouped.setdefault((want.topic, want.topic_id), []).append(want)
    length = _I.pack if by_name else count
    yield length(len(grouped))
    for (topic, topic_id), members in grouped.items():
        name = topic.encode()
        yield struct.pack(">h", len(name)) + name if by_name else topic_id.bytes
        yield length(len(members))
        yield from map(entry, members)
        if not by_name:
            yield b"\0"


def _entry_11(w: Want) -> bytes:
    return _PARTITION_11.pack(w.partition, w.epoch, w.offset, -1, w.max_bytes)


def _entry_13(w: Want) -> bytes:
    return _PARTITION_13.pack(w.partition, w.epoch, w.offset, -1, -1, w.max_bytes, 0)
