"""How long a new application may take to get ready beside the old one: as long as something moves, and what it says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

STALLED_S, AT_MOST_S = 120.0, 900.0
"""Given up after so long without a change, and in any case. The old application copies all the while."""
LOOK_S = 1.0


def lacking(flow: str, lanes: Mapping[str, tuple[int, ...]], conditions: Iterable[str]) -> str:
    """What a flow that is not ready waits for. ``lanes``: those that are not, by what they wait for; none: its topics
    or coordinators are not known yet."""
    parts = [f"lane{'s' if len(some) > 1 else ''} {', '.join(map(str, some))}: {why}" for why, some in lanes.items()]
    return f"flow {flow}: {'; '.join([*(parts or ['its topics and coordinators are looked up']), *conditions])}"


class Patience:
    """Asked again and again with what is lacking."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._moved = clock()
        self._lacking = ""

    def ended(self, lacks: str) -> str:
        """Why it is given up, or empty."""
        now = self._clock()
        if lacks != self._lacking:
            self._lacking, self._moved = lacks, now
        if now - self._moved > STALLED_S:
            still = f"nothing changed for {now - self._moved:.0f} s"
        elif now - self._began > AT_MOST_S:
            still = "and it was waited for long enough"
        else:
            return ""
        waited = f"it was not ready to copy after {now - self._began:.0f} s, {still}"
        return f"{waited}, so the old application goes on. {lacks}"
