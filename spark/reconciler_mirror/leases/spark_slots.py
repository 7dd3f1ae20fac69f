"""Whether Spark has room for a task, as its scheduler tells it; asked while two applications run side by side."""

from __future__ import annotations

from typing import Any


def has_task(context: Any, group: str) -> bool:
    """A task of this job group was given to an executor, whether or not its Python worker is up yet."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return any(stage is not None and stage.numActiveTasks > 0 for stage in stages)


def is_shared(context: Any) -> bool:
    """Whether another application's end makes room; a local master has what it was started with."""
    return not str(context.master).startswith("local")
