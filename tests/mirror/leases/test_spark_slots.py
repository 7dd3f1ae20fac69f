"""Whether Spark has room for a lease: a slow worker has its place, and a local master shares none."""

from __future__ import annotations

import json
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from reconciler_mirror.driver.board import Board
from reconciler_mirror.leases.leases import Leases
from reconciler_mirror.leases.spark_slots import has_task, is_shared

from reconciler.replication.handover_reader import parse
from tests.support.lanes.handover import handover

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


@dataclass
class Spark(Context):
    """Gives a lease's task a place and sees its worker fail; or, without a reason to fail, has no room for it."""

    failure: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    def setJobGroup(self, *_: str) -> None:  # noqa: N802
        pass

    def setLocalProperty(self, *_: str) -> None:  # noqa: N802
        pass

    def parallelize(self, *_: Any) -> Any:
        if not self.failure:
            self.over.wait(30)
        raise RuntimeError(self.failure)


def leases_on(spark: Spark) -> Iterator[Leases]:
    settings = parse(json.dumps(handover()))
    leases = Leases(spark, settings, Board(settings.flows), "127.0.0.1", lambda _: None)
    leases.start()
    try:
        yield leases
    finally:
        spark.over.set()
        leases.stop(1.0)


def test_a_worker_that_cannot_start_is_no_want_of_room_and_says_why() -> None:
    py4j = "An error occurred while calling z:collectAndServe.\n: Job aborted: Python worker exited.\n\tat Spark.run(1)"
    for leases in leases_on(Spark(failure=py4j)):
        until(lambda: leases.unplaced() == 0)  # noqa: B023
        assert leases.failures() == ("Job aborted: Python worker exited",)
        assert not leases.wait_for_room()


@pytest.mark.parametrize(("master", "waits"), [("yarn", True), ("local[2]", False)])
def test_a_lease_without_a_task_waits_for_room_that_another_application_may_leave(master: str, waits: bool) -> None:
    for leases in leases_on(Spark(master=master)):
        assert leases.unplaced() > 0
        assert leases.failures() == ()
        assert leases.wait_for_room() is waits


def until(wanted: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 10
    while not wanted():
        assert time.monotonic() < give_up
        time.sleep(0.01)
