"""Lanes that no task works on are never told as caught up: a condition says it, and their lag is unknown."""

from __future__ import annotations

import json

import pytest
from reconciler_mirror.board.board import Board
from reconciler_mirror.board.unassigned import HOPELESS_S, LOST_S, NEVER_S, STOPS_S, Untasked, WithoutTask, condition
from reconciler_mirror.model.lane import Discovered, LaneProgress, PartitionProgress, PartitionSpec, lane_of

from reconciler.replication.handover_reader import parse
from tests.support.lanes.handover import handover

LANES = (("orders", 0), ("orders", 1), ("other", 0))


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def untasked(clock: Clock) -> Untasked:
    return Untasked(LANES, clock)


def test_a_lane_that_waits_for_its_first_task_is_reported_after_half_a_minute(untasked: Untasked, clock: Clock) -> None:
    untasked.begins(LANES[:2])
    clock.now += NEVER_S - 1
    assert untasked.lanes() == {}
    clock.now += 1
    assert untasked.lanes() == {LANES[2]: WithoutTask(NEVER_S)}
    untasked.begins(LANES[2:])
    assert untasked.lanes() == {}


def test_a_task_that_spark_lost_is_reported_with_the_reason_and_counts_from_its_end(
    untasked: Untasked, clock: Clock
) -> None:
    untasked.begins(LANES)
    clock.now += 3600
    untasked.ends(LANES[:1], "No such file")
    clock.now += LOST_S - 1
    untasked.ends(LANES[:1])  # the next one was lost before it began
    assert untasked.lanes() == {}
    clock.now += 1
    assert untasked.lanes() == {LANES[0]: WithoutTask(LOST_S, "No such file")}


def test_there_is_hope_while_one_lane_has_a_task_or_waits_for_room(untasked: Untasked, clock: Clock) -> None:
    untasked.ends(LANES[:2], "No such file")
    clock.now += HOPELESS_S
    assert untasked.hopeless() == ""
    untasked.ends(LANES[2:], "Connection refused")
    assert untasked.hopeless() == "Spark lost every task for 300 s: Connection refused; No such file"
    untasked.begins(LANES[2:])
    assert untasked.hopeless() == ""


def test_a_silent_task_is_reported_by_another_name_and_is_no_lost_one(untasked: Untasked, clock: Clock) -> None:
    untasked.begins(LANES)
    untasked.silent({LANES[0]: LOST_S - 1})
    assert untasked.lanes() == {}
    untasked.silent({LANES[0]: LOST_S})
    ((_, gap),) = untasked.lanes().items()
    assert condition({0: gap}, 1_234).code == "lane_unresponsive"
    assert "lane 0 has said nothing for 20 s" in condition({0: gap}, 1_234).text
    assert "1,234 records behind when last heard of" in condition({0: gap}, 1_234).text
    untasked.silent({})
    assert untasked.lanes() == {}


def test_what_was_never_placed_stops_only_after_a_minute() -> None:
    assert [condition({0: WithoutTask(s)}, None).stops for s in (NEVER_S, STOPS_S)] == [False, True]
    assert condition({0: WithoutTask(LOST_S, "No such file")}, None).stops


def test_the_lag_of_a_lane_without_a_task_is_unknown_at_once_and_reported_by_a_condition_later() -> None:
    settings = parse(json.dumps(handover()))
    board = Board(settings.flows)
    spec = PartitionSpec("orders", 0, "east.orders", "id")
    board.discovered("orders", Discovered((spec,), (), 1, complete=True))
    board.taken_over("orders")
    lane = lane_of("orders", 0, settings.flows[0].lanes)
    board.progress(LaneProgress("orders", lane, (PartitionProgress("orders", 0, 7, 7),)))
    assert board.view()[0].figures.records_lag == 0
    board.lost([("orders", lane)])
    view = board.view()[0]
    assert (view.figures.records_lag, view.lag_at_least, view.figures.lag_unknown_partitions) == (None, 0, 1)
    board.set_untasked({("orders", lane): WithoutTask(42.0, "No such file")})
    ((told, _),) = board.view()[0].conditions
    assert (told.code, told.stops) == ("lane_without_task", True)
    assert f"lane {lane} has no task for 40 s" in told.text
    assert "No such file" in told.text
    board.set_untasked({})
    board.at_work([("orders", lane)])
    assert (board.view()[0].figures.records_lag, board.view()[0].conditions) == (0, ())
