"""Records that were read and not copied because of record work, counted once the position has passed them."""

from __future__ import annotations

from collections import deque


class Passed:
    """Of one partition. Each entry: the offset after a source batch, and how many of it were left out and why."""

    __slots__ = ("_waiting", "filtered", "returning")

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int, int]] = deque()
        self.filtered = 0
        self.returning = 0

    def add(self, next_offset: int, filtered: int, returning: int) -> None:
        if filtered or returning:
            self._waiting.append((next_offset, filtered, returning))

    def forget_beyond(self, offset: int) -> None:
        """The fetch position fell back to ``offset``: what lies behind it is read again."""
        while self._waiting and self._waiting[-1][0] > offset:
            self._waiting.pop()

    def committed(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            _, filtered, returning = self._waiting.popleft()
            self.filtered += filtered
            self.returning += returning
