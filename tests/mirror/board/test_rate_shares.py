"""A flow's rate limit: shares that never exceed it and use it up, a bucket that is smooth and exact over time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reconciler_mirror.board.board import Demand, shares
from reconciler_mirror.lane.produce.throttle import BURST_S, Throttle

DEMANDS = st.dictionaries(
    st.integers(0, 63), st.builds(Demand, st.floats(0, 1e9), st.integers(0, 2000)), min_size=1, max_size=64
)


@given(st.floats(1024, 1e10), DEMANDS)
def test_shares_add_up_to_the_limit_and_no_one_gets_none(limit: float, demands: dict[int, Demand]) -> None:
    found = shares(limit, demands)
    assert found.keys() == demands.keys()
    assert sum(found.values()) <= limit * 1.000001
    assert min(found.values()) > 0
    if any(one.waiting for one in demands.values()):
        assert sum(found.values()) == pytest.approx(limit)


@given(st.floats(1024, 1e10), st.lists(st.integers(1, 50), min_size=2, max_size=8))
def test_lanes_that_wait_share_by_their_waiting_partitions(limit: float, waiting: list[int]) -> None:
    found = shares(limit, {i: Demand(0.0, n) for i, n in enumerate(waiting)})
    assert [found[i] / limit for i in found] == pytest.approx([n / sum(waiting) for n in waiting])


def test_an_idle_lane_leaves_nearly_all_to_the_busy_one() -> None:
    found = shares(1_000_000.0, {0: Demand(500_000, 4), 1: Demand(0.0, 0)})
    assert found[0] >= 985_000


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.floats(1e4, 1e8), st.lists(st.integers(1, 1_000_000), min_size=50, max_size=200))
def test_what_passes_is_the_rate_and_one_piece_at_most(rate: float, sizes: list[int]) -> None:
    clock = Clock()
    bucket = Throttle(lambda: rate, clock)
    passed = 0
    for size in sizes:
        while (delay := bucket.delay()) > 0:
            bucket.hold()
            clock.now += delay
        assert passed <= rate * (clock.now + BURST_S) + 1
        bucket.take(size)
        passed += size
    assert passed - sizes[-1] - max(sizes) <= rate * (clock.now + BURST_S)
    assert bucket.waited_s <= clock.now + 0.01


def test_without_a_limit_nothing_waits() -> None:
    bucket = Throttle(lambda: 0.0)
    bucket.take(10**12)
    assert bucket.delay() == 0.0
    assert not bucket.limited


def test_a_new_share_counts_at_once() -> None:
    clock, rate = Clock(), [1000.0]
    bucket = Throttle(lambda: rate[0], clock)
    bucket.take(10_000)
    assert bucket.delay() == pytest.approx(10.0, rel=0.1)
    rate[0] = 100_000.0
    assert bucket.delay() == pytest.approx(0.1, rel=0.1)
