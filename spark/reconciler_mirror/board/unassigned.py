"""Lanes without a task, or with one that is silent: since when and why.

Thread-safe. Between two leases a lane is without a task for a moment; only a lasting gap is reported.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from reconciler_mirror.model.lane import Condition, LaneKey

LOST_S, NEVER_S, STOPS_S = 20.0, 30.0, 60.0
"""How long it lasts before it is reported: after a task was lost or fell silent, so that it is known 30 s after; and
where none was placed yet, which counts as stopped only after ``STOPS_S``: a busy cluster may need that long."""
LANE_CODES = ("lane_without_task", "lane_unresponsive")
HOPELESS_S = 300.0
"""No lane has a task for that long, and Spark lost each that it tried: this application cannot run any."""
FORGOTTEN_S = 15.0
"""The same where Spark has no executor for it either: a standalone master does not know it any more. One that knows it
starts an executor within seconds; the next application has not lost a task yet, so that a slow one is waited for."""


@dataclass(frozen=True, slots=True)
class WithoutTask:
    """``why``: what happened to the last task, a clause; empty where there was none. ``silent``: there may be one, but
    nothing is heard of it."""

    seconds: float
    why: str = ""
    silent: bool = False


class Untasked:
    """Since when each lane has been without a task, and why. Threads of the channel report changes and the driver's
    loop reads them, hence the lock."""

    def __init__(self, lanes: Iterable[LaneKey], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._guard = clock, threading.Lock()
        self._since: dict[LaneKey, float] = dict.fromkeys(lanes, clock())
        self._all = frozenset(self._since)
        self._why: dict[LaneKey, str] = {}
        self._silent: dict[LaneKey, float] = {}

    def begins(self, lanes: Iterable[LaneKey]) -> None:
        """Their task is at work."""
        with self._guard:
            for lane in lanes:
                self._since.pop(lane, None)
                self._why.pop(lane, None)
                self._silent.pop(lane, None)

    def ends(self, lanes: Iterable[LaneKey], why: str = "") -> None:
        """``why`` Spark lost it; empty where it came back by itself."""
        with self._guard:
            for lane in lanes:
                self._silent.pop(lane, None)
                self._since.setdefault(lane, self._clock())  # a second loss does not start the time again
                if why:
                    self._why[lane] = why

    def silent(self, lanes: Mapping[LaneKey, float]) -> None:
        """All lanes whose task says nothing, though its line is open, and for how many seconds."""
        with self._guard:
            self._silent = dict(lanes)

    def lanes(self) -> Mapping[LaneKey, WithoutTask]:
        """Those without a task, or with a silent one, for too long."""
        now = self._clock()
        with self._guard:
            gaps = {lane: WithoutTask(now - since, self._why.get(lane, "")) for lane, since in self._since.items()}
            gaps |= {lane: WithoutTask(seconds, silent=True) for lane, seconds in self._silent.items()}
        return {
            lane: gap for lane, gap in gaps.items() if gap.seconds >= (LOST_S if gap.why or gap.silent else NEVER_S)
        }

    def without(self) -> frozenset[LaneKey]:
        """All that have no task now, or a silent one, for however short."""
        with self._guard:
            return frozenset(self._since.keys() | self._silent.keys())

    def hopeless(self, seconds: float = HOPELESS_S) -> str:
        """Why, once it has lasted for ``seconds``; empty while there is hope."""
        now = self._clock()
        with self._guard:
            whys = {self._why.get(lane, "") for lane, since in self._since.items() if now - since >= seconds}
            lost = sum(now - since >= seconds for since in self._since.values())
        if lost < len(self._all) or not whys or "" in whys:
            return ""
        return f"Spark lost every task for {seconds:.0f} s: {'; '.join(sorted(whys))}"


def condition(lanes: Mapping[int, WithoutTask], last_lag: int | None) -> Condition:
    """``lanes`` of one flow, all silent or none. ``last_lag``: records that they were behind when last heard of."""
    longest = max(gap.seconds for gap in lanes.values())
    silent = any(gap.silent for gap in lanes.values())
    few = len(lanes) == 1
    named = f"lane{'' if few else 's'} {', '.join(map(str, sorted(lanes)))}"
    last = "" if last_lag is None else f"; {last_lag:,} records behind when last heard of, now unknown"
    if silent:
        return Condition(
            "lane_unresponsive",
            f"{named} {'has' if few else 'have'} said nothing for {longest // 10 * 10:.0f} s: the connection to the "
            f"Spark task is open, but the task is frozen or cut off{last}",
            "After a minute the task is ended and another one started. If it stays: check the executor's machine "
            "(stopped processes, memory, network to the Spark driver).",
            stops=True,
        )
    lost = min((gap.why for gap in lanes.values() if gap.why), default="")
    why = f"Spark lost the last one: {lost}" if lost else "Spark has found no place for one"
    return Condition(
        "lane_without_task",
        f"{named} {'has' if few else 'have'} no task for {longest // 10 * 10:.0f} s, so {'its' if few else 'their'} "
        f"partitions are not copied{last}. {why}",
        "It is retried automatically. Check the Spark UI and the job's log; check the master's free cores, and space "
        "and rights of Spark's local folder. If it stays: reconciler mirror stop ENV FLOW, then apply.",
        stops=bool(lost) or longest >= STOPS_S,
    )
