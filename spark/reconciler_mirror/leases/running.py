"""Running leases: their lanes, their last signs of life, and Spark's view of their tasks.

The classes are not thread-safe: ``Leases`` guards them.
"""

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from reconciler_mirror.model.lane import LaneKey, LaneSpec

SILENT_S = 10.0
"""Seconds of silence after which a task counts as frozen or cut off; it sends a sign of life every two seconds."""


class SignsOfLife:
    """The time of each connected task's last message."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[str, float] = {}
        self._looked = clock()

    def __contains__(self, lease: str) -> bool:
        return lease in self._heard

    @property
    def slots(self) -> frozenset[int]:
        """Slots with a connected lease."""
        return frozenset(map(slot_of, self._heard))

    def begins(self, lease: str) -> None:
        """The lease's line is open."""
        self._heard[lease] = self._clock()

    def hear(self, lease: str) -> None:
        """A message arrived. A late one, after the line has closed, does not bring the lease back."""
        if lease in self._heard:
            self._heard[lease] = self._clock()

    def ends(self, lease: str) -> None:
        self._heard.pop(lease, None)

    def silent(self) -> Mapping[str, float]:
        """Seconds of silence of the leases beyond ``SILENT_S``. To be called every few seconds: after a longer pause
        this process was frozen itself, and cannot judge the others yet."""
        now = self._clock()
        if now - self._looked > SILENT_S:
            self._heard = dict.fromkeys(self._heard, now)
        self._looked = now
        return {lease: now - at for lease, at in self._heard.items() if now - at > SILENT_S}


def slot_of(lease: str) -> int:
    return int(lease.partition(".")[0])


class RunningLeases:
    """``signs``: of leases with a connected task. A lease may run for long before Spark has a core for its task."""

    def __init__(self) -> None:
        self.signs = SignsOfLife()
        self._lanes: dict[str, tuple[LaneKey, ...]] = {}
        self._over: set[str] = set()
        self._left: dict[str, set[LaneKey]] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._lanes)

    def lanes(self) -> Mapping[str, tuple[LaneKey, ...]]:
        """Lanes by lease, a snapshot."""
        return dict(self._lanes)

    def lanes_of(self, lease: str) -> tuple[LaneKey, ...] | None:
        """None: the lease does not run."""
        return self._lanes.get(lease)

    def begins(self, lease: str, lanes: tuple[LaneKey, ...]) -> None:
        self._lanes[lease] = lanes

    def ends(self, lease: str) -> None:
        del self._lanes[lease]
        self._over.discard(lease)
        self.signs.ends(lease)
        self._left.pop(lease, None)

    def lane_left(self, lease: str, lane: LaneKey) -> None:
        """The lane has made its last commit; its lease may continue."""
        self._left.setdefault(lease, set()).add(lane)

    def line_ends(self, lease: str) -> frozenset[LaneKey]:
        """The task will send nothing more; returns the lanes that had not left."""
        lanes = frozenset(self._lanes.get(lease, ())) - self._left.get(lease, set())
        self.signs.ends(lease)
        if lanes:
            self._left.pop(lease, None)
        return lanes

    def end_early(self, slots: Collection[int]) -> frozenset[str]:
        """The leases of ``slots`` must end, even if they connect only later; returns their names."""
        names = frozenset(name for name in self._lanes if slot_of(name) in slots)
        self._over |= names
        return names

    def is_over(self, lease: str) -> bool:
        return lease in self._over

    def all_left(self, leases: Mapping[str, tuple[LaneKey, ...]]) -> bool:
        return all(
            name not in self._lanes or self._left.get(name, set()).issuperset(lanes) for name, lanes in leases.items()
        )

    def all_connected(self) -> bool:
        return all(name in self.signs for name in self._lanes)

    def held_by_others(self, lease: str) -> frozenset[LaneKey]:
        """Lanes of other connected leases."""
        return frozenset(
            lane for name, lanes in self._lanes.items() if name != lease and name in self.signs for lane in lanes
        )

    def silent_lanes(self, silent: Mapping[str, float]) -> Mapping[LaneKey, float]:
        """Seconds of silence by lane; ``silent``: by lease."""
        return {lane: seconds for name, seconds in silent.items() for lane in self._lanes.get(name, ())}


_LONGEST = 300
CONTEXT_STOPPED = (
    "Spark has stopped the context of this application: its master did not answer, or its resource manager ended it"
)


def describe(slot: int, lanes: tuple[LaneSpec, ...]) -> str:
    """The job description in the Spark UI: ``lease 1: orders lanes 0-3, payments lane 2``."""
    flows: dict[str, list[int]] = {}
    for lane in lanes:
        flows.setdefault(lane.flow, []).append(lane.lane)
    parts = [f"{flow} lane{'s' if len(n) > 1 else ''} {','.join(map(str, sorted(n)))}" for flow, n in flows.items()]
    return f"lease {slot}: {', '.join(parts)}"


def has_task(context: Any, group: str) -> bool:
    """Whether an executor has a task of this job group, even if its Python worker is not up yet."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return any(stage is not None and stage.numActiveTasks > 0 for stage in stages)


def why_not_ready(context: Any, slot: int, connected: Collection[int], failed: Mapping[int, str]) -> str:
    """The reason for which a slot's lanes wait. ``connected``: slots with a connected task; ``failed``: by slot, why
    its last task was lost."""
    if slot in connected:
        return "opening connections to both clusters"
    if slot in failed:
        return f"lost by Spark: {failed[slot]}"
    if has_task(context, f"lease-{slot}"):
        return "waiting for a Python worker to start"
    return "waiting for a free core of Spark"


def is_shared(context: Any) -> bool:
    """Whether other applications share the master's cores; a local master has its own."""
    return not str(context.master).startswith("local")


def is_stopped(context: Any) -> bool:
    """Whether Spark has stopped the context by itself: its master did not answer, or a resource manager ended it. No
    job can run any more, and the context does not come back."""
    java = getattr(context, "_jsc", None)
    try:
        return java is not None and bool(java.sc().isStopped())
    except Exception:  # noqa: BLE001  # Py4J raises anything when the JVM is gone
        return True


def is_forgotten(context: Any) -> bool:
    """Whether a standalone cluster has no executor for this application. A master that restarted without its state does
    not know the application, ends its executors and never starts others; the driver is not notified."""
    java = getattr(context, "_jsc", None)
    if java is None or not str(context.master).startswith("spark://"):
        return False
    try:
        return int(java.sc().getExecutorMemoryStatus().size()) <= 1  # the driver itself is among them
    except Exception:  # noqa: BLE001  # unknown is no reason to end
        return False


def run_job(context: Any, slot: int, text: str, content: object, work: Callable[[Any], Any]) -> list[Any]:
    """Runs a Spark job with one task, in the slot's own group and pool, to its end. Raises any exception of Spark."""
    context.setJobGroup(f"lease-{slot}", text)
    context.setLocalProperty("spark.scheduler.pool", f"lease-{slot}")
    answers: list[Any] = context.parallelize([content], 1).mapPartitions(work).collect()
    return answers


def find_place(context: Any, slot: int) -> bool:
    """Waits until Spark has run an empty task of this slot. False if Spark fails."""
    try:
        run_job(context, slot, f"lease {slot}: waits for a free core", slot, list)
    except Exception:  # noqa: BLE001  # whatever Spark throws, the slot tries again
        return False
    return True


_TRACEBACK = "Traceback (most recent call last):"
_ERROR_OF_PYTHON = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning)\b.*")


def cause(error: Exception) -> str:
    """The cause in Spark's error, in one line. Skips Py4J's first line, which only names the call; takes the last line
    of a Python worker's traceback, with type and message."""
    lines = [line.rstrip().removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    names = lines[1:] if len(lines) > 1 and lines[0].startswith("An error occurred while calling") else lines
    if not names:
        return type(error).__name__
    for number, line in enumerate(names):
        if _TRACEBACK in line:
            last = next((text for text in names[number + 1 :] if _ERROR_OF_PYTHON.match(text)), "")
            if last:
                return f"a Python worker failed: {last}"[:_LONGEST].rstrip(".")
    return names[0].strip()[:_LONGEST].rstrip(".")
