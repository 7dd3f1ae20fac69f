"""What lanes count over all their sessions: replication latency as a histogram, and losses of flows that go on.

Latency is from a record's source timestamp to its commit at the target. A commit counts once for each partition it
moved, with the age of the partition's oldest record in it: the slowest record, at a cost that does not grow with the
records. Losses are counted exactly, once committed.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

T = TypeVar("T")
BOUNDS_MS = (10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 3_600_000)
"""Upper bounds of the buckets, inclusive; one more bucket is above them all."""


@dataclass(frozen=True, slots=True)
class Latency:
    """``counts`` has one entry a bucket, not cumulative; ``total_ms`` is the sum of what was counted."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS_MS) + 1)
    total_ms: int = 0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def plus(self, other: Latency) -> Latency:
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return Latency(counts, self.total_ms + other.total_ms)

    def since(self, earlier: Latency) -> Latency:
        """What was counted after ``earlier``, a snapshot of the same counter."""
        counts = tuple(a - b for a, b in zip(self.counts, earlier.counts, strict=True))
        return Latency(counts, self.total_ms - earlier.total_ms)


NO_LATENCY = Latency()


class LatencyCounter:
    """What one lane has counted. One thread writes; a snapshot may be taken by any."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_MS) + 1)
        self._total_ms = 0

    def committed(self, oldest_ms: int | None, now_ms: int | None = None) -> None:
        """``oldest_ms``: timestamp of the oldest record of one partition in the commit; None or below 0: it has none.
        A timestamp in the future counts as no time at all."""
        if oldest_ms is None or oldest_ms < 0:
            return
        age = max(0, (int(time.time() * 1000) if now_ms is None else now_ms) - oldest_ms)
        self._counts[bisect_left(BOUNDS_MS, age)] += 1
        self._total_ms += age

    def snapshot(self) -> Latency:
        return Latency(tuple(self._counts), self._total_ms)


@dataclass(frozen=True, slots=True)
class Loss:
    """``code``: the condition. Offsets of the source that are not at the target, or not what they are at the source
    any more; ``records`` and ``batches`` as far as they are known one by one. ``text``: the newest, in words."""

    code: str
    offsets: int = 0
    records: int = 0
    batches: int = 0
    text: str = ""

    def plus(self, later: Loss) -> Loss:
        return replace(
            self,
            offsets=self.offsets + later.offsets,
            records=self.records + later.records,
            batches=self.batches + later.batches,
            text=later.text or self.text,
        )


Losses = tuple[Loss, ...]
"""At most one a code, in the order of the codes."""


def added(losses: Iterable[Loss], later: Iterable[Loss]) -> Losses:
    all_losses = {loss.code: loss for loss in losses}
    for loss in later:
        known = all_losses.get(loss.code)
        all_losses[loss.code] = loss if known is None else known.plus(loss)
    return tuple(all_losses[code] for code in sorted(all_losses))


def since(now: Losses, before: Losses) -> Losses:
    """What came after ``before``, an earlier count of the same. A count that went back adds nothing."""
    known = {loss.code: loss for loss in before}
    losses = []
    for loss in now:
        old = known.get(loss.code, Loss(loss.code))
        more = Loss(
            loss.code,
            max(0, loss.offsets - old.offsets),
            max(0, loss.records - old.records),
            max(0, loss.batches - old.batches),
            loss.text,
        )
        if more.offsets or more.records or more.batches:
            losses.append(more)
    return tuple(losses)


class OnceCommitted(Generic[T]):
    """What counts of one partition when the position behind it is committed; a fall back before that forgets it."""

    def __init__(self) -> None:
        self._open: deque[tuple[int, T]] = deque()

    def add(self, position: int, count: T) -> None:
        self._open.append((position, count))

    def committed(self, position: int) -> Sequence[T]:
        """What counts from now on."""
        due: list[T] = []
        while self._open and self._open[0][0] <= position:
            due.append(self._open.popleft()[1])
        return due

    def forget_beyond(self, position: int) -> None:
        """The fetch position fell back: what lies behind ``position`` is read again."""
        while self._open and self._open[-1][0] > position:
            self._open.pop()
