"""Who still speaks, told by what he goes on writing and by our own clock alone: his may be wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from reconciler.edges.status_tail import Newest


@dataclass(frozen=True, slots=True)
class _Heard:
    """Seconds of our monotonic clock. ``came_within``: at most so long before ``since`` it was another record."""

    place: tuple[int, int]
    since: float
    came_within: float


class Listening:
    """What was seen of each key, over all reads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[str, _Heard] = {}
        self._looked: dict[str, float] = {}

    def note(self, key: str, newest: Newest) -> None:
        """``newest``: the key's newest record as of now."""
        now, place, known = self._clock(), (newest.partition, newest.offset), self._heard.get(key)
        if known is None or known.place != place:
            self._heard[key] = _Heard(place, now, now - self._looked.get(key, float("-inf")))
        self._looked[key] = now

    def speaks(self, key: str, patience_s: float) -> bool | None:
        """Of a key that was noted: whether its record is younger than ``patience_s``. None: too early to tell."""
        heard = self._heard[key]
        if self._clock() - heard.since > patience_s:
            return False
        return True if heard.came_within <= patience_s else None
