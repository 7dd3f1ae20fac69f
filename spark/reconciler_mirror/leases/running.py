"""The leases that run: which lanes each has, when it was heard of, and what Spark shows of its task.

The classes are not thread-safe: ``Leases`` guards them.
"""

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from reconciler_mirror.model.lane import LaneKey, LaneSpec

SILENT_S = 10.0
"""A task that said nothing for so long is frozen or cut off: it gives a sign of life every two seconds."""


class SignsOfLife:
    """When each connected task was heard last. It has no lock: ``Leases`` calls it under its guard."""

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
        """A message came. One that was on its way when the line closed does not bring the lease back."""
        if lease in self._heard:
            self._heard[lease] = self._clock()

    def ends(self, lease: str) -> None:
        self._heard.pop(lease, None)

    def silent(self) -> Mapping[str, float]:
        """Those that have said nothing for long, and for how many seconds. To be asked every few seconds: after a
        longer time it was this process that was frozen, and nothing is known of the others yet."""
        now = self._clock()
        if now - self._looked > SILENT_S:
            self._heard = dict.fromkeys(self._heard, now)
        self._looked = now
        return {lease: now - at for lease, at in self._heard.items() if now - at > SILENT_S}


def slot_of(lease: str) -> int:
    return int(lease.partition(".")[0])


class RunningLeases:
    """``signs``: of those whose task is connected. A lease may run for long before Spark has a core for its task."""

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
        """By lease, as it is now."""
        return dict(self._lanes)

    def lanes_of(self, lease: str) -> tuple[LaneKey, ...] | None:
        """None: it does not run, or does not any more."""
        return self._lanes.get(lease)

    def begins(self, lease: str, lanes: tuple[LaneKey, ...]) -> None:
        self._lanes[lease] = lanes

    def ends(self, lease: str) -> None:
        del self._lanes[lease]
        self._over.discard(lease)
        self.signs.ends(lease)
        self._left.pop(lease, None)

    def lane_left(self, lease: str, lane: LaneKey) -> None:
        """It has committed and copies no more, though its lease may go on."""
        self._left.setdefault(lease, set()).add(lane)

    def line_ends(self, lease: str) -> frozenset[LaneKey]:
        """Nothing more will be heard of its task; returns the lanes that had not left."""
        lanes = frozenset(self._lanes.get(lease, ())) - self._left.get(lease, set())
        self.signs.ends(lease)
        if lanes:
            self._left.pop(lease, None)
        return lanes

    def end_early(self, slots: Collection[int]) -> frozenset[str]:
        """Those of ``slots`` must end, also when they connect only later."""
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
        """Lanes of other leases that are connected."""
        return frozenset(
            lane for name, lanes in self._lanes.items() if name != lease and name in self.signs for lane in lanes
        )

    def silent_lanes(self, silent: Mapping[str, float]) -> Mapping[LaneKey, float]:
        """``silent``: seconds by lease."""
        return {lane: seconds for name, seconds in silent.items() for lane in self._lanes.get(name, ())}


_LONGEST = 300
CONTEXT_STOPPED = (
    "Spark has stopped the context of this application: its master did not answer, or its resource manager ended it"
)


def describe(slot: int, lanes: tuple[LaneSpec, ...]) -> str:
    """What the Spark UI shows: ``lease 1: orders lanes 0-3, payments lane 2``."""
    flows: dict[str, list[int]] = {}
    for lane in lanes:
        flows.setdefault(lane.flow, []).append(lane.lane)
    parts = [f"{flow} lane{'s' if len(n) > 1 else ''} {','.join(map(str, sorted(n)))}" for flow, n in flows.items()]
    return f"lease {slot}: {', '.join(parts)}"


def has_task(context: Any, group: str) -> bool:
    """A task of this job group was given to an executor, whether or not its Python worker is up yet."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return any(stage is not None and stage.numActiveTasks > 0 for stage in stages)


def why_not_ready(context: Any, slot: int, connected: Collection[int], failed: Mapping[int, str]) -> str:
    """What the lanes of a slot wait for. ``connected``: slots whose task is; ``failed``: why the last one was lost."""
    if slot in connected:
        return "its task opens connections to both clusters"
    if slot in failed:
        return f"Spark lost its task: {failed[slot]}"
    if has_task(context, f"lease-{slot}"):
        return "its task waits for a Python worker, which starts"
    return "Spark has no free core for its task"


def is_shared(context: Any) -> bool:
    """Whether another application's end makes room; a local master has what it was started with."""
    return not str(context.master).startswith("local")


def is_stopped(context: Any) -> bool:
    """Spark has stopped the context by itself: its master did not answer, or a resource manager ended it. No job can
    run any more, and the context does not come back."""
    java = getattr(context, "_jsc", None)
    try:
        return java is not None and bool(java.sc().isStopped())
    except Exception:  # noqa: BLE001  # Py4J hands on whatever happens to a JVM that is gone
        return True


def is_forgotten(context: Any) -> bool:
    """A standalone cluster has no executor for this application. A master that was started again without its state
    knows nothing of it, ends its executors, and will never give it others; the driver does not learn of that."""
    java = getattr(context, "_jsc", None)
    if java is None or not str(context.master).startswith("spark://"):
        return False
    try:
        return int(java.sc().getExecutorMemoryStatus().size()) <= 1  # the driver itself is among them
    except Exception:  # noqa: BLE001  # not known is no reason to end
        return False


def run_job(context: Any, slot: int, text: str, content: object, work: Callable[[Any], Any]) -> list[Any]:
    """A Spark job with one task, in the slot's own group and pool; waits for its end. Raises whatever Spark throws."""
    context.setJobGroup(f"lease-{slot}", text)
    context.setLocalProperty("spark.scheduler.pool", f"lease-{slot}")
    answers: list[Any] = context.parallelize([content], 1).mapPartitions(work).collect()
    return answers


def find_place(context: Any, slot: int) -> bool:
    """Waits until Spark has run a task of this slot that does nothing. False when it cannot."""
    try:
        run_job(context, slot, f"lease {slot}: waits for a free core", slot, list)
    except Exception:  # noqa: BLE001  # whatever Spark throws, it is looked for again
        return False
    return True


_TRACEBACK = "Traceback (most recent call last):"
_ERROR_OF_PYTHON = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning)\b.*")


def cause(error: Exception) -> str:
    """Of what Spark says, in one line. Py4J puts one before it that only names the call; an error of a Python worker is
    named by the last line of its traceback: type and message."""
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
