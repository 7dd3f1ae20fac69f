"""Filler records: what a reader of uncommitted records may meet at offsets where the source has nothing to read.

They are aborted. Each has a header that names it, an empty key, which a compacted topic needs, and no value. Those of
large batches have no header: they lie before a copy's first record and are deleted, and brokers open every one of them.
"""

from __future__ import annotations

import time
from functools import lru_cache

from reconciler.kafka.records.batches import build
from reconciler.kafka.records.codecs import NONE, ZSTD, compress
from reconciler.kafka.records.records import varint

HEADER = b"mirror.filler"
_PLAIN, _NAMED = 20, 10_000
"""Records: more are compressed, and more have no header."""
_BARE = varint(0) + varint(-1) + varint(0)
_TAIL = varint(0) + varint(-1) + varint(1) + varint(len(HEADER)) + HEADER + varint(-1)


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
