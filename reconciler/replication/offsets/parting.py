"""Where two logs part that should be the same, offset by offset: read backwards from where the shorter one ends.

A mirror that keeps offsets makes one log the beginning of the other, until another producer writes to one of them. So a
stretch with records that are equal on both sides proves all that lies before it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

LogRecord = tuple[int, int]
"""Offset, and a hash of all that makes the record; committed records only."""

ReadLog = Callable[[int, int], Awaitable[Sequence[LogRecord]]]
"""From an offset up to but not with another one."""

FIRST_LOOK, GROWTH, MOST_AT_ONCE = 1_000, 8, 200_000


@dataclass(frozen=True, slots=True)
class LogBounds:
    """``begin``: log start; ``end``: what a committed reader can read up to."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Parting:
    """``at``: below it both logs are the same; at it they are not, or one of them ends. ``proved``: equal records lie
    before it, or both begin there; False: retention took what could prove it."""

    at: int
    source: LogBounds
    target: LogBounds
    proved: bool = True

    @property
    def source_goes_on(self) -> bool:
        return self.source.end > self.at

    @property
    def target_goes_on(self) -> bool:
        return self.target.end > self.at

    @property
    def diverged(self) -> bool:
        """Both go on, each with its own records. Otherwise one log is the beginning of the other."""
        return self.source_goes_on and self.target_goes_on


async def find_parting(source: LogBounds, target: LogBounds, read_source: ReadLog, read_target: ReadLog) -> Parting:
    """Raises what the two readers raise."""
    low, high = max(source.begin, target.begin), min(source.end, target.end)
    parted, upper, size = high, high, FIRST_LOOK
    while upper > low:
        lower = max(low, upper - size)
        here, there = await read_source(lower, upper), await read_target(lower, upper)
        differs, agrees = first_apart(here, there)
        parted = parted if differs is None else differs
        if agrees:
            return Parting(parted, source, target)
        upper, size = lower, min(MOST_AT_ONCE, size * GROWTH)
    return Parting(parted, source, target, proved=low == 0 or high <= low)


def first_apart(here: Sequence[LogRecord], there: Sequence[LogRecord]) -> tuple[int | None, bool]:
    """The first offset where two stretches differ (None: nowhere), and whether equal records lie before it."""
    for number, (record, copy) in enumerate(zip(here, there, strict=False)):
        if record != copy:
            return min(record[0], copy[0]), number > 0
    shorter, longer = sorted((here, there), key=len)
    if len(longer) > len(shorter):
        return longer[len(shorter)][0], bool(shorter)
    return None, bool(here)
