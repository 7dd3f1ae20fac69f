"""What one look at the gates means for a wave that is over: wait on, soak on, passed, or broken. Knows no clock.

Only time counts in which two looks in a row saw all gates hold: what happened while nobody looked is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from reconciler.healths import Fault


class Verdict(StrEnum):
    WAITING = "waiting"
    SOAKING = "soaking"
    PASSED = "passed"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Settling:
    """One wave after its changes. Times in ms of a clock that only goes forward.

    ``held_at``: the last look, when it saw all gates hold. ``waits_since``: since when they do not.
    ``gap_ms``: looks that are further apart than this leave the time between unwatched.
    """

    soak_ms: int
    wait_ms: int
    gap_ms: int
    soaked_ms: int = 0
    held_at: int | None = None
    waits_since: int | None = None
    verdict: Verdict = Verdict.WAITING

    @property
    def left_ms(self) -> int:
        return max(0, self.soak_ms - self.soaked_ms)


def looked(before: Settling, found: Sequence[Fault], now: int) -> Settling:
    """Gates may take ``wait_ms`` to hold after the wave; once they did, the first that breaks ends it."""
    if not found:
        watched = 0
        if before.held_at is not None and now - before.held_at <= before.gap_ms:
            watched = max(0, now - before.held_at)
        soaked = before.soaked_ms + watched
        verdict = Verdict.PASSED if soaked >= before.soak_ms else Verdict.SOAKING
        return replace(before, soaked_ms=soaked, held_at=now, waits_since=None, verdict=verdict)
    since = now if before.waits_since is None else before.waits_since
    over = before.held_at is not None or now - since >= before.wait_ms
    verdict = Verdict.BROKEN if over else Verdict.WAITING
    return replace(before, soaked_ms=0, held_at=None, waits_since=since, verdict=verdict)
