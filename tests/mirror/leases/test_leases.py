"""Leases over a Spark that is none: lost executors, frozen workers, slots without a core, a stopped context."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from reconciler_mirror.board import unassigned
from reconciler_mirror.board.board import Board
from reconciler_mirror.driver.driver import Driver
from reconciler_mirror.leases import channel, running
from reconciler_mirror.leases import leases as module
from reconciler_mirror.leases.channel import ROWS, ChannelClient
from reconciler_mirror.leases.lanes import LaneOrders
from reconciler_mirror.leases.leases import Leases
from reconciler_mirror.leases.preflight import Checked
from reconciler_mirror.leases.running import SignsOfLife
from reconciler_mirror.leases.task import LeaseSpec
from reconciler_mirror.model.lane import Discovered, LaneKey, LaneProgress, PartitionProgress, PartitionSpec
from reconciler_mirror.model.views import FlowView

from reconciler.replication.handover_reader import parse
from reconciler.replication.records.pauses import Pause, Scope
from tests.support.jobs.loopback import loopback_listener
from tests.support.lanes.handover import handover
from tests.support.waiting import until

PARTITIONS = 40
SPECS = tuple(PartitionSpec("orders", number, "east.orders", "id") for number in range(PARTITIONS))


@dataclass
class Task:
    """One Spark job of a lease. It has a core when ``run`` is called, and ends by ``end``."""

    spark: Spark
    group: str
    spec: LeaseSpec | None
    over: threading.Event = field(default_factory=threading.Event)
    error: str = ""
    line: ChannelClient | None = None
    messages: list[Any] = field(default_factory=list)

    def mapPartitions(self, _: Any) -> Task:  # noqa: N802 - Spark's name
        return self

    def collect(self) -> list[Any]:
        self.spark.submitted.append(self)
        self.over.wait(60)
        if self.error:
            raise RuntimeError(self.error)
        return []

    def run(self) -> Task:
        """Its worker connects to the driver and tells that all its partitions are copied."""
        assert self.spec is not None
        self.line = ChannelClient(self.spec.driver, self.spec.token, self.spec.name, self.heard)
        self.tell()
        return self

    def tell(self) -> None:
        assert self.spec is not None
        assert self.line is not None
        for lane in self.spec.lanes:
            rows = tuple(PartitionProgress(p.topic, p.partition, 9, 9, 5) for p in lane.partitions)
            self.line.send({"progress": ROWS.encoded(LaneProgress(lane.flow, lane.lane, rows))})

    def heard(self, message: Any) -> None:
        self.messages.append(message)
        if message.get("over") and self.spec is not None:
            self.end()

    def end(self, error: str = "") -> None:
        self.error = error
        for lane in self.spec.lanes if self.spec and self.line and not error else ():
            assert self.line is not None
            self.line.send({"left": [lane.flow, lane.lane]})
        self.over.set()

    def dies(self) -> None:
        """Its executor is lost: the line ends, and Spark, which tries the task again, says nothing."""
        assert self.line is not None
        self.line.close()


class Spark:
    master = "spark://h:7077"

    def __init__(self) -> None:
        self.submitted: list[Task] = []
        self.cancelled: list[str] = []
        self.stopped = False
        self.executors = 2
        self._group = threading.local()
        self._jsc = self

    def sc(self) -> Spark:
        return self

    def isStopped(self) -> bool:  # noqa: N802 - Spark's names
        return self.stopped

    def getExecutorMemoryStatus(self) -> Any:  # noqa: N802 - with the driver
        return SimpleNamespace(size=lambda: self.executors + 1)

    def setJobGroup(self, group: str, _: str) -> None:  # noqa: N802
        self._group.name = group

    def setLocalProperty(self, *_: str) -> None:  # noqa: N802
        pass

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802
        self.cancelled.append(group)
        for task in self.submitted:
            if task.group == group and not task.over.is_set():
                task.end("cancelled")

    def cancelAllJobs(self) -> None:  # noqa: N802
        for task in self.submitted:
            task.end("cancelled")

    def parallelize(self, content: list[Any], _: int) -> Task:
        spec = pickle.loads(content[0].work)[1] if isinstance(content[0], Checked) else None
        return Task(self, self._group.name, spec)

    def statusTracker(self) -> Any:  # noqa: N802
        return self

    def getJobIdsForGroup(self, _: str) -> list[int]:  # noqa: N802 - none has a task by Spark's word
        return []

    def waiting(self, slot: int) -> Task:
        """The job of a slot that is under way."""
        return [t for t in self.submitted if t.group == f"lease-{slot}" and not t.over.is_set()][-1]

    def has(self, slot: int) -> bool:
        return any(t.group == f"lease-{slot}" and not t.over.is_set() for t in self.submitted)


@pytest.fixture
def spark() -> Spark:
    return Spark()


@pytest.fixture
def board() -> Board:
    settings = parse(json.dumps(handover(parallelism=2)))
    board = Board(settings.flows)
    board.discovered("orders", Discovered(SPECS, (), 1, complete=True))
    board.taken_over("orders")
    return board


@pytest.fixture
def leases(spark: Spark, board: Board) -> Iterator[Leases]:
    settings = parse(json.dumps(handover(parallelism=2)))
    made = Leases(spark, settings, board, loopback_listener(), lambda _: None)
    made.start()
    until(lambda: spark.has(0) and spark.has(1))
    try:
        yield made
    finally:
        for task in spark.submitted:
            task.end()
        made.stop(5.0)


def view(board: Board) -> FlowView:
    return board.view()[0]


def codes(leases: Leases, board: Board) -> set[str]:
    leases.report_untasked()
    return {condition.code for condition, _ in view(board).conditions}


def test_a_lost_executor_makes_the_lag_unknown_at_once_and_is_reported_soon(
    spark: Spark, leases: Leases, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (spark.waiting(slot).run() for slot in range(2))
    until(lambda: view(board).figures.records_lag == 0)
    first.dies()
    until(lambda: view(board).figures.records_lag is None)
    lost = {(p.topic, p.partition) for p in view(board).partitions if p.records_lag is None}
    assert first.spec is not None
    assert second.spec is not None
    assert lost == {(p.topic, p.partition) for lane in first.spec.lanes for p in lane.partitions}
    assert codes(leases, board) == set()
    monkeypatch.setattr(unassigned, "LOST_S", 0.0)
    assert codes(leases, board) == {"lane_without_task"}
    [text] = [c.text for c, _ in view(board).conditions]
    assert "its connection to the Spark driver ended before it did" in text
    assert "0 records behind when last heard of, now unknown" in text
    assert unassigned.LOST_S <= 20 < 30, "the condition is there 30 s after the loss, with a look every few seconds"


def test_an_application_that_its_master_does_not_know_any_more_ends(
    spark: Spark, leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A master that was started again without its state ends executors, and gives none to whom it does not know."""
    tasks = [spark.waiting(slot).run() for slot in range(2)]
    until(lambda: not leases.lanes_without_task())
    for task in tasks:
        task.dies()
    monkeypatch.setattr(unassigned, "LOST_S", 0.0)
    monkeypatch.setattr(module, "FORGOTTEN_S", 0.0)
    until(lambda: len(leases._untasked.lanes()) == 4)
    assert leases.report_untasked() == "", "there are executors, so Spark may try again"
    spark.executors = 0
    assert "has no executor for this application" in leases.report_untasked()
    spark.master = "yarn"  # another master of the application asks for executors itself
    assert leases.report_untasked() == ""


def test_a_mirror_has_settled_only_when_every_lane_with_partitions_has_a_task(spark: Spark, leases: Leases) -> None:
    """``apply`` waits for it: one that Spark gives half of its cores does not copy what git says."""
    driver: Any = Driver.__new__(Driver)
    driver._leases, driver._board = leases, SimpleNamespace(all_run=lambda: False)
    assert not driver._settled(float("-inf"))
    spark.waiting(0).run()
    until(lambda: len(leases.lanes_without_task()) == 2)
    assert not driver._settled(float("-inf"))
    spark.waiting(1).run()
    until(lambda: not leases.lanes_without_task())
    assert driver._settled(float("-inf"))
    assert not driver._settled(float("inf")), "a flow waits for its cluster"
    driver._board = SimpleNamespace(all_run=lambda: True)
    assert driver._settled(float("inf"))


def test_a_task_that_spark_tries_again_in_the_same_job_is_one_with_a_task(
    spark: Spark, leases: Leases, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unassigned, "LOST_S", 0.0)
    task = spark.waiting(0).run()
    spark.waiting(1).run()
    until(lambda: view(board).figures.records_lag == 0)
    task.dies()
    until(lambda: view(board).figures.records_lag is None)
    task.run()
    until(lambda: view(board).figures.records_lag == 0)
    assert codes(leases, board) == set()


def test_a_line_that_breaks_and_comes_back_counts_nothing_twice_and_is_no_loss(
    spark: Spark, leases: Leases, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the 20 s after which a lane without a task is told, and its lanes may be given to another."""
    task = spark.waiting(0).run()
    spark.waiting(1).run()
    until(lambda: view(board).figures.records_lag == 0)
    copied = view(board).figures.records_total
    assert task.spec is not None
    assert task.line is not None
    lines = task.line.lines
    leases._server._lines[task.spec.name].close()
    until(lambda: task.line is not None and task.line.lines > lines)
    until(lambda: task.spec is not None and task.spec.name in leases._running.signs)
    task.tell()
    until(lambda: view(board).figures.records_lag == 0)
    assert view(board).figures.records_total == copied
    assert not task.over.is_set()
    monkeypatch.setattr(unassigned, "LOST_S", 0.0)
    assert codes(leases, board) == set()


def test_a_task_hears_a_pause_last_that_was_set_while_an_older_message_was_made(
    spark: Spark, leases: Leases, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flow finds new topics while a user pauses it: the paused partitions must not be copied on."""
    tasks = [spark.waiting(slot).run() for slot in range(2)]
    until(lambda: view(board).figures.records_lag == 0)
    is_made, go_on, made = threading.Event(), threading.Event(), LaneOrders.partitions

    def slow(orders: LaneOrders, lanes: tuple[LaneKey, ...]) -> channel.Message:
        message = made(orders, lanes)
        if not is_made.is_set():
            is_made.set()
            go_on.wait(20)
        return message

    monkeypatch.setattr(LaneOrders, "partitions", slow)
    threads = [threading.Thread(target=leases.partitions_changed) for _ in range(2)]
    threads[0].start()
    until(is_made.is_set)
    board.set_pauses([Pause(Scope("orders"), 1, "me", "")])
    threads[1].start()
    threads[1].join(1.0)
    go_on.set()
    for thread in threads:
        thread.join()
    until(lambda: all(sum("paused" in message for message in task.messages) == 3 for task in tasks))
    for task in tasks:
        paused = [message["paused"] for message in task.messages if "paused" in message]
        assert sum(len(partitions) for _, _, partitions in paused[-1]) == PARTITIONS / 2


def test_an_executor_that_is_not_fit_is_named_until_it_is_or_its_lease_ends(
    spark: Spark, leases: Leases, board: Board
) -> None:
    task = spark.waiting(0).run()
    assert task.spec is not None
    assert task.spec.packages, "the master is a cluster's, so the executor is looked at"

    def says(*problems: str) -> None:
        assert task.line is not None
        task.line.send({"executor": {"host": "a", "python": "3.11.2", "problems": problems}})

    says("executor a cannot use cluster east: no")
    until(lambda: "executor_unfit" in codes(leases, board))
    says()
    until(lambda: "executor_unfit" not in codes(leases, board))
    says("executor a cannot use cluster east: no")
    until(lambda: "executor_unfit" in codes(leases, board))
    task.end()
    until(lambda: "executor_unfit" not in codes(leases, board))


def test_a_task_that_ends_in_good_order_is_not_lost(spark: Spark, leases: Leases, board: Board) -> None:
    tasks = [spark.waiting(slot).run() for slot in range(2)]
    until(lambda: view(board).figures.records_lag == 0)
    for task in tasks:
        task.end()
        task.dies()
    until(lambda: len(spark.submitted) == 4)
    assert view(board).figures.records_lag == 0
    assert codes(leases, board) == set()


def test_a_silent_task_is_reported_and_ended_after_a_lease(
    spark: Spark, leases: Leases, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    for slot in range(2):
        spark.waiting(slot).run()
    until(lambda: view(board).figures.records_lag == 0)
    leases.report_untasked()
    monkeypatch.setattr(unassigned, "LOST_S", 0.0)
    monkeypatch.setattr(running, "SILENT_S", 0.0)
    monkeypatch.setattr(SignsOfLife, "silent", lambda signs: dict.fromkeys(signs._heard, 20.0))
    assert codes(leases, board) == {"lane_unresponsive"}
    assert spark.cancelled == []
    monkeypatch.setattr(SignsOfLife, "silent", lambda signs: dict.fromkeys(signs._heard, module.LEASE_S + 1))
    leases.report_untasked()
    assert sorted(spark.cancelled) == ["lease-0", "lease-1"]
    until(lambda: spark.has(0) and spark.has(1))


def test_a_stopped_context_is_the_end_at_once(spark: Spark, leases: Leases) -> None:
    assert leases.report_untasked() == ""
    spark.stopped = True
    assert "Spark has stopped the context" in leases.report_untasked()


def lose_the_task_of_slot_0(spark: Spark, leases: Leases, board: Board) -> Task:
    """Both leases have run. Returns that of slot 1, which goes on."""
    lost, other = (spark.waiting(slot).run() for slot in range(2))
    until(lambda: view(board).figures.records_lag == 0)
    lost.dies()
    until(lambda: view(board).figures.records_lag is None)
    leases.report_untasked()
    return other


def test_lanes_without_a_place_go_to_a_lease_that_has_one_and_come_back(
    spark: Spark, leases: Leases, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unassigned, "LOST_S", 0.0)
    monkeypatch.setattr(module, "COME_BACK_S", 0.05)
    other = lose_the_task_of_slot_0(spark, leases, board)
    assert spark.cancelled == ["lease-0"], "what waits for a core must not get that of the lease that ends"
    until(lambda: other.over.is_set() and spark.has(1))
    alone = spark.waiting(1)
    assert alone.spec is not None
    assert len(alone.spec.lanes) == 4
    alone.run()
    until(lambda: view(board).figures.records_lag == 0)
    assert codes(leases, board) == set()
    until(lambda: spark.has(0))  # it looks for a place, with a task that does nothing
    probe = spark.waiting(0)
    assert probe.spec is None
    probe.end()
    until(lambda: alone.over.is_set() and spark.has(1) and spark.has(0) and spark.waiting(0).spec is not None)
    specs = [spark.waiting(slot).spec for slot in range(2)]
    assert [len(spec.lanes) for spec in specs if spec is not None] == [2, 2]


def test_a_place_that_another_lease_has_just_left_is_none(
    spark: Spark, leases: Leases, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unassigned, "LOST_S", 0.0)
    monkeypatch.setattr(module, "COME_BACK_S", 0.05)
    lose_the_task_of_slot_0(spark, leases, board)
    until(lambda: spark.has(0) and spark.waiting(0).spec is None and spark.has(1))
    probe = spark.waiting(0)
    probe.end()  # while the lease of the other slot waits for a core
    until(lambda: spark.has(0) and spark.waiting(0) is not probe)
    assert spark.waiting(0).spec is None, "it continues looking"
    spec = spark.waiting(1).spec
    assert spec is not None
    assert len(spec.lanes) == 4


@pytest.mark.parametrize(("asked_after", "silent"), [((9.0,), False), ((5.0, 6.0), True), ((20.0,), False)])
def test_who_was_not_asked_for_long_stood_still_himself(asked_after: tuple[float, ...], silent: bool) -> None:
    """A driver that was frozen has read nothing meanwhile: that is no silence of the others."""
    now = [100.0]
    signs = SignsOfLife(lambda: now[0])
    signs.begins("0.1")
    found = {}
    for seconds in asked_after:
        now[0] += seconds
        found = dict(signs.silent())
    assert bool(found) is silent
