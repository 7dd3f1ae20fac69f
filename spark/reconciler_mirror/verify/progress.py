"""How far the reading of a comparison is: offsets of both sides, rate, and time left, in words."""

from __future__ import annotations

import time
from collections.abc import Callable

_SETTLED_S = 2.0
"""A mean over less than this jumps."""


class ReadProgress:
    """``total``: offsets of both sides of all partitions. The clock starts with the first look."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._total, self._clock = total, clock
        self._began = clock()

    def words(self, done: int) -> str:
        """``done``: offsets of partitions that were read. ``1,200 of 3,400 offsets read, 600/s, about 4 s left``; empty
        once all are read, and as long as none are."""
        seconds = self._clock() - self._began
        if not 0 < done < self._total:
            return ""
        text = f"{done:,} of {self._total:,} offsets read"
        if seconds < _SETTLED_S:
            return text
        rate = done / seconds
        return f"{text}, {rate:,.0f}/s, about {_time((self._total - done) / rate)} left"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
