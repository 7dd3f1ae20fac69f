"""Progress lines about waits, so that no command is silent for long."""

import time
from collections.abc import Callable

SOON_S, AGAIN_S = 3.0, 15.0
"""Seconds before the first line, and before unchanged words are repeated."""


class WaitLines:
    """Call ``show`` at each turn. ``progress`` gets new words, and now and then the same ones with their duration."""

    def __init__(
        self,
        progress: Callable[[str], None],
        soon_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress = progress
        self._clock = clock
        self._quiet_until = clock() + (SOON_S if soon_s is None else soon_s)
        self._words = ""
        self._since = self._last = 0.0

    def show(self, words: str) -> None:
        """Writes a line when the words change, and every ``AGAIN_S`` with the duration; none in the first ``SOON_S``,
        in which most waits end."""
        now = self._clock()
        if now < self._quiet_until:
            return
        if words != self._words:
            self._words, self._since, self._last = words, now, now
            self._progress(words)
        elif now - self._last >= AGAIN_S:
            self._last = now
            self._progress(f"{words}, for {now - self._since:.0f} s now")
