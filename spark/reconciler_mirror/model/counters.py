"""Counters of lanes over all their sessions: replication latency as a histogram, losses under ``continue_on``, holes.

Latency is the time from a record's source timestamp to its commit at the target. A commit counts once for each
partition in it, with the age of that partition's oldest record: the slowest one, at a cost independent of the number of
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
"""Inclusive upper bounds of the buckets; one more bucket has no bound."""


@dataclass(frozen=True, slots=True)
class Latency:
    """``counts``: one entry per bucket, not cumulative; ``total_ms``: the sum of all counted times."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS_MS) + 1)
    total_ms: int = 0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def plus(self, other: Latency) -> Latency:
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return Latency(counts, self.total_ms + other.total_ms)

    def since(self, earlier: Latency) -> Latency:
        """The counts after ``earlier``, a snapshot of the same counter."""
        counts = tuple(a - b for a, b in zip(self.counts, earlier.counts, strict=True))
        return Latency(counts, self.total_ms - earlier.total_ms)


NO_LATENCY = Latency()


class LatencyCounter:
    """The counter of one lane. One thread writes; any thread may take a snapshot."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_MS) + 1)
        self._total_ms = 0

    def committed(self, oldest_ms: int | None, now_ms: int | None = None) -> None:
        """``oldest_ms``: timestamp of the oldest record of one partition in the commit; None or below 0: unknown. A
        timestamp in the future counts as 0 ms."""
        if oldest_ms is None or oldest_ms < 0:
            return
        age = max(0, (int(time.time() * 1000) if now_ms is None else now_ms) - oldest_ms)
        self._counts[bisect_left(BOUNDS_MS, age)] += 1
        self._total_ms += age

    def snapshot(self) -> Latency:
        return Latency(tuple(self._counts), self._total_ms)


@dataclass(frozen=True, slots=True)
class Loss:
    """``code``: the condition. ``offsets``: source offsets that the target lacks, or that the source has replaced;
    ``records`` and ``batches``: as far as they are known one by one. ``text``: describes the newest loss."""

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
"""At most one per code, in the order of the codes."""


def added(losses: Iterable[Loss], later: Iterable[Loss]) -> Losses:
    all_losses = {loss.code: loss for loss in losses}
    for loss in later:
        known = all_losses.get(loss.code)
        all_losses[loss.code] = loss if known is None else known.plus(loss)
    return tuple(all_losses[code] for code in sorted(all_losses))


def since(now: Losses, before: Losses) -> Losses:
    """The losses after ``before``, an earlier snapshot. A count that went back adds nothing."""
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


@dataclass(frozen=True, slots=True)
class HoleCounts:
    """Counts of a lane that keeps offsets, since its lease began. ``holes``: filled holes; ``fillers``: their offsets;
    ``refusals``: batches that leaders refused as not the next in sequence. ``filling``: partitions that are being
    filled up to their start, and ``left``: offsets left to fill there."""

    holes: int = 0
    fillers: int = 0
    refusals: int = 0
    filling: int = 0
    left: int = 0

    def since(self, earlier: HoleCounts) -> HoleCounts:
        """The counts after ``earlier``, a snapshot of the same lease."""
        return replace(
            self,
            holes=max(0, self.holes - earlier.holes),
            fillers=max(0, self.fillers - earlier.fillers),
            refusals=max(0, self.refusals - earlier.refusals),
        )

    def plus(self, before: HoleCounts) -> HoleCounts:
        """With the counts of the lane's former leases."""
        return replace(
            self,
            holes=self.holes + before.holes,
            fillers=self.fillers + before.fillers,
            refusals=self.refusals + before.refusals,
        )


class OnceCommitted(Generic[T]):
    """Counts of one partition that become valid when the position after them is committed; if the fetch position falls
    back before that, they are forgotten."""

    def __init__(self) -> None:
        self._open: deque[tuple[int, T]] = deque()

    def add(self, position: int, count: T) -> None:
        self._open.append((position, count))

    def committed(self, position: int) -> Sequence[T]:
        """The counts that the commit of ``position`` makes valid."""
        due: list[T] = []
        while self._open and self._open[0][0] <= position:
            due.append(self._open.popleft()[1])
        return due

    def forget_beyond(self, position: int) -> None:
        """The fetch position fell back to ``position``: later records are read and counted again."""
        while self._open and self._open[-1][0] > position:
            self._open.pop()
