"""The soak time of a wave: whether to wait, pass or halt by one look at the gates. Knows no clock.

Only time counts in which two looks in a row saw all gates hold: what happened while nobody looked is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from reconciler.model.reports.health import Fault


class SoakVerdict(StrEnum):
    WAITING = "waiting"
    SOAKING = "soaking"
    PASSED = "passed"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Settling:
    """One wave after its changes. Times in ms of a clock that only goes forward.

    ``held_at``: the last look, when it saw all gates hold. ``waits_since``: since when they do not.
    ``gap_ms``: looks that are further apart than this leave the time between unwatched. ``doubted``: the last look of a
    soak saw a gate that does not hold; one lost answer, or a lag that is not told for a moment, ends nothing.
    """

    soak_ms: int
    wait_ms: int
    gap_ms: int
    soaked_ms: int = 0
    held_at: int | None = None
    waits_since: int | None = None
    doubted: bool = False
    verdict: SoakVerdict = SoakVerdict.WAITING

    @property
    def left_ms(self) -> int:
        return max(0, self.soak_ms - self.soaked_ms)


def looked(before: Settling, faults: Sequence[Fault], now: int) -> Settling:
    """Gates may take ``wait_ms`` to hold after the wave; then one that two looks in a row see broken ends it."""
    if not faults:
        watched = 0
        if before.held_at is not None and now - before.held_at <= before.gap_ms:
            watched = max(0, now - before.held_at)
        soaked = before.soaked_ms + watched
        verdict = SoakVerdict.PASSED if soaked >= before.soak_ms else SoakVerdict.SOAKING
        return replace(before, soaked_ms=soaked, held_at=now, waits_since=None, doubted=False, verdict=verdict)
    if before.held_at is not None:
        return replace(before, held_at=None, doubted=True, verdict=SoakVerdict.WAITING)
    since = now if before.waits_since is None else before.waits_since
    verdict = SoakVerdict.BROKEN if before.doubted or now - since >= before.wait_ms else SoakVerdict.WAITING
    return replace(before, soaked_ms=0, waits_since=since, doubted=False, verdict=verdict)
