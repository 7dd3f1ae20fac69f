"""Fills holes: moves the target's log end by as many offsets as a reader of committed records gets nothing at.

A second producer, transactional and so fenced by its transactional.id, writes empty records and aborts them: n - 1
records and the marker that ends the transaction make n offsets, and the marker alone makes one.

Invariant: a transaction is open in a partition only while its log end lies within the hole and at least one offset of
it is left. The next holder of the transactional.id makes the coordinator end what is open, and that marker falls into
the hole too. An end is waited for until the coordinator has nothing left to write: a marker that comes late would move
records.

Fillers are what a reader of uncommitted records may meet there. Each has a header that names it, an empty key, which a
compacted topic needs, and no value. Those of large batches have no header: they lie before a copy's first record and
are deleted, and brokers open every one of them.
"""

import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol

from reconciler.kafka.client.cluster import Key
from reconciler.kafka.records.batches import build
from reconciler.kafka.records.codecs import NONE, ZSTD, compress
from reconciler.kafka.records.records import varint

MOST_AT_ONCE = 1_000_000
"""Offsets of one partition in one transaction: seconds of its timeout are left on slow brokers."""
MOST_IN_BATCH = 100_000
HEADER = b"mirror.filler"
_PLAIN, _NAMED = 20, 10_000
"""Records: more are compressed, and more have no header."""
_BARE = varint(0) + varint(-1) + varint(0)
_TAIL = varint(0) + varint(-1) + varint(1) + varint(len(HEADER)) + HEADER + varint(-1)


class Fillers(NamedTuple):
    """So many empty records to append to a partition."""

    records: int
    timestamp: int


class MarkerPort(Protocol):
    """The producer of markers, as its owner has begun it: whatever earlier holders had open is ended and written."""

    async def add(self, keys: Iterable[Key]) -> None:
        """Partitions join the transaction."""

    async def append(self, batches: Mapping[Key, Fillers]) -> Mapping[Key, int]:
        """Appends within the transaction; the base offset each got."""
        ...

    async def abort(self, keys: Iterable[Key], *, announce: bool) -> Mapping[Key, int]:
        """Aborts the transaction of ``keys``, which join it first where ``announce`` says so. Returns once the marker
        is written to all of them, for good: log end offsets since, as the leaders have them."""
        ...


class DisplacedError(Exception):
    """A filler or a marker came to lie where none belongs: another producer writes to the partition, or (``base`` is
    lower) its log has lost what was before the hole."""

    def __init__(self, key: Key, expected: int, base: int) -> None:
        super().__init__(f"{key[0]}-{key[1]}: offset {base} was given to what belongs to {expected}")
        self.key, self.expected, self.base = key, expected, base


async def fill(port: MarkerPort, holes: Mapping[Key, tuple[int, int, int]]) -> Mapping[Key, int]:
    """One transaction for all ``holes``: by key, where the log ends now (within the hole), its first offset after it,
    and a timestamp for the fillers. Gives the log ends afterwards, which may lie within a hole that is large.

    Raises DisplacedError, and what ``port`` raises. Then the next holder that begins ``port`` ends what is open.
    """
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
    # The coordinator writes a marker to the leader of that moment. After an unclean election its log may end before the
    # hole.
    for key, end in ends.items():
        if end <= at[key]:
            displaced = displaced or DisplacedError(key, at[key], end - 1)
    if displaced is not None:
        raise displaced
    return ends


def filler_batch(records: int, timestamp: int) -> bytearray:
    """One batch, to be sealed. ``timestamp``: of all its records, below 0 for now."""
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
