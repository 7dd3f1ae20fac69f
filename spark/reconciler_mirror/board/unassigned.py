"""Lanes without a task, or with a silent one: since when, and why.

Thread-safe. Between two leases a lane has no task for a moment; only a lasting gap is reported.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from reconciler_mirror.model.lane import Condition, LaneKey

LOST_S, NEVER_S, STOPS_S = 20.0, 30.0, 60.0
"""Seconds before a gap is reported: after the loss or silence of a task, so that users know after 30 s; and before the
first task, where it counts as stopped only after ``STOPS_S``, since a busy cluster may need that long."""
LANE_CODES = ("lane_without_task", "lane_unresponsive")
HOPELESS_S = 300.0
"""Seconds without a task for any lane, after Spark has lost every one: this application cannot run any more."""
FORGOTTEN_S = 15.0
"""The same without an executor: a standalone master has forgotten the application, because otherwise it starts one
within seconds. A new application has not lost a task yet, so the driver waits for its slow executors."""


@dataclass(frozen=True, slots=True)
class WithoutTask:
    """``why``: the fate of the last task, a clause; empty if there was none. ``silent``: there may be a task, but it
    sends nothing."""

    seconds: float
    why: str = ""
    silent: bool = False


class Untasked:
    """Since when each lane has no task, and why. Threads of the channel report changes and the driver's loop reads
    them, hence the lock."""

    def __init__(self, lanes: Iterable[LaneKey], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._guard = clock, threading.Lock()
        self._since: dict[LaneKey, float] = dict.fromkeys(lanes, clock())
        self._all = frozenset(self._since)
        self._why: dict[LaneKey, str] = {}
        self._silent: dict[LaneKey, float] = {}

    def begins(self, lanes: Iterable[LaneKey]) -> None:
        """The lanes have a working task."""
        with self._guard:
            for lane in lanes:
                self._since.pop(lane, None)
                self._why.pop(lane, None)
                self._silent.pop(lane, None)

    def ends(self, lanes: Iterable[LaneKey], why: str = "") -> None:
        """The lanes have lost their task. ``why``: Spark's reason; empty after a regular end."""
        with self._guard:
            for lane in lanes:
                self._silent.pop(lane, None)
                self._since.setdefault(lane, self._clock())  # a second loss does not restart the time
                if why:
                    self._why[lane] = why

    def silent(self, lanes: Mapping[LaneKey, float]) -> None:
        """Seconds of silence of all lanes with an open line but a silent task."""
        with self._guard:
            self._silent = dict(lanes)

    def lanes(self) -> Mapping[LaneKey, WithoutTask]:
        """Lanes without a task, or with a silent one, for too long."""
        now = self._clock()
        with self._guard:
            gaps = {lane: WithoutTask(now - since, self._why.get(lane, "")) for lane, since in self._since.items()}
            gaps |= {lane: WithoutTask(seconds, silent=True) for lane, seconds in self._silent.items()}
        return {
            lane: gap for lane, gap in gaps.items() if gap.seconds >= (LOST_S if gap.why or gap.silent else NEVER_S)
        }

    def without(self) -> frozenset[LaneKey]:
        """All lanes without a task, or with a silent one, however briefly."""
        with self._guard:
            return frozenset(self._since.keys() | self._silent.keys())

    def hopeless(self, seconds: float = HOPELESS_S) -> str:
        """The reason, if every lane has lost its task for ``seconds``; otherwise empty."""
        now = self._clock()
        with self._guard:
            whys = [self._why.get(lane, "") for lane, since in self._since.items() if now - since >= seconds]
        if len(whys) < len(self._all) or not all(whys):
            return ""
        return f"Spark lost every task for {seconds:.0f} s: {'; '.join(sorted({*whys}))}" if whys else ""


def condition(lanes: Mapping[int, WithoutTask], last_lag: int | None) -> Condition:
    """``lanes``: of one flow, all of them silent or none. ``last_lag``: their last known lag in records."""
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
