"""Fills holes: moves the target's log end over offsets without a committed record at the source.

A second producer, transactional and so fenced by its transactional.id, writes empty records and aborts them: n - 1
records and the abort marker take n offsets, and a marker alone takes one.

Invariant: a transaction is open in a partition only while the log end lies within the hole and at least one of its
offsets is free. The next holder of the transactional.id makes the coordinator end an open transaction, and that marker
still falls into the hole. Filling waits until the coordinator has nothing left to write: a late marker would shift
records.

Readers of uncommitted records see the fillers. Each has a header that names it, an empty key, which a compacted topic
needs, and no value. Large batches of fillers have no headers: they lie before a copy's first record, where they are
deleted, and brokers open each of them.
"""

import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol

from reconciler.kafka.client.cluster import Key
from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.protocol.producers import write_markers
from reconciler.kafka.records.batches import build
from reconciler.kafka.records.codecs import NONE, ZSTD, compress
from reconciler.kafka.records.records import varint
from reconciler_mirror.lane.same_offsets.segments import Hole
from reconciler_mirror.lane.state import RestartError

MOST_AT_ONCE = 1_000_000
"""Offsets of one partition in one transaction: few enough for slow brokers to stay within the transaction timeout."""
MOST_IN_BATCH = 100_000
HEADER = b"mirror.filler"
_PLAIN, _NAMED = 20, 10_000
"""Records above which a batch is compressed, and above which it has no headers."""
_BARE = varint(0) + varint(-1) + varint(0)
_TAIL = varint(0) + varint(-1) + varint(1) + varint(len(HEADER)) + HEADER + varint(-1)


class Fillers(NamedTuple):
    """Empty records to append to a partition."""

    records: int
    timestamp: int


class MarkerPort(Protocol):
    """The started producer of markers: no transaction of an earlier holder is open, and all its markers are written."""

    async def add(self, keys: Iterable[Key]) -> None:
        """Adds partitions to the transaction."""

    async def append(self, batches: Mapping[Key, Fillers]) -> Mapping[Key, int]:
        """Appends within the transaction; returns base offsets."""
        ...

    async def abort(self, keys: Iterable[Key], *, announce: bool) -> Mapping[Key, int]:
        """Aborts the transaction of ``keys``; ``announce``: after adding them to it. Returns once the coordinator has
        written all markers and will write none again; gives the leaders' log end offsets since."""
        ...


class DisplacedError(Exception):
    """A filler or marker got an offset outside of its hole: another producer writes to the partition, or (``base`` is
    lower) its log has lost records before the hole."""

    def __init__(self, key: Key, expected: int, base: int) -> None:
        super().__init__(f"{key[0]}-{key[1]}: offset {base} was given to what belongs to {expected}")
        self.key, self.expected, self.base = key, expected, base


async def fill(port: MarkerPort, holes: Mapping[Key, tuple[int, int, int]]) -> Mapping[Key, int]:
    """Fills all ``holes`` in one transaction. By key: the log end (within the hole), the first offset after the hole,
    and a timestamp for the fillers. Returns the new log ends, which may still lie within a large hole.

    Raises DisplacedError, and the exceptions of ``port``; then the next holder to start ``port`` ends the transaction.
    """
    # The abort marker alone fills a hole of one offset, so these holes need no fillers and no request before the abort.
    bare = all(after == first + 1 for first, after, _ in holes.values())
    if not bare:
        await port.add(holes)
    at = {key: first for key, (first, _, _) in holes.items()}
    until = {key: min(after, first + MOST_AT_ONCE) - 1 for key, (first, after, _) in holes.items()}
    displaced: DisplacedError | None = None
    while todo := {key: min(until[key] - offset, MOST_IN_BATCH) for key, offset in at.items() if offset < until[key]}:
        bases = await port.append({key: Fillers(count, holes[key][2]) for key, count in todo.items()})
        for key, count in todo.items():
            if bases[key] != at[key]:
                displaced = DisplacedError(key, at[key], bases[key])
                until[key] = at[key]
            else:
                at[key] += count
    ends = await port.abort(holes, announce=bare)
    # The coordinator writes a marker to the present leader. After an unclean election the log may end before the hole.
    for key, end in ends.items():
        if end <= at[key]:
            displaced = displaced or DisplacedError(key, at[key], end - 1)
    if displaced is not None:
        raise displaced
    return ends


def filler_batch(records: int, timestamp: int) -> bytearray:
    """One batch, ready for sealing. ``timestamp``: of all its records, below 0 for the present time."""
    stamp = timestamp if timestamp >= 0 else int(time.time() * 1000)
    codec = ZSTD if records > _PLAIN else NONE
    return build(codec, _body(records), (stamp, stamp), records)


@lru_cache(maxsize=64)
def _body(records: int) -> bytes:
    pieces: list[bytes] = []
    tail = _BARE if records > _NAMED else _TAIL
    for delta in range(records):
        record = b"\0\0" + varint(delta) + tail
        pieces += (varint(len(record)), record)
    return compress(ZSTD if records > _PLAIN else NONE, b"".join(pieces))


# Fills holes with markers that the lane writes itself, if its principal may: each takes one offset without a record.
# Kafka's coordinator repeats a marker when the leader dies or moves before it answers, and leaders do not recognise the
# repetition: the copy would be one offset ahead for good. A lane checks before it repeats a marker, and no two markers
# can be written for the same offset:
# A leader refuses a marker with a producer epoch *or* coordinator epoch below those of the last one. Several markers
# may compete for one offset: the holder's, one of a replaced holder that does not know it yet, one of a request in
# flight. Each has a higher producer epoch and a lower coordinator epoch than all markers of lower rank, so the leader
# takes the first to arrive and refuses the others. A rank belongs to one session. Only the session with the answer that
# its own marker is the last one writes the next with rank 0, that is, without a higher producer epoch: no other session
# can know that.
# All of this holds for one leader. The next one may be elected uncleanly, with a shorter log. So a session forgets the
# answers of a leader that no longer leads, and sends markers only to the leader that it asked.
# The transactional producer fills a long hole, except for its first and last offsets. The marker at the first one makes
# every other session ask for the last marker again, and so learn that it was replaced. The last offsets are spare, for
# markers that the coordinator repeats.

RANKS = 32
"""Consecutive sessions with different ranks. Two could collide only if a request outlived that many sessions."""
MOST = 8
"""Offsets up to which a hole is filled by own markers alone: each costs an exchange with the leader."""
SPARE = 4
"""Offsets at the end of a longer hole that the coordinator's producer leaves free."""
_EPOCHS, _COORDINATOR_EPOCHS = 1 << 15, 1 << 31
NO_LEADER_KNOWN = 5


def following(last: write_markers.Epochs, rank: int) -> write_markers.Epochs:
    """The epochs of the next marker, 0 <= ``rank`` < RANKS."""
    place = last.coordinator // RANKS + 1
    return write_markers.Epochs(max(last.producer, 0) + rank, place * RANKS + RANKS - 1 - rank)


def exhausted(last: write_markers.Epochs) -> bool:
    """No higher epochs are left: the coordinator writes until leaders forget them (``producer.id.expiration.ms``)."""
    return last.producer >= _EPOCHS - RANKS or last.coordinator >= _COORDINATOR_EPOCHS - 2 * RANKS


class LeaderPort(Protocol):
    """Questions to leaders; a failed one gives its error."""

    async def leaders(self, keys: Iterable[Key]) -> Mapping[Key, object]:
        """The present leader of each partition with its connection: unequal after an election, and after a lost
        connection. Leaves out partitions without a leader."""
        ...

    async def last_markers(self, keys: Iterable[Key]) -> Mapping[Key, write_markers.Epochs | BrokerError]: ...

    async def ends(self, keys: Iterable[Key]) -> Mapping[Key, int | BrokerError]:
        """Log end offsets at the leaders, replicated or not."""
        ...

    async def write_markers(
        self, markers: Mapping[Key, write_markers.Epochs], leaders: Mapping[Key, object]
    ) -> Mapping[Key, int]:
        """Kafka's error codes; NO_LEADER_KNOWN if nothing was sent, because a leader of ``leaders`` no longer leads."""
        ...

    async def require_current(self) -> None:
        """Raises FencedError if another session has begun since."""


class OwnMarkers:
    """Own markers of one session. ``session``: a number that differs from those of all recent sessions."""

    def __init__(self, port: LeaderPort, session: int) -> None:
        self._port = port
        self._rank = 1 + session % (RANKS - 1)
        self._last: dict[Key, tuple[object, write_markers.Epochs]] = {}
        self._left_to_coordinator: set[Key] = set()
        self.denied = False

    def may(self, key: Key) -> bool:
        return not self.denied and key not in self._left_to_coordinator

    def own_part(self, hole: Hole) -> Hole:
        """The part of ``hole`` that own markers fill before anything else."""
        return hole if hole.next_offset - hole.first <= MOST else Hole(hole.first, hole.first + 1)

    async def fill(self, holes: Mapping[Key, Hole]) -> Mapping[Key, int | None]:
        """Writes markers into ``holes``; returns log ends, None for one to read again, and no entry for holes left to
        the coordinator. Raises ConnectionLostError, FencedError, and RestartError if a marker may have been written."""
        at: dict[Key, int | None] = {}
        leaders = await self._port.leaders(holes)
        last = await self._learned(holes, leaders, at)
        left = {key: holes[key].first for key in last}
        while left and not self.denied:
            # Rank 0 is safe only after this session's own marker: no other session can know that it is the last one.
            ranks = {key: 0 if key in self._last else self._rank for key in left}
            markers = {key: following(last[key], ranks[key]) for key in left}
            errors = await self._port.write_markers(markers, leaders)
            for key, epochs in markers.items():
                if error := errors.get(key, -1):
                    self._last.pop(key, None)
                    if error in (write_markers.DENIED, write_markers.UNSUPPORTED):
                        self.denied = True
                    elif error not in (write_markers.STALE_EPOCH, write_markers.STALE_COORDINATOR, NO_LEADER_KNOWN):
                        # The next session has another rank, so its markers and this one exclude each other.
                        unsure = f"whether a marker was written to {key[0]}-{key[1]} is not known"
                        raise RestartError(f"{unsure} (error {error})")
                    if not self.denied:
                        at[key] = None
                    elif left[key] > holes[key].first:
                        at[key] = left[key]
                    del left[key]
                    continue
                self._last[key], last[key] = (leaders[key], epochs), epochs
                left[key] += 1
                if left[key] == holes[key].next_offset:
                    at[key] = left.pop(key)
        return at | dict(left)

    async def _learned(
        self, holes: Mapping[Key, Hole], leaders: Mapping[Key, object], at: dict[Key, int | None]
    ) -> dict[Key, write_markers.Epochs]:
        """The last markers of the partitions, if their logs end at the hole; the others get None in ``at``."""
        last: dict[Key, write_markers.Epochs] = {}
        for key in holes.keys() & self._last.keys():
            leader, epochs = self._last[key]
            # If records were lost with the leader, a marker for this hole would take the offset of one of them.
            if leader == leaders.get(key):
                last[key] = epochs
            else:
                del self._last[key]
        unknown = [key for key in holes if key not in last]
        # ``require_current`` comes last: a session that was replaced before these answers must not use them.
        if unknown:
            answers = await self._port.last_markers(unknown)
            ends = await self._port.ends(unknown)
            await self._port.require_current()
            for key in unknown:
                answer = answers[key]
                if key not in leaders or isinstance(answer, BrokerError) or ends[key] != holes[key].first:
                    at[key] = None
                else:
                    last[key] = answer
        for key in [key for key, epochs in last.items() if exhausted(epochs)]:
            self._left_to_coordinator.add(key)
            del last[key]
        return last
