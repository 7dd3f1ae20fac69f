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
from reconciler.kafka.records.batches import build
from reconciler.kafka.records.codecs import NONE, ZSTD, compress
from reconciler.kafka.records.records import varint

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
