"""Whether Spark has room for a lease: a slow worker has its place, and a local master shares none."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass

import pytest
from mirror.room import has_task, is_shared

Job = namedtuple("Job", "jobId stageIds status")
Stage = namedtuple("Stage", "stageId numActiveTasks")


@dataclass
class Tracker:
    active: int | None

    def getJobIdsForGroup(self, group: str) -> list[int]:  # noqa: N802 - Spark's name
        return [7] if group == "lease-1" else []

    def getJobInfo(self, job: int) -> Job:  # noqa: N802
        return Job(job, [3], "RUNNING")

    def getStageInfo(self, stage: int) -> Stage | None:  # noqa: N802
        return None if self.active is None else Stage(stage, self.active)


@dataclass
class Context:
    active: int | None = None
    master: str = "yarn"

    def statusTracker(self) -> Tracker:  # noqa: N802
        return Tracker(self.active)


@pytest.mark.parametrize(("active", "has"), [(1, True), (0, False), (None, False)])
def test_a_place_is_a_task_that_was_given_out(active: int | None, has: bool) -> None:
    assert has_task(Context(active), "lease-1") is has
    assert not has_task(Context(active), "lease-2")


@pytest.mark.parametrize(
    ("master", "shared"), [("local[2]", False), ("local", False), ("local-cluster[2,1,512]", False), ("yarn", True)]
)
def test_only_a_cluster_has_room_that_others_leave(master: str, shared: bool) -> None:
    assert is_shared(Context(master=master)) is shared
