"""Lines that say what a command waits for, so that it is never silent for long."""

import time
from collections.abc import Callable

SOON_S, AGAIN_S = 3.0, 15.0
"""The first line comes after so long, the same words again after that."""


class WaitLines:
    """``show`` is called at each look. ``progress`` gets words that are new, and the same ones now and then, with how
    long that lasts."""

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
        """A line when the words change, and once in ``AGAIN_S`` while they do not, with how long it has been; nothing
        in the first moments, in which most waits end."""
        now = self._clock()
        if now < self._quiet_until:
            return
        if words != self._words:
            self._words, self._since, self._last = words, now, now
            self._progress(words)
        elif now - self._last >= AGAIN_S:
            self._last = now
            self._progress(f"{words}, for {now - self._since:.0f} s now")
