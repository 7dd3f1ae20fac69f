"""Beside the old application a new one gets as long as something moves, and ends with what it lacked."""

from __future__ import annotations

from reconciler_mirror.driver.driver import AT_MOST_S, STALLED_S, Patience, lacking


def test_progress_has_more_time_and_a_standstill_ends_with_its_reason() -> None:
    now = [0.0]
    patience = Patience(lambda: now[0])
    for step in range(4):
        now[0] += STALLED_S * 0.9
        assert patience.ended(f"flow orders: lane {step}: waiting for a Python worker to start") == ""
    now[0] += STALLED_S + 1
    why = patience.ended("flow orders: lane 3: waiting for a Python worker to start")
    assert f"nothing changed for {STALLED_S + 1:.0f} s" in why
    assert why.endswith("the old application continues. flow orders: lane 3: waiting for a Python worker to start")


def test_what_moves_for_ever_ends_too() -> None:
    now = [0.0]
    patience, words, step = Patience(lambda: now[0]), "", 0
    while not words:
        now[0], step = now[0] + STALLED_S / 2, step + 1
        words = patience.ended(f"lane {step}")
    assert AT_MOST_S < now[0] <= AT_MOST_S + STALLED_S


def test_what_a_flow_lacks_is_said_lane_by_lane_with_its_conditions() -> None:
    lanes = {"waiting for a free core of Spark": (0, 2), "opening connections to both clusters": (1,)}
    assert lacking("orders", lanes, ("lane 1 of orders waits for west: refused",)) == (
        "flow orders: lanes 0, 2: waiting for a free core of Spark; lane 1: opening connections to both "
        "clusters; lane 1 of orders waits for west: refused"
    )
    assert lacking("orders", {}, ()) == "flow orders: its topics and coordinators are looked up"
