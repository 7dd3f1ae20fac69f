"""Lanes that no task works on are never told as caught up: a condition says it, and their lag is unknown."""

from __future__ import annotations

import json

import pytest
from reconciler_mirror.driver.board import Board
from reconciler_mirror.driver.discovery import Discovered
from reconciler_mirror.leases.unassigned import HOPELESS_S, LOST_S, NEVER_S, Untasked
from reconciler_mirror.model import LaneProgress, PartitionProgress, PartitionSpec, lane_of

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


def test_a_lane_that_waits_for_its_first_task_is_told_after_a_minute(untasked: Untasked, clock: Clock) -> None:
    untasked.begins(LANES[:2])
    clock.now += NEVER_S - 1
    assert untasked.lanes() == {}
    clock.now += 1
    assert untasked.lanes() == {LANES[2]: (NEVER_S, "")}
    untasked.begins(LANES[2:])
    assert untasked.lanes() == {}


def test_a_task_that_spark_lost_is_told_with_the_reason_and_counts_from_its_end(
    untasked: Untasked, clock: Clock
) -> None:
    untasked.begins(LANES)
    clock.now += 3600
    untasked.ends(LANES[:1], "No such file")
    clock.now += LOST_S - 1
    untasked.ends(LANES[:1])  # the next one was lost before it began
    assert untasked.lanes() == {}
    clock.now += 1
    assert untasked.lanes() == {LANES[0]: (LOST_S, "No such file")}


def test_there_is_hope_while_one_lane_has_a_task_or_waits_for_room(untasked: Untasked, clock: Clock) -> None:
    untasked.ends(LANES[:2], "No such file")
    clock.now += HOPELESS_S
    assert untasked.hopeless() == ""
    untasked.ends(LANES[2:], "Connection refused")
    assert untasked.hopeless() == "Spark lost every task for 300 s: Connection refused; No such file"
    untasked.begins(LANES[2:])
    assert untasked.hopeless() == ""


def test_the_lag_of_a_lane_without_a_task_is_unknown() -> None:
    settings = parse(json.dumps(handover()))
    board = Board(settings.flows)
    spec = PartitionSpec("orders", 0, "east.orders", "id")
    board.discovered("orders", Discovered((spec,), (), 1, complete=True))
    board.taken_over("orders")
    lane = lane_of("orders", 0, settings.flows[0].lanes)
    board.progress(LaneProgress("orders", lane, (PartitionProgress("orders", 0, 7, 7),)))
    assert board.view()[0].records_lag == 0
    board.set_untasked({("orders", lane): (42.0, "No such file")})
    view = board.view()[0]
    assert view.records_lag is None
    ((condition, _),) = view.conditions
    assert (condition.code, condition.stops) == ("lane_without_task", True)
    assert f"lane {lane} has no task for 40 s" in condition.text
    assert "No such file" in condition.text
    board.set_untasked({})
    assert (board.view()[0].records_lag, board.view()[0].conditions) == (0, ())
