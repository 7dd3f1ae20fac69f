"""Whether Spark has room for a lease: a slow worker has its place, and a local master shares none."""

from __future__ import annotations

import json
import threading
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from reconciler_mirror.board.board import Board
from reconciler_mirror.leases.leases import Leases
from reconciler_mirror.leases.running import cause, has_task, is_shared
from reconciler_mirror.model.lane import Discovered, PartitionSpec

from reconciler.replication.handover_reader import parse
from tests.support.jobs.loopback import loopback_listener
from tests.support.lanes.handover import handover
from tests.support.waiting import until

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


class Busy(Spark):
    """Gave every lease's task a core, and no worker has begun."""

    def statusTracker(self) -> Any:  # noqa: N802
        return SimpleNamespace(
            getJobIdsForGroup=lambda _: [7], getJobInfo=Tracker(1).getJobInfo, getStageInfo=Tracker(1).getStageInfo
        )


def leases_on(spark: Spark, partitions: int = 0) -> Iterator[Leases]:
    settings = parse(json.dumps(handover()))
    board = Board(settings.flows)
    specs = tuple(PartitionSpec("orders", number, "east.orders", "id") for number in range(partitions))
    board.discovered("orders", Discovered(specs, (), 1, complete=True))
    leases = Leases(spark, settings, board, loopback_listener(), lambda _: None)
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


@pytest.mark.parametrize(
    ("spark", "why"),
    [
        (Spark(), "waiting for a free core of Spark"),
        (Spark(failure="Python worker exited"), "lost by Spark: Python worker exited"),
        (Busy(), "waiting for a Python worker to start"),
    ],
    ids=["no room", "lost", "slow"],
)
def test_a_lane_that_is_not_ready_says_what_it_waits_for(spark: Spark, why: str) -> None:
    for leases in leases_on(spark, partitions=8):
        until(lambda: why in leases.unready("orders"))  # noqa: B023
        assert sorted(lane for lanes in leases.unready("orders").values() for lane in lanes) == [0, 1, 2, 3]
        leases._on_message("", {"prepared": ["orders", 2]})
        assert sorted(lane for lanes in leases.unready("orders").values() for lane in lanes) == [0, 1, 3]


OF_A_WORKER = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent \
failure: Lost task 0.3 in stage 1.0 (TID 7) (10.0.0.2 executor 1): org.apache.spark.api.python.PythonException: \
Traceback (most recent call last):
  File "/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1230, in main
    func, profiler, deserializer, serializer = read_command(pickleSer, infile)
ModuleNotFoundError: No module named 'kafka'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1)
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OF_A_WORKER, "a Python worker failed: ModuleNotFoundError: No module named 'kafka'"),
        (
            "Traceback (most recent call last):\n  File x\na.b.OwnError: no\n\tat y",
            "a Python worker failed: a.b.OwnError: no",
        ),
        ("Traceback (most recent call last):\n  File x\nKeyError", "a Python worker failed: KeyError"),
        ("An error occurred while calling x.\n: Job aborted: no room.\n\tat y", "Job aborted: no room"),
        ("", "RuntimeError"),
    ],
)
def test_the_cause_of_an_error_is_its_last_line_in_python(text: str, said: str) -> None:
    assert cause(RuntimeError(text)) == said
