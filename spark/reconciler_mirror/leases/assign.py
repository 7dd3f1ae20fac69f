"""Assigns lanes to leases, each of which is one Spark task; lanes stay where they are unless a move pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LaneKey = tuple[str, int]

_WORTH_MOVING = 0.25  # of the mean load of a lease
_LEAST = 1e-6  # of a load; what decays towards 0 is never worth a move


@dataclass(frozen=True, slots=True)
class LaneMove:
    lane: LaneKey
    origin: int
    destination: int


def pack(loads: Mapping[LaneKey, float], leases: int) -> Mapping[LaneKey, int]:
    """Heaviest first, each to the lease with the least load (longest processing time first). Deterministic."""
    totals, counts = [0.0] * leases, [0] * leases
    placed: dict[LaneKey, int] = {}
    for lane in sorted(loads, key=lambda key: (-loads[key], key)):
        lease = min(range(leases), key=lambda i: (totals[i], counts[i], i))
        placed[lane] = lease
        totals[lease] += loads[lane]
        counts[lease] += 1
    return placed


def best_move(placed: Mapping[LaneKey, int], loads: Mapping[LaneKey, float], leases: int) -> LaneMove | None:
    """The one lane whose move from the heaviest to the lightest lease evens them out most, if that pays at all."""
    if leases < 2 or not placed:
        return None
    totals = [0.0] * leases
    for lane, lease in placed.items():
        totals[lease] += loads.get(lane, 0.0)
    heavy = max(range(leases), key=lambda i: (totals[i], -i))
    light = min(range(leases), key=lambda i: (totals[i], i))
    gap = totals[heavy] - totals[light]
    candidates = [
        (abs(gap - 2 * loads.get(lane, 0.0)), lane)
        for lane, lease in placed.items()
        if lease == heavy and _LEAST < loads.get(lane, 0.0) < gap
    ]
    if not candidates:
        return None
    rest, lane = min(candidates)
    worth = gap - rest > _WORTH_MOVING * sum(totals) / leases
    return LaneMove(lane, heavy, light) if worth else None
