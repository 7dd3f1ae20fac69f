"""Throttles a lane to its share of the flow's rate limit: a token bucket."""

import time
from collections.abc import Callable

BURST_S = 0.25
"""Seconds of the rate that may be sent at once: shorter would stutter, longer would let more through than the limit
says."""
NO_LIMIT = 0.0


class Throttle:
    """``rate``: bytes per second, asked again and again because the driver changes shares; NO_LIMIT for none.

    One thread uses it. A piece is taken whole as soon as the bucket is not empty: the smallest unit is one batch.
    """

    def __init__(self, rate: Callable[[], float], clock: Callable[[], float] = time.monotonic) -> None:
        self._asked = rate
        self._clock = clock
        self._tokens = 0.0
        self._at = clock()
        self._waiting_since: float | None = None
        self._waited = 0.0

    @property
    def rate(self) -> float:
        return self._asked()

    @property
    def limited(self) -> bool:
        return self.rate > NO_LIMIT

    @property
    def waited_s(self) -> float:
        """Seconds in which there was something to copy and the limit held it back."""
        since = self._waiting_since
        return self._waited + (self._clock() - since if since is not None else 0.0)

    def delay(self) -> float:
        """Seconds until something may be taken; 0 when it may be now."""
        now, rate = self._clock(), self.rate
        self._tokens = min(rate * BURST_S, self._tokens + (now - self._at) * rate)
        self._at = now
        return 0.0 if rate <= NO_LIMIT or self._tokens > 0 else max(0.002, -self._tokens / rate)

    def take(self, size: int) -> None:
        self._tokens -= size
        self.go_on()

    def hold(self) -> None:
        """A partition has something to copy and may not."""
        if self._waiting_since is None:
            self._waiting_since = self._clock()

    def go_on(self) -> None:
        if self._waiting_since is not None:
            self._waited += self._clock() - self._waiting_since
            self._waiting_since = None
