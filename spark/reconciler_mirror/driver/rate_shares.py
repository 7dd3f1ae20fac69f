"""Shares the rate limit of a flow between its lanes, by partitions that have a backlog.

Lanes in other tasks, perhaps on other machines, cannot share one bucket; the driver deals out shares by what each lane
reported last. The shares never add up to more than the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ROOM = 1.25
"""A lane that is not held back gets this much of its own rate, so that it may grow."""
FLOOR = 0.02
"""Of an even share: what a lane without work keeps, so that it can begin at once."""


@dataclass(frozen=True, slots=True)
class Demand:
    """``rate``: bytes per second of late. ``waiting``: partitions that had to wait for the limit."""

    rate: float
    waiting: int


def shares(limit: float, demands: Mapping[int, Demand]) -> Mapping[int, float]:
    """Lane -> bytes per second."""
    even = limit / max(1, len(demands))
    weight = sum(demand.waiting for demand in demands.values())
    if not weight:
        return dict.fromkeys(demands, even)
    quiet = {lane: max(FLOOR * even, ROOM * demand.rate) for lane, demand in demands.items() if not demand.waiting}
    most = even * len(quiet)  # those who do not wait never take more than an even share together
    scale = min(1.0, most / total) if (total := sum(quiet.values())) else 1.0
    given = {lane: rate * scale for lane, rate in quiet.items()}
    rest = limit - sum(given.values())
    return {lane: given[lane] if lane in given else rest * demand.waiting / weight for lane, demand in demands.items()}
