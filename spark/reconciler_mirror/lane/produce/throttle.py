"""Throttles a lane to its share of the flow's rate limit: a token bucket."""

import time
from collections.abc import Callable

BURST_S = 0.25
"""Bucket size in seconds of the rate: a smaller one would stutter, a larger one exceed the limit."""
NO_LIMIT = 0.0


class Throttle:
    """``rate``: bytes per second, called each time because the driver changes shares; NO_LIMIT for none.

    For one thread. A non-empty bucket lets a whole piece through, since a batch is the smallest unit.
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
        """Seconds in which the limit held records back."""
        since = self._waiting_since
        return self._waited + (self._clock() - since if since is not None else 0.0)

    def delay(self) -> float:
        """Seconds until the next piece may be taken; 0 for now."""
        now, rate = self._clock(), self.rate
        self._tokens = min(rate * BURST_S, self._tokens + (now - self._at) * rate)
        self._at = now
        return 0.0 if rate <= NO_LIMIT or self._tokens > 0 else max(0.002, -self._tokens / rate)

    def take(self, size: int) -> None:
        self._tokens -= size
        self.go_on()

    def hold(self) -> None:
        """The limit holds a partition with records back."""
        if self._waiting_since is None:
            self._waiting_since = self._clock()

    def go_on(self) -> None:
        if self._waiting_since is not None:
            self._waited += self._clock() - self._waiting_since
            self._waiting_since = None
