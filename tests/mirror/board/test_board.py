"""What the status record says: counts over leases, lag unknown until it is known, conditions with their time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from itertools import accumulate
from types import SimpleNamespace

import jsonschema
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from reconciler_mirror.board.board import Board
from reconciler_mirror.board.flow_state import SILENT_S
from reconciler_mirror.board.unassigned import WithoutTask
from reconciler_mirror.conditions.flow import STALLED_S, ConditionLog, partitions_stalled
from reconciler_mirror.model.counters import BOUNDS_MS, LatencyCounter, Loss
from reconciler_mirror.model.lane import (
    Condition,
    Discovered,
    LaneEnd,
    LaneProgress,
    LaneReport,
    PartitionProgress,
    PartitionSpec,
    lane_of,
)
from reconciler_mirror.model.views import LAST_WITHIN_MS, FlowView, PartitionView, pause_counts
from reconciler_mirror.report.status import Application, record

from reconciler.replication.handover import FlowSettings, MirrorSettings
from reconciler.replication.handover_reader import parse
from reconciler.replication.names import LAG_HOLDS_MS, with_former_names
from reconciler.replication.records.pauses import Pause, Scope
from reconciler.replication.status import ApplicationState, document
from tests.support.lanes.handover import handover
from tests.support.paths import ROOT

SPECS = tuple(PartitionSpec("orders", number, "east.orders", "id") for number in range(2))


@pytest.fixture
def settings() -> MirrorSettings:
    return parse(json.dumps(handover()))


@pytest.fixture
def flow(settings: MirrorSettings) -> FlowSettings:
    return settings.flows[0]


@pytest.fixture
def board(settings: MirrorSettings) -> Board:
    made = Board(settings.flows)
    made.discovered("orders", Discovered(SPECS, (), 1, complete=True))
    made.taken_over("orders")
    return made


def told(number: int, position: int | None, end: int | None, records: int = 0, *more: Condition) -> LaneProgress:
    partition = PartitionProgress("orders", number, position, end, records, records * 10, 1000)
    return LaneProgress("orders", lane_of("orders", number, 4), (partition,), more)


def test_the_lag_is_unknown_until_every_partition_is_known(board: Board) -> None:
    board.progress(told(0, 5, 9))
    assert board.view()[0].figures.records_lag is None
    board.progress(told(1, 3, 3))
    [view] = board.view()
    assert view.figures.records_lag == 4
    assert view.figures.seconds_lag is not None
    assert view.figures.seconds_lag > 0
    board.progress(told(0, 9, 9))
    [view] = board.view()
    assert (view.figures.records_lag, view.figures.seconds_lag) == (0, 0.0)


def test_records_count_on_over_leases_and_are_never_counted_twice(board: Board) -> None:
    key = ("orders", lane_of("orders", 0, 4))
    for records in (10, 10, 25):
        board.progress(told(0, records, 100, records))
    board.lease_begins(key)
    for records in (0, 5, 5):
        board.progress(told(0, 25 + records, 100, records))
    assert board.view()[0].figures.records_total == 30


def test_a_partition_that_leaves_and_comes_back_counts_nothing_twice(board: Board, clock: Clock) -> None:
    """As where the source's listing lacks a topic for a moment: the lane keeps its counters."""
    lost = Loss("source_truncated", 60, text="text")

    def progress(filtered: int, offsets: int) -> None:
        [row] = told(0, 5, 9, 5).partitions
        row = replace(row, filtered=filtered, returning=1, losses=(replace(lost, offsets=offsets),))
        board.progress(replace(told(0, 5, 9), partitions=(row,)))

    def counted() -> tuple[int, int, int, list[int]]:
        [lane] = [lane for lane in board._flows["orders"].lanes.values() if lane.losses]
        offsets = [loss.offsets for loss in board.view()[0].figures.lost]
        return (lane.records, lane.filtered, lane.returning, offsets)

    board.progress(told(1, 3, 3))
    progress(3, 60)
    assert counted() == (5, 3, 1, [60])
    board.discovered("orders", Discovered(SPECS[1:], (), 1, complete=True))
    assert clock.passes(board, STALLED_S).figures.partitions == 1
    board.discovered("orders", Discovered(SPECS, (), 1, complete=True))
    progress(3, 60)
    assert counted() == (5, 3, 1, [60])
    assert clock.passes(board, 4).figures.stalled_partitions == 0, "it was gone meanwhile, and begins now"
    progress(4, 70)
    progress(3, 60)  # an older one, late
    progress(4, 70)
    assert counted() == (5, 4, 1, [70])


def test_a_lane_that_was_hot_once_weighs_less_than_the_one_that_is_hot_now(board: Board) -> None:
    past, now = (("orders", lane_of("orders", number, 4)) for number in range(2))
    board.progress(told(0, 10**9, 10**9, 10**9))
    assert board.measure_loads()[past] > board.measure_loads()[now]
    for minute in range(1, 9):
        board.progress(told(1, minute * 10**8, 10**9, minute * 10**8))
        loads = board.measure_loads()
    assert loads[now] > loads[past]


def test_transactions_retries_and_latency_count_on_over_leases_and_no_snapshot_counts_twice(board: Board) -> None:
    key = ("orders", lane_of("orders", 0, 4))
    counted = LatencyCounter()
    counted.committed(1_000, 1_040)
    first = replace(told(0, 1, 9, 1), transactions=1, retries=1, latency=counted.snapshot())
    counted.committed(1_000, 4_000)
    second = replace(told(0, 2, 9, 2), transactions=2, retries=1, latency=counted.snapshot())
    for progress in (first, second, first, second):
        board.progress(progress)
    board.lease_begins(key)
    board.progress(first)
    [view] = board.view()
    assert (view.figures.transactions, view.figures.retries) == (3, 2)
    assert (view.latency.count, view.latency.total_ms) == (3, 40 + 3_000 + 40)
    assert view.latency.counts[BOUNDS_MS.index(50)] == 2, "40 ms is above 25 and not above 50"
    assert view.committed_ms is not None


@given(st.lists(st.integers(0, 10**8), max_size=50), st.integers(0, 50))
def test_latency_of_two_spans_is_that_of_the_whole(ages: list[int], cut: int) -> None:
    counted = LatencyCounter()
    parts = []
    for some in (ages[:cut], ages[cut:]):
        for age in some:
            counted.committed(10**9, 10**9 + age)
        parts.append(counted.snapshot())
    assert parts[0].plus(parts[1].since(parts[0])) == parts[1]
    assert (parts[1].count, parts[1].total_ms) == (len(ages), sum(ages))
    for bound, below in zip(BOUNDS_MS, accumulate(parts[1].counts), strict=False):
        assert below == sum(age <= bound for age in ages)


def test_records_without_a_timestamp_have_no_latency_and_the_future_has_none_to_speak_of() -> None:
    counted = LatencyCounter()
    counted.committed(None)
    counted.committed(-1)
    assert counted.snapshot().count == 0
    counted.committed(5_000, 4_000)
    assert (counted.snapshot().counts[0], counted.snapshot().total_ms) == (1, 0)


def test_the_oldest_record_to_copy_has_an_age_while_that_of_every_partition_is_known(board: Board) -> None:
    """Where one partition has records of which none was read, an older one may be among them."""
    now_ms = int(time.time() * 1000)

    def oldest(*since_ms: int | None) -> float | None:
        for number, since in enumerate(since_ms):
            one = told(number, 5, 9 if since is None or since else 5)
            board.progress(replace(one, partitions=tuple(replace(p, waiting_since_ms=since) for p in one.partitions)))
        return board.view()[0].figures.oldest_unread_seconds

    assert oldest(0) is None, "nothing is known of the other partition"
    assert oldest(0, 0) == 0.0
    assert (oldest(now_ms - 60_000, now_ms - 5_000) or 0) >= 60
    assert (oldest(0, now_ms - 5_000) or 60) < 60
    assert oldest(now_ms - 60_000, None) is None
    assert board.view()[0].figures.seconds_lag is not None, "that of the others, which it may hide"
    assert oldest(now_ms - 60_000, -1) is None, "a record without a timestamp"


def test_the_record_names_how_partitions_are_copied_and_which_are_furthest_behind(
    board: Board, settings: MirrorSettings
) -> None:
    application = Application("app-1", 1, "host", 2)
    unheard = document(record(settings, application, "running", board.view(), 3))["flows"]["orders"]
    assert unheard["paths"] == [{"path": "batch", "reason": "", "partitions": 2}], "until a lane says otherwise"
    board.progress(told(0, 5, 9))
    slow = told(1, 3, 90)
    [part] = slow.partitions
    board.progress(replace(slow, partitions=(replace(part, path="record level", path_reason="small batches"),)))
    made = document(record(settings, application, "running", board.view(), 3))["flows"]["orders"]
    assert made["paths"] == [
        {"path": "batch", "reason": "", "partitions": 1},
        {"path": "record level", "reason": "small batches", "partitions": 1},
    ]
    assert [(one["partition"], one["records_lag"]) for one in made["worst_partitions"]] == [(1, 87), (0, 4)]
    for number, end in ((0, 9), (1, 90)):
        board.progress(told(number, end, end))
    made = document(record(settings, application, "running", board.view(), 3))["flows"]["orders"]
    assert made["worst_partitions"] == []


class Clock:
    """Monotonic time of what is tested. Lanes of ``board`` are at work meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.later = time.monotonic(), 0.0
        fake = SimpleNamespace(monotonic=lambda: self.now, time=lambda: time.time() + self.later)
        for module in ("board", "flow_state"):
            monkeypatch.setattr(f"reconciler_mirror.board.{module}.time", fake)

    def passes(self, board: Board, seconds: float) -> FlowView:
        """With a sign of life every two seconds, and a look each time."""
        for _ in range(int(seconds / 2)):
            self.now += 2
            board.at_work([("orders", lane) for lane in range(4)])
            board.view()
        return board.view()[0]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_the_lag_of_a_flow_is_unknown_while_that_of_a_stopped_partition_is(board: Board) -> None:
    stop = Condition("source_topic_recreated", "text", "todo", "orders", 0, stops=True)
    board.progress(told(0, None, None, 0, stop))
    board.progress(told(1, 1, 4))
    [view] = board.view()
    assert (view.figures.records_lag, view.figures.seconds_lag) == (None, None)
    assert (view.lag_at_least, view.figures.lag_unknown_partitions, view.figures.stalled_partitions) == (3, 1, 1)


def test_a_stopped_partition_whose_position_and_end_are_known_has_a_lag(board: Board) -> None:
    stop = Condition("record_refused", "text", "todo", "orders", 0, stops=True)
    board.progress(told(0, 2, 9, 0, stop))
    board.progress(told(1, 4, 4))
    assert board.view()[0].figures.records_lag == 7
    board.progress(told(0, 2, 11, 0, stop))
    assert board.view()[0].figures.records_lag == 9


def test_why_a_lane_failed_is_reported_until_it_is_at_work_again(board: Board) -> None:
    """It is retried within seconds, and may fail at once again: who looks in between must not take it for one that
    copies."""
    failed = Condition("lane_failed", "text", "todo", stops=True)
    lane = lane_of("orders", 0, 4)
    nothing = LaneProgress("orders", lane, (), at_work=False)
    board.report(LaneReport(LaneEnd.FAILED, replace(nothing, conditions=(failed,)), "text"))
    board.lease_begins(("orders", lane))
    board.progress(nothing)  # a task gets ready
    assert [condition for condition, _ in board.view()[0].conditions] == [failed]
    board.progress(told(0, 2, 9))
    assert board.view()[0].conditions == ()


def test_an_end_that_the_source_reported_long_ago_does_not_count(board: Board) -> None:
    [row] = told(0, 5, 9).partitions
    board.progress(replace(told(0, 5, 9), partitions=(replace(row, silent_since_ms=1),)))
    board.progress(told(1, 3, 3))
    [view] = board.view()
    assert (view.figures.records_lag, view.lag_at_least, view.figures.lag_unknown_partitions) == (None, 4, 1)
    board.progress(told(0, 5, 9))
    assert board.view()[0].figures.records_lag == 4


def test_what_matches_and_has_no_place_at_the_target_is_not_caught_up(board: Board) -> None:
    for number in range(2):
        board.progress(told(number, 5, 5))
    missing = Condition("target_topic_missing", "text", "todo", "late", stops=True)
    board.discovered("orders", Discovered(SPECS, (missing,), 2, complete=True, uncopied={"late": 3}))
    [view] = board.view()
    assert (
        view.figures.records_lag,
        view.lag_at_least,
        view.figures.lag_unknown_partitions,
        view.figures.stalled_partitions,
    ) == (None, 0, 3, 3)
    assert [condition.code for condition, _ in view.conditions] == ["target_topic_missing"]


def test_a_flow_without_partitions_is_caught_up_only_while_its_source_can_be_checked(
    settings: MirrorSettings,
) -> None:
    board = Board(settings.flows)
    board.discovered("orders", Discovered((), (), 0, complete=True))
    board.taken_over("orders")
    assert board.view()[0].figures.records_lag == 0
    silent = Condition("source_unreachable", "text", "todo")
    board.discovered("orders", Discovered((), (silent,), 0, complete=True))
    assert board.view()[0].figures.records_lag is None


def test_a_lane_that_is_heard_of_no_more_has_no_lag_and_no_bound_of_it(board: Board, clock: Clock) -> None:
    """It may copy on without being heard, so what it told last bounds nothing."""
    board.progress(told(0, 5, 5))
    board.progress(told(1, 3, 8))
    assert clock.passes(board, 60).figures.records_lag == 5, "a sign of life is enough where nothing changes"
    clock.now += SILENT_S + 1
    [view] = board.view()
    assert (view.figures.records_lag, view.lag_at_least, view.figures.lag_unknown_partitions) == (None, 0, 2)


def test_between_two_sessions_of_a_lane_its_lag_is_not_known_for_long(board: Board, clock: Clock) -> None:
    board.progress(told(0, 5, 5))
    board.progress(told(1, 3, 3))
    clock.now += SILENT_S + 1
    for number in range(2):
        board.progress(replace(told(number, 5, 5), at_work=False))
    assert board.view()[0].figures.records_lag is None


def test_what_does_not_move_and_has_records_is_named(board: Board, clock: Clock) -> None:
    board.progress(told(0, 5, 5))
    board.progress(told(1, 3, 8))
    assert clock.passes(board, STALLED_S - 2).conditions == ()
    view = clock.passes(board, 4)
    ((condition, _),) = view.conditions
    assert (condition.code, condition.partition, condition.stops) == ("partition_stalled", 1, True)
    assert "orders, partition 1, has not moved for 30 s, 5 records behind; no reason is known" in condition.text
    assert (view.figures.records_lag, view.figures.stalled_partitions) == (5, 1)
    board.progress(told(1, 4, 8))
    view = clock.passes(board, 2)
    assert (view.conditions, view.figures.stalled_partitions) == ((), 0), "it moved"


@pytest.mark.parametrize(("lags", "behind"), [((None, None), ""), ((None, 5), ", at least 5 records")])
def test_an_unknown_lag_is_at_least_what_is_known_of_it(lags: tuple[int | None, ...], behind: str) -> None:
    text = partitions_stalled("orders", list(enumerate(lags)), others_move=False).text
    assert text == (
        f"orders, partitions 0-1, have not moved for 30 s, how far behind is not known{behind}; no reason is known"
    )


def test_a_standstill_with_a_reported_reason_is_not_reported_twice(board: Board, clock: Clock) -> None:
    stop = Condition("record_refused", "text", "todo", "orders", 1, stops=True)
    board.progress(told(0, 5, 5))
    board.progress(told(1, 3, 8, 0, stop))
    view = clock.passes(board, STALLED_S + 4)
    assert ([c.code for c, _ in view.conditions], view.figures.stalled_partitions) == (["record_refused"], 1)
    board.progress(told(1, 3, 8))
    board.set_untasked({}, [("orders", lane_of("orders", 1, 4))])
    assert clock.passes(board, STALLED_S + 4).conditions == (), "that it has no task is told soon"
    board.set_untasked({})
    trouble = Condition("source_unreachable", "text", "todo")
    board.progress(told(1, 3, 8, 0, trouble))
    view = clock.passes(board, STALLED_S + 4)
    assert ([c.code for c, _ in view.conditions], view.figures.stalled_partitions) == (["source_unreachable"], 1)


def test_a_lane_that_had_no_task_for_long_has_time_to_begin(board: Board, clock: Clock) -> None:
    lane = ("orders", lane_of("orders", 1, 4))
    board.progress(told(0, 5, 5))
    board.progress(told(1, 3, 8))
    board.set_untasked({lane: WithoutTask(40)}, [lane])
    assert [c.code for c, _ in clock.passes(board, STALLED_S + 4).conditions] == ["lane_without_task"]
    board.set_untasked({})
    assert clock.passes(board, STALLED_S - 4).conditions == ()
    assert [c.code for c, _ in clock.passes(board, 6).conditions] == ["partition_stalled"]

    # One that loses its tasks soon, again and again, gets no time by that.
    board.set_untasked({}, [lane])
    board.set_untasked({})
    assert [c.code for c, _ in clock.passes(board, 2).conditions] == ["partition_stalled"]


def test_what_waits_for_its_turn_while_others_of_its_lane_are_copied_does_not_count_as_stopped(
    settings: MirrorSettings, clock: Clock
) -> None:
    numbers = [number for number in range(40) if lane_of("orders", number, 4) == 0][:2]
    board = Board(settings.flows)
    specs = tuple(PartitionSpec("orders", number, "east.orders", "id") for number in numbers)
    board.discovered("orders", Discovered(specs, (), 1, complete=True))
    board.taken_over("orders")
    for second in range(0, int(STALLED_S) + 6, 2):
        board.progress(told(numbers[0], second, 100, second))
        board.progress(told(numbers[1], 3, 8))
        view = clock.passes(board, 2)
    ((condition, _),) = view.conditions
    assert (condition.code, condition.partition, condition.stops) == ("partition_stalled", numbers[1], False)
    assert "others of the same lanes are copied" in condition.text


def test_what_a_rate_limit_or_a_pause_holds_back_does_not_stand(board: Board, clock: Clock) -> None:
    board.progress(replace(told(1, 3, 8), held_back=1))
    paused = replace(told(0, 3, 8).partitions[0], paused=True)
    board.progress(replace(told(0, 3, 8), partitions=(paused,)))
    view = clock.passes(board, STALLED_S * 2)
    assert (view.conditions, view.figures.stalled_partitions, view.figures.records_lag) == ((), 0, 10)


def test_a_known_lag_is_known_as_at_least_that(board: Board) -> None:
    board.progress(told(0, 3, 8))
    board.progress(told(1, 1, 4))
    figures = board.view()[0].figures
    assert figures.records_lag == figures.records_lag_at_least > 0


def test_of_an_unknown_lag_the_record_says_what_is_known(board: Board, settings: MirrorSettings) -> None:
    board.progress(told(0, None, None))
    board.progress(told(1, 1, 4))
    who = Application("app-1", 1, "host", 2)
    made = document(record(settings, who, "running", board.view(), 3))
    jsonschema.validate(made, json.loads((ROOT / "schemas" / "status.schema.json").read_text()))
    expected = {"records_lag_at_least": 3, "lag_unknown_partitions": 1, "stalled_partitions": 0}
    flow = made["flows"]["orders"]
    assert flow["records_lag"] is None
    assert with_former_names(expected).items() <= flow.items(), "both names, for readers of the last release"
    board.progress(told(0, 9, 9))
    flow = document(record(settings, who, "running", board.view(), 3))["flows"]["orders"]
    all_of_it = {**dict.fromkeys(expected, 0), "records_lag_at_least": flow["records_lag"]}
    assert all_of_it.items() <= flow.items()
    assert flow["records_lag"] == 3, "all of it is known"


def test_the_last_known_lag_outlives_the_source_that_reported_it(board: Board, clock: Clock) -> None:
    """Of what the source had then: a lag counts as known while its end is at most so old."""
    board.progress(told(0, 7, 9))
    board.progress(told(1, 1, 4))
    before_ms = int(time.time() * 1000)
    assert board.view()[0].figures.records_lag == 5
    assert board.view()[0].figures.last_lag is None, "it is known"
    clock.now += SILENT_S + 1
    views = board.view()
    assert (views[0].figures.records_lag, views[0].lag_at_least) == (None, 0)
    last = views[0].figures.last_lag
    assert last is not None
    assert last.records == 5
    assert 0 <= last.at_ms + LAG_HOLDS_MS - before_ms < 60_000


def test_the_last_lag_leaves_out_what_was_not_known_then(board: Board, clock: Clock) -> None:
    """A partition that stands with an unknown lag hides that of no other, and no old figure of it counts."""
    board.progress(told(0, 7, 9))
    board.progress(told(1, 1, 4))
    assert board.view()[0].figures.records_lag == 5
    board.progress(told(1, None, None))
    last = board.view()[0].figures.last_lag
    assert last is not None
    assert (last.records, last.unknown_partitions) == (5, 0), "it was known a moment ago"
    clock.now += LAST_WITHIN_MS / 1000 + 1
    clock.later = LAST_WITHIN_MS / 1000 + 1
    board.progress(told(0, 7, 9))
    board.view()
    clock.now += SILENT_S + 1
    last = board.view()[0].figures.last_lag
    assert last is not None
    assert (last.records, last.unknown_partitions) == (2, 1)
    assert [(p.partition, p.records_lag) for p in last.worst_partitions] == [(0, 2)]


def test_a_condition_keeps_the_time_it_was_first_seen(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Condition("record_refused", "text", "todo", "orders", 0, stops=True)
    board.progress(told(0, 1, 4, 0, stop))
    [(_, since)] = board.view()[0].conditions
    monkeypatch.setattr("reconciler_mirror.board.board.time.time", lambda: since / 1000 + 60)
    [(_, again)] = board.view()[0].conditions
    assert again == since
    board.progress(told(0, 4, 4))
    assert board.view()[0].conditions == ()
    board.progress(told(0, 1, 4, 0, stop))
    [(_, later)] = board.view()[0].conditions
    assert later == since + 60_000


def test_a_condition_is_logged_when_it_begins_and_when_it_is_over(board: Board) -> None:
    stop = Condition("record_refused", "text", "todo", "orders", 0, stops=True)
    log = ConditionLog("https://docs.example.net/r")
    with structlog.testing.capture_logs() as lines:
        for conditions in ((stop,), (stop,), (), (stop,)):
            board.progress(told(0, 1, 4, 0, *conditions))
            log.log_changes(board.view())
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("condition", "warning"),
        ("condition over", "info"),
        ("condition", "warning"),
    ]
    first = {"flow": "orders", "code": "record_refused", "topic": "orders", "partition": 0, "stops": True}
    runbook = "https://docs.example.net/r/mirror/conditions.html#record_refused"
    assert (first | {"text": "text", "todo": "todo", "runbook": runbook}).items() <= lines[0].items()


@pytest.mark.parametrize(
    ("state", "condition", "shown"),
    [
        ("running", None, "running"),
        ("running", Condition("lane_failed", "b", "c", stops=True), "degraded"),
        ("running", Condition("lane_failed", "b", "c", "orders", 1), "running"),
        ("stopped", Condition("lane_failed", "b", "c", stops=True), "stopped"),
    ],
)
def test_the_record_follows_its_schema(
    board: Board, settings: MirrorSettings, state: ApplicationState, condition: Condition | None, shown: str
) -> None:
    if condition is not None:
        board.set_condition("orders", "x", condition)
    made = document(record(settings, Application("app-1", 1, "host", 2), state, board.view(), 3, "why"))
    jsonschema.validate(made, json.loads((ROOT / "schemas" / "status.schema.json").read_text()))
    assert made["flows"]["orders"]["state"] == shown


def test_importing_the_package_needs_no_spark_and_starts_nothing() -> None:
    program = (
        "import sys, threading, reconciler_mirror.driver.driver, reconciler_mirror.lane.run\n"
        "import reconciler_mirror.driver.discovery, reconciler_mirror.leases.leases\n"
        "assert not [m for m in sys.modules if m.startswith(('pyspark', 'reconciler.model'))], 'imported'\n"
        "assert threading.active_count() == 1, 'started'\n"
    )
    path = {"PYTHONPATH": f"{ROOT}:{ROOT / 'spark'}"}
    subprocess.run([sys.executable, "-c", program], check=True, env=path)


def test_an_outage_of_ten_thousand_partitions_can_still_be_reported(board: Board, settings: MirrorSettings) -> None:
    """A record above the limit of the status topic, or of a client, is written by nobody: all would look stale."""
    topic = "t" * 240
    stops = [
        Condition("source_unavailable", "waits: " + topic * 2, "Check " + topic, topic, number, stops=True)
        for number in range(10_000)
    ]
    hints = [Condition("source_transaction_open", "text", "todo", topic, number) for number in range(50)]
    board.progress(told(0, 1, 4, 0, *hints, *stops))
    made = document(record(settings, Application("app-1", 1, "host", 2), "running", board.view(), 3))
    assert len(json.dumps(made)) < 200_000
    jsonschema.validate(made, json.loads((ROOT / "schemas" / "status.schema.json").read_text()))
    flow = made["flows"]["orders"]
    assert 100 < len(flow["conditions"]) < 10_000
    assert all(condition["stops"] for condition in flow["conditions"]), "those that stop copying first"
    assert flow["condition_counts"] == [
        {"code": "source_unavailable", "stops": True, "conditions": 10_000},
        {"code": "source_transaction_open", "stops": False, "conditions": 50},
    ]
    board.progress(told(0, 1, 4, 0, *hints))
    made = document(record(settings, Application("app-1", 1, "host", 2), "running", board.view(), 3))
    assert "condition_counts" not in made["flows"]["orders"], "all are told"


def test_pauses_of_ten_thousand_partitions_can_still_be_reported(board: Board, settings: MirrorSettings) -> None:
    newest, reason = 10_000, "maintenance of the far side " * 5
    pauses = [Pause(Scope("orders", f"t{n}", 0), n, "ann@host", reason) for n in range(newest)]
    everything = Pause(Scope("orders"), 0, "bob@host", "all of it")
    board.set_pauses([*pauses, everything])
    made = document(record(settings, Application("app-1", 1, "host", 2), "running", board.view(), 3))
    assert len(json.dumps(made)) < 200_000
    jsonschema.validate(made, json.loads((ROOT / "schemas" / "status.schema.json").read_text()))
    flow = made["flows"]["orders"]
    assert [pause["since_ms"] for pause in flow["pauses"] if "topic" not in pause] == [0], "it covers all others"
    shown = {pause["since_ms"] for pause in flow["pauses"] if "topic" in pause}
    assert shown == set(range(newest - len(shown), newest)), "somebody may wait for the newest"
    assert 100 < len(shown) < newest
    partitions = flow["partitions"]
    assert flow["pause_counts"] == {"pauses": newest + 1, "partitions": partitions, "paused_partitions": 0}
    board.set_pauses(pauses[:5])
    made = document(record(settings, Application("app-1", 1, "host", 2), "running", board.view(), 3))
    assert "pause_counts" not in made["flows"]["orders"], "all are told"


def test_partitions_of_a_pause_and_of_all_are_counted_once_each(board: Board) -> None:
    [view] = [view for view in board.view() if view.settings.name == "orders"]
    parts = tuple(PartitionView("t", n, paused=n in (0, 1, 3)) for n in range(4))
    scopes = (Scope("orders", "t", 0), Scope("orders", "t", 2), Scope("other"))
    one = replace(view, partitions=parts, pauses=tuple(Pause(scope, 1, "ann") for scope in scopes))
    counts = pause_counts(one)
    assert counts.by_scope == {scopes[0]: (1, 1), scopes[1]: (1, 0), scopes[2]: (0, 0)}
    assert (counts.partitions, counts.paused, counts.resuming) == (2, 1, 2)
    both = replace(one, pauses=(*one.pauses, Pause(Scope("orders", "t"), 1, "bob")))
    assert pause_counts(both).by_scope[Scope("orders", "t")] == (4, 3)
    assert (pause_counts(both).partitions, pause_counts(both).resuming) == (4, 0)
    assert pause_counts(replace(one, pauses=())).resuming == 3


def test_a_pause_of_before_a_rename_continues_to_hold(settings: MirrorSettings) -> None:
    """Its record has the name of the flow's state; what the job tells has the name of now."""
    [flow] = [flow for flow in settings.flows if flow.name == "orders"]
    renamed = Board((replace(flow, name="renamed", moved_from="orders"),))
    renamed.set_pauses([Pause(Scope("orders", "t", 0), 1, "ann"), Pause(Scope("renamed"), 2, "bob")])
    [view] = renamed.view()
    assert [pause.scope for pause in view.pauses] == [Scope("renamed", "t", 0)]
