"""A source partition with a random past: plain, transactional, aborted, open, compacted, with a truncated start."""

from __future__ import annotations

import random
import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from crc32c import crc32c

from reconciler.kafka.records.batches import CONTROL, TRANSACTIONAL
from reconciler.kafka.records.codecs import LZ4, compress
from reconciler.kafka.records.records import tail_of, varint

_HEADER = struct.Struct(">qiibIhiqqqhii")
STAMP = 1_700_000_000_000


def raw_batch(base: int, records: Sequence[tuple[int, bytes]], last_delta: int, pid: int, attributes: int) -> bytes:
    """``records``: offset delta and value; the value is the key too."""
    body = bytearray()
    for delta, value in records:
        record = b"\0" + varint(0) + varint(delta) + bytes(tail_of(value, value))
        body += varint(len(record)) + record
    codec = attributes & 7
    packed = compress(codec, bytes(body)) if codec else bytes(body)
    size = _HEADER.size - 12 + len(packed)
    raw = bytearray(
        _HEADER.pack(base, size, 0, 2, 0, attributes, last_delta, STAMP + base, STAMP + base, pid, 0, 0, len(records))
    )
    raw += packed
    struct.pack_into(">I", raw, 17, crc32c(raw[21:]))
    return bytes(raw)


def _marker(base: int, pid: int, *, abort: bool) -> bytes:
    key = struct.pack(">hh", 0, 0 if abort else 1)
    record = b"\0" + varint(0) + varint(0) + varint(len(key)) + key + varint(6) + bytes(6) + b"\0"
    body = varint(len(record)) + record
    size = _HEADER.size - 12 + len(body)
    attributes = CONTROL | TRANSACTIONAL
    raw = bytearray(_HEADER.pack(base, size, 0, 2, 0, attributes, 0, STAMP + base, STAMP + base, pid, 0, -1, 1))
    raw += body
    struct.pack_into(">I", raw, 17, crc32c(raw[21:]))
    return bytes(raw)


@dataclass
class _Part:
    base: int
    count: int
    pid: int
    kind: str  # plain, transactional, commit, abort
    kept: list[int] = field(default_factory=list)
    dropped: bool = False


@dataclass(frozen=True)
class SourceLog:
    """``start``: its log start, ``stable``: its last stable offset. ``committed``: what a reader of committed records
    gets, by offset."""

    start: int
    stable: int
    committed: dict[int, bytes]
    _bases: list[int]
    _raws: list[bytes]
    _aborted: list[tuple[int, int, int]]

    def fetch(self, position: int, most: int) -> tuple[memoryview, list[tuple[int, int]]]:
        """Some batches from the one that holds ``position``, and the aborted transactions that overlap them."""
        at = max(0, bisect_right(self._bases, position) - 1)
        taken = self._raws[at : at + 1 + most]
        until = self._bases[min(at + 1 + most, len(self._bases)) - 1] + 1_000 if taken else position
        aborted = [(pid, first) for pid, first, last in self._aborted if first < until and last >= position]
        return memoryview(bytearray(b"".join(taken))), aborted


def random_log(rng: random.Random, first: int = 0) -> SourceLog:
    """``first``: the offset at which its past begins; some of it may be gone."""
    parts, opened, at, aborted = [], dict[int, int](), first, []
    for _ in range(rng.randint(1, 40)):
        pid = rng.choice([-1, 7, 8, 9])
        count = rng.randint(1, rng.choice([2, 6, 30]))
        if pid >= 0 and pid in opened and rng.random() < 0.4:
            kind = rng.choice(["commit", "abort"])
            if kind == "abort" and opened[pid] >= 0:
                aborted.append((pid, opened[pid], at))
            del opened[pid]
            parts.append(_Part(at, 1, pid, kind))
        elif pid >= 0 and pid not in opened and rng.random() < 0.1:
            parts.append(_Part(at, 1, pid, rng.choice(["commit", "abort"])))  # of an empty transaction
        else:
            parts.append(_Part(at, count, pid, "plain" if pid < 0 else "transactional"))
            if pid >= 0:
                opened.setdefault(pid, at)
        at = parts[-1].base + parts[-1].count
    stable = min(opened.values(), default=at)
    parts = [part for part in parts if part.base < stable]
    _compact(rng, parts)
    start = _truncate(rng, parts, first, stable)
    return _log(parts, start, stable, aborted, rng)


def _compact(rng: random.Random, parts: list[_Part]) -> None:
    share = rng.choice([0, 0, 0.1, 0.5, 0.95])
    until = len(parts) - rng.randint(1, 5)  # the active segment is left alone
    for index, part in enumerate(parts):
        part.kept = list(range(part.count))
        if index < until and share and part.kind != "abort":  # which stays while records that it aborts do
            part.kept = [delta for delta in part.kept if rng.random() >= share]
            part.dropped = not part.kept and rng.random() < 0.7


def _truncate(rng: random.Random, parts: list[_Part], first: int, stable: int) -> int:
    start = rng.randint(first, stable) if rng.random() < 0.3 else first
    for part in parts:
        part.dropped = part.dropped or part.base + part.count <= start
    return start


def _log(
    parts: list[_Part], start: int, stable: int, aborted: list[tuple[int, int, int]], rng: random.Random
) -> SourceLog:
    bases, raws, committed = [], [], {}
    gone = {(pid, offset) for pid, begin, end in aborted for offset in range(begin, end)}
    for part in parts:
        if part.dropped:
            continue
        transactional = TRANSACTIONAL if part.pid >= 0 else 0
        if part.kind in ("commit", "abort"):
            raw = _marker(part.base, part.pid, abort=part.kind == "abort")
            if not part.kept:
                raw = raw_batch(part.base, [], 0, part.pid, CONTROL | TRANSACTIONAL)
        else:
            values = [(delta, b"%d" % (part.base + delta)) for delta in part.kept]
            codec = rng.choice([0, LZ4]) if values else 0
            raw = raw_batch(part.base, values, part.count - 1, part.pid, codec | transactional)
            for delta, value in values:
                offset = part.base + delta
                if offset >= start and (part.pid < 0 or (part.pid, offset) not in gone):
                    committed[offset] = value
        bases.append(part.base)
        raws.append(raw)
    return SourceLog(start, stable, committed, bases, raws, aborted)
