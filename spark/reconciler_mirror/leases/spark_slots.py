"""What Spark shows of a lease, and whether it has a slot for its task: asked beside another application."""

from __future__ import annotations

from typing import Any

from reconciler_mirror.model import LaneSpec


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


def is_shared(context: Any) -> bool:
    """Whether another application's end makes room; a local master has what it was started with."""
    return not str(context.master).startswith("local")
