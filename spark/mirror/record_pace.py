"""How fast a lane of the record path reads under a rate limit: when it waits, and how many records it asks for."""

from __future__ import annotations

from mirror.throttle import BURST_S, Throttle

READ_AT_ONCE = 5_000
_WEIGHT = 0.2
"""Of the newest read in the mean size of a record."""


class RecordPace:
    """``throttle`` counts bytes; the source is asked for records, so their mean size is kept."""

    def __init__(self, throttle: Throttle) -> None:
        self.throttle = throttle
        self.record_bytes = 1024.0

    def most(self) -> int:
        """Records to read at once: under a rate limit, what it lets through in a moment."""
        if not self.throttle.limited:
            return READ_AT_ONCE
        return max(1, min(READ_AT_ONCE, int(self.throttle.rate * BURST_S / max(1.0, self.record_bytes))))

    def took(self, messages: int, size: int) -> None:
        """``size`` bytes were carried by ``messages`` records (at least one)."""
        if self.throttle.limited:
            self.throttle.take(size)
            self.record_bytes += _WEIGHT * (size / messages - self.record_bytes)
