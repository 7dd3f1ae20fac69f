"""Lanes without a task: since when and why.

Thread-safe. Between two leases a lane is without a task for a moment; that is reported only when it lasts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from reconciler_mirror.leases.assign import LaneKey
from reconciler_mirror.model import Condition

LOST_S, NEVER_S = 30.0, 60.0
"""How long it lasts before it is told: after a task was lost, and where none was placed yet."""
HOPELESS_S = 300.0
"""No lane has a task for that long, and Spark lost each that it tried: this application cannot run any."""


class Untasked:
    def __init__(self, lanes: Iterable[LaneKey], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._guard = clock, threading.Lock()
        self._since: dict[LaneKey, float] = dict.fromkeys(lanes, clock())
        self._all = frozenset(self._since)
        self._why: dict[LaneKey, str] = {}

    def begins(self, lanes: Iterable[LaneKey]) -> None:
        """Their task is at work."""
        with self._guard:
            for lane in lanes:
                self._since.pop(lane, None)
                self._why.pop(lane, None)

    def ends(self, lanes: Iterable[LaneKey], why: str = "") -> None:
        """``why`` Spark lost it; empty where it came back by itself."""
        with self._guard:
            for lane in lanes:
                self._since.setdefault(lane, self._clock())
                if why:
                    self._why[lane] = why

    def lanes(self) -> Mapping[LaneKey, tuple[float, str]]:
        """Seconds, and why, of those without a task for too long."""
        now = self._clock()
        with self._guard:
            lanes = {lane: (now - since, self._why.get(lane, "")) for lane, since in self._since.items()}
        return {lane: pair for lane, pair in lanes.items() if pair[0] >= (LOST_S if pair[1] else NEVER_S)}

    def hopeless(self) -> str:
        """Why, or empty while there is hope."""
        lanes = self.lanes()
        if lanes.keys() != self._all or not all(why and seconds >= HOPELESS_S for seconds, why in lanes.values()):
            return ""
        return f"Spark lost every task for {HOPELESS_S:.0f} s: {'; '.join(sorted({why for _, why in lanes.values()}))}"


def condition(lanes: Mapping[int, tuple[float, str]]) -> Condition:
    """``lanes`` of one flow: seconds and why."""
    longest = max(seconds for seconds, _ in lanes.values()) // 10 * 10
    lost = min((why for _, why in lanes.values() if why), default="")
    few = len(lanes) == 1
    named = f"lane{'' if few else 's'} {', '.join(map(str, sorted(lanes)))} {'has' if few else 'have'} no task"
    why = f"Spark lost the last one: {lost}" if lost else "Spark has found no place for one"
    return Condition(
        "lane_without_task",
        f"{named} for {longest:.0f} s, so {'its' if few else 'their'} partitions are not copied. {why}",
        "It is retried automatically. Look at the Spark UI and the job's log; check the master's free cores, and space "
        "and rights of Spark's local folder. If it stays: reconciler mirror stop, then apply.",
        stops=True,
    )
