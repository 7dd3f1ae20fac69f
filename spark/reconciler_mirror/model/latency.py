"""Replication latency as a histogram: from a record's source timestamp to its commit at the target.

A commit counts once for each partition it moved, with the age of the partition's oldest record in it: the slowest
record of each commit, at a cost that does not grow with the records.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass

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
