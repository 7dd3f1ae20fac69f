"""When each lease that is connected was heard of last, and which are silent.

Not thread-safe: ``Leases`` guards it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

SILENT_S = 10.0
"""A task that said nothing for so long is frozen or cut off: it gives a sign of life every two seconds."""


class SignsOfLife:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[str, float] = {}
        self._looked = clock()

    def __contains__(self, lease: str) -> bool:
        return lease in self._heard

    @property
    def slots(self) -> frozenset[int]:
        """Those whose lease is connected."""
        return frozenset(map(slot_of, self._heard))

    def begins(self, lease: str) -> None:
        """Its line is open."""
        self._heard[lease] = self._clock()

    def hear(self, lease: str) -> None:
        if lease in self._heard:
            self._heard[lease] = self._clock()

    def ends(self, lease: str) -> None:
        self._heard.pop(lease, None)

    def silent(self) -> Mapping[str, float]:
        """Those that have said nothing for long, and for how many seconds. To be asked every few seconds: when nobody
        did, it was this process that stood still, and nothing is known of the others yet."""
        now = self._clock()
        if now - self._looked > SILENT_S:
            self._heard = dict.fromkeys(self._heard, now)
        self._looked = now
        return {lease: now - at for lease, at in self._heard.items() if now - at > SILENT_S}


def slot_of(lease: str) -> int:
    return int(lease.partition(".")[0])
