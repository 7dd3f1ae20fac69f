"""A lease without Spark: channel, retries, counts over attempts, and that no lane holds another."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from reconciler_mirror.lane.state import LaneCounts
from reconciler_mirror.leases import channel
from reconciler_mirror.leases.task import CopyPath, LeaseSpec, LeaseState, run_lease
from reconciler_mirror.model.lane import (
    Control,
    LaneEnd,
    LaneProgress,
    LaneReport,
    LaneSpec,
    PartitionProgress,
    PartitionSpec,
)

from tests.support.jobs.loopback import loopback_listener
from tests.support.lanes.lane_spec import lane

SPEC = PartitionSpec("orders", 0, "east.orders", "id")


def lease(server: Driver | None, *lanes: LaneSpec, seconds: float = 10.0) -> LeaseSpec:
    address = server.server.address if server else ("127.0.0.1", _unused_port())
    return LeaseSpec("0.1", lanes, seconds, address, server.server.token if server else "", "test", "west")


def _unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@dataclass
class Driver:
    """The driver's end of the channel, with everything it heard."""

    orders: dict[str, Any] = field(default_factory=dict)
    heard: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = channel.ChannelServer(
            loopback_listener(), lambda _: self.orders, lambda _, m: self.heard.append(m)
        )

    def progress(self) -> list[LaneProgress]:
        return [channel.ROWS.decoded(LaneProgress, m["progress"]) for m in self.heard if "progress" in m]

    def reports(self) -> list[LaneReport]:
        return [channel.ROWS.decoded(LaneReport, m["report"]) for m in self.heard if "report" in m]


def copy_until_told(lane: LaneSpec, control: Control, _counts: LaneCounts) -> LaneReport:
    while not (control.stopping() or control.lease_over()):
        control.report(LaneProgress(lane.flow, lane.lane, tuple(_copied(s) for s in control.partitions())))
        time.sleep(0.01)
    end = LaneEnd.STOPPED if control.stopping() else LaneEnd.LEASE_OVER
    return LaneReport(end, LaneProgress(lane.flow, lane.lane, tuple(_copied(s) for s in control.partitions())))


def _copied(spec: PartitionSpec, records: int = 10) -> PartitionProgress:
    return PartitionProgress(spec.topic, spec.partition, records, records, records, records * 100)


def in_thread(spec: LeaseSpec, path: CopyPath) -> Callable[[], tuple[LaneReport, ...]]:
    got: list[tuple[LaneReport, ...]] = []
    thread = threading.Thread(target=lambda: got.append(run_lease(spec, path)))
    thread.start()

    def join() -> tuple[LaneReport, ...]:
        thread.join(60)
        return got[0]

    return join


def until(wanted: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not wanted():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_partitions_arrive_and_a_stop_ends_the_lease() -> None:
    driver = Driver()
    join = in_thread(lease(driver, lane(0)), copy_until_told)
    driver.orders = {"lanes": [["f", 0, channel.ROWS.encoded((SPEC,), channel.SPECS)]]}
    driver.server.send("0.1", driver.orders)
    until(lambda: any(progress.partitions for progress in driver.progress()) or _resend(driver))
    driver.server.send("0.1", {"stop": True})
    [report] = join()
    assert report.end is LaneEnd.STOPPED
    assert report.progress.partitions == (_copied(SPEC),)


def test_rows_are_reported_no_faster_than_the_driver_takes_them_in_and_none_is_left_out() -> None:
    """Each row changes all the time: four partitions at 8 rows a second are told every half second, and at the end."""
    driver, specs = Driver(), tuple(replace(SPEC, partition=number) for number in range(4))
    copied = iter(range(1, 1_000_000))

    def busy(lane: LaneSpec, control: Control, _counts: LaneCounts) -> LaneReport:
        rows: tuple[PartitionProgress, ...] = ()
        while not control.stopping():
            rows = tuple(_copied(spec, next(copied)) for spec in specs)
            control.report(LaneProgress(lane.flow, lane.lane, rows))
            time.sleep(0.01)
        return LaneReport(LaneEnd.STOPPED, LaneProgress(lane.flow, lane.lane, rows))

    given = replace(lease(driver, replace(lane(0), partitions=specs)), rows_per_s=8.0)
    began = time.monotonic()
    join = in_thread(given, busy)
    until(lambda: len(driver.progress()) >= 4)
    assert time.monotonic() - began >= 1.5 - 0.1, "three waits of half a second"
    driver.server.send("0.1", {"stop": True})
    [report] = join()
    until(lambda: driver.progress()[-1].partitions == report.progress.partitions)


def test_a_line_that_breaks_is_dialed_again_and_all_is_reported_again_while_the_lane_continues() -> None:
    driver, broken = Driver(), threading.Event()
    driver.server._broken = lambda _: broken.set()
    reached: list[int] = []

    def copy(lane: LaneSpec, control: Control, _counts: LaneCounts) -> LaneReport:
        control.prepared()
        records = 0
        while not control.stopping():
            records += 1
            reached.append(records)
            still = PartitionProgress("still", 0, 7, 7, 7, 700)
            control.report(LaneProgress(lane.flow, lane.lane, (_copied(SPEC, records), still)))
            time.sleep(0.01)
        return LaneReport(LaneEnd.STOPPED, LaneProgress(lane.flow, lane.lane, ()))

    join = in_thread(lease(driver, lane(0, SPEC)), copy)
    until(lambda: any(progress.partitions for progress in driver.progress()))
    driver.heard.clear()
    driver.server._lines["0.1"].close()
    assert broken.wait(60)
    before = len(reached)
    until(lambda: any("prepared" in message for message in driver.heard) and len(driver.progress()) > 2)
    assert {p.topic for p in driver.progress()[0].partitions} == {"orders", "still"}, "also what did not change"
    assert len(reached) > before, "the lane was not disturbed"
    driver.server.send("0.1", {"stop": True})
    [report] = join()
    assert report.end is LaneEnd.STOPPED
    assert reached == list(range(1, len(reached) + 1)), "one lane, which never began again"


def test_a_driver_that_does_not_know_the_lease_any_more_ends_a_task_that_dials_again() -> None:
    """Its lanes may be at work elsewhere by then."""
    driver = Driver()
    join = in_thread(lease(driver, lane(0, SPEC)), copy_until_told)
    until(lambda: "0.1" in driver.server._lines)
    driver.server._orders = lambda _: None
    driver.server._lines["0.1"].close()
    [report] = join()
    assert report.end is LaneEnd.LEASE_OVER


def _resend(driver: Driver) -> bool:
    driver.server.send("0.1", driver.orders)
    return False


def test_without_a_channel_the_lease_runs_to_its_deadline() -> None:
    began = time.monotonic()
    [report] = run_lease(lease(None, lane(0, SPEC), seconds=0.6), copy_until_told)
    assert report.end is LaneEnd.LEASE_OVER
    assert time.monotonic() - began >= 0.6


def test_a_lease_continues_while_its_driver_renews_it_and_ends_when_it_no_longer_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, passes, states = 1000.0, 0.0, []

    def clock() -> float:
        nonlocal now
        now += passes
        return now

    class Watched(LeaseState):
        def __init__(self, seconds: float) -> None:
            super().__init__(seconds)
            states.append(self)

    monkeypatch.setattr("reconciler_mirror.leases.task.time", SimpleNamespace(monotonic=clock, sleep=time.sleep))
    monkeypatch.setattr("reconciler_mirror.leases.task.LeaseState", Watched)
    driver = Driver({"lanes": [["f", 0, channel.ROWS.encoded((SPEC,), channel.SPECS)]]})
    join = in_thread(lease(driver, lane(0, SPEC), seconds=10.0), copy_until_told)

    def renewed() -> bool:
        driver.server.send("0.1", {"seconds": 10.0})
        return bool(states) and states[0].deadline == now + 10.0

    for _ in range(5):
        until(renewed)
        now += 9.0
    passes = 1.0  # with each look at the clock, since a renewal may still be on its way
    [report] = join()
    assert report.end is LaneEnd.LEASE_OVER


def test_a_lease_says_which_of_its_lanes_are_at_work_though_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One reports again and again, one has told that it is between two sessions, and one hangs."""
    monkeypatch.setattr("reconciler_mirror.leases.task.ALIVE_S", 0.05)
    monkeypatch.setattr("reconciler_mirror.leases.task._AT_WORK_S", 0.5)

    def path(spec: LaneSpec, control: Control, counts: LaneCounts) -> LaneReport:
        if spec.lane == 0:
            return copy_until_told(spec, control, counts)
        first = LaneProgress(spec.flow, spec.lane, (_copied(SPEC),), at_work=spec.lane == 2)
        control.report(first)
        while not control.stopping():
            if spec.lane == 1:
                control.report(first)
            time.sleep(0.01)
        return LaneReport(LaneEnd.STOPPED, first)

    driver = Driver({"lanes": [["f", n, channel.ROWS.encoded((SPEC,), channel.SPECS)] for n in range(3)]})
    join = in_thread(lease(driver, *(lane(n, SPEC) for n in range(3)), seconds=60.0), path)
    until(lambda: [m["alive"] for m in driver.heard if "alive" in m][-3:] == [[["f", 0]]] * 3)
    driver.server.send("0.1", {"stop": True})
    assert [report.end for report in join()] == [LaneEnd.STOPPED] * 3


def test_the_driver_learns_when_a_line_ends_before_its_lease_and_only_then() -> None:
    broken: list[str] = []
    heard: list[str] = []
    server = channel.ChannelServer(
        loopback_listener(), lambda _: {}, lambda lease, _: heard.append(lease), broken.append
    )
    lines = {}
    for name in ("0.1", "1.1"):
        lines[name] = channel.ChannelClient(server.address, server.token, name, lambda _: None)
        lines[name].send({"alive": []})
    until(lambda: {*heard} == {"0.1", "1.1"})
    server.end("1.1")
    for line in lines.values():
        line.close()
    until(lambda: broken == ["0.1"])
    server.close()


def test_a_wrong_token_hears_nothing() -> None:
    driver = Driver({"stop": True})
    spec = replace(lease(driver, lane(0, SPEC), seconds=0.5), token="guess")
    [report] = run_lease(spec, copy_until_told)
    assert report.end is LaneEnd.LEASE_OVER
    assert driver.heard == []


@pytest.mark.slow
def test_a_lane_that_fails_is_tried_again_and_its_counts_continue() -> None:
    attempts: list[int] = []

    def path(lane: LaneSpec, control: Control, counts: LaneCounts) -> LaneReport:
        attempts.append(1)
        if len(attempts) == 3:
            return copy_until_told(lane, control, counts)
        counts.transactions += 1
        told = LaneProgress(lane.flow, lane.lane, (_copied(SPEC, 5),), (), counts.transactions, retries=counts.retries)
        return LaneReport(LaneEnd.FAILED, told, "broken")

    driver = Driver()
    [report] = run_lease(lease(driver, lane(0, SPEC), seconds=4.0), path)
    assert len(attempts) == 3
    assert report.end is LaneEnd.LEASE_OVER
    told = [(report.error, report.progress.transactions, report.progress.retries) for report in driver.reports()]
    assert told[:2] == [("broken", 1, 1), ("broken", 2, 2)]


def test_a_superseded_lane_ends_and_is_reported_at_once_while_another_continues() -> None:
    def path(lane: LaneSpec, control: Control, counts: LaneCounts) -> LaneReport:
        if lane.lane == 1:
            return copy_until_told(lane, control, counts)
        return LaneReport(LaneEnd.SUPERSEDED, LaneProgress(lane.flow, lane.lane, ()), "taken")

    driver = Driver()
    join = in_thread(lease(driver, lane(0, SPEC), lane(1, SPEC)), path)
    until(lambda: any(report.end is LaneEnd.SUPERSEDED for report in driver.reports()))
    driver.server.send("0.1", {"over": True})
    first, second = join()
    assert (first.end, second.end) == (LaneEnd.SUPERSEDED, LaneEnd.LEASE_OVER)


def test_a_lane_that_raises_is_a_failed_report_and_not_a_lost_lease() -> None:
    def path(lane: LaneSpec, control: Control, counts: LaneCounts) -> LaneReport:
        if lane.lane == 1:
            return copy_until_told(lane, control, counts)
        raise RuntimeError("a bug")

    first, second = run_lease(lease(None, lane(0, SPEC), lane(1, SPEC), seconds=1.0), path)
    assert first.end is LaneEnd.FAILED
    assert "a bug" in first.error
    assert second.end is LaneEnd.LEASE_OVER


def test_a_task_that_spark_lost_sight_of_is_asked_to_leave() -> None:
    driver = Driver({"lanes": [["f", 0, channel.ROWS.encoded((SPEC,), channel.SPECS)]]})
    join = in_thread(lease(driver, lane(0, SPEC), seconds=60.0), copy_until_told)
    until(lambda: bool(driver.heard))
    driver.server.end("0.1")
    [report] = join()
    assert report.end is LaneEnd.LEASE_OVER


def test_a_task_that_spark_tries_again_under_the_same_name_ends_the_first_and_is_the_one_that_is_heard() -> None:
    driver = Driver({"lanes": [["f", 0, channel.ROWS.encoded((SPEC,), channel.SPECS)]]})
    first = in_thread(lease(driver, lane(0, SPEC), seconds=60.0), copy_until_told)
    until(lambda: bool(driver.heard))
    second = in_thread(lease(driver, lane(0, SPEC), seconds=60.0), copy_until_told)
    assert [report.end for report in first()] == [LaneEnd.LEASE_OVER]
    driver.server.send("0.1", {"stop": True})
    assert [report.end for report in second()] == [LaneEnd.STOPPED]
    until(lambda: [report.end for report in driver.reports()] == [LaneEnd.STOPPED])


def test_a_lease_that_no_one_gives_any_more_ends_at_once() -> None:
    server = channel.ChannelServer(loopback_listener(), lambda _: None, lambda _, m: None)
    spec = replace(lease(None, lane(0, SPEC), seconds=60.0), driver=server.address, token=server.token)
    [report] = run_lease(spec, copy_until_told)
    assert report.end is LaneEnd.LEASE_OVER
