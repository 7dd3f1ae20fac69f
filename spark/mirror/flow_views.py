"""Views of a flow made of what the driver keeps of it. Of partitions that did not change the view is kept as it was."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from mirror.flow_state import FlowState, LaneState, stopped_of
from mirror.lanes import Condition, PartitionProgress
from mirror.latency import NO_LATENCY
from mirror.views import FlowView, GoalView, PartitionView, lag_of, lost_of

_RATE_S = 10.0


def flow_view(flow: FlowState) -> FlowView:
    lanes = flow.lanes.values()
    records, size = sum(lane.records for lane in lanes), sum(lane.bytes for lane in lanes)
    running = flow.taken and flow.discovered.complete
    now = time.time()
    partitions = tuple(part for lane in lanes for part in _partitions(lane, now))
    lag = lag_of(partitions) if running else (None, None)
    latency = NO_LATENCY
    for lane in lanes:
        latency = latency.plus(lane.latency)
    return FlowView(
        flow.settings,
        running,
        flow.discovered.topics,
        partitions,
        records,
        size,
        *_rates(flow.samples, records, size),
        *lag,
        _conditions(flow),
        sum(lane.transactions for lane in lanes),
        sum(lane.retries for lane in lanes),
        latency,
        max((lane.committed_ms for lane in lanes if lane.committed_ms is not None), default=None),
        flow.pauses,
        sum(lane.filtered for lane in lanes),
        sum(lane.returning for lane in lanes),
        flow.groups,
        lost_of(losses for lane in lanes for losses in lane.losses.values()),
        round(sum(lane.throttled_ms for lane in lanes) / 1000, 1),
        goal_view(flow),
    )


def _partitions(lane: LaneState, now: float) -> Iterable[PartitionView]:
    """Made anew only of partitions of which something was told, and of those that lag: their age grows by itself."""
    stopped = stopped_of(lane.conditions)
    outdated, lane.outdated = lane.outdated & lane.views.keys(), set()
    for key in outdated:
        view = lane.views[key] = _partition(lane, key, key in stopped, now)
        if view.records_lag:
            lane.outdated.add(key)
    return lane.views.values()


def _partition(lane: LaneState, key: tuple[str, int], stopped: bool, now: float) -> PartitionView:
    """An age needs the timestamp of a record that is under way; without a task nobody looks at the source."""
    p = lane.partitions.get(key) or PartitionProgress(*key, None, None)
    lag = None if p.position is None or p.end is None or lane.untasked else max(0, p.end - p.position)
    seconds = 0.0 if lag == 0 else None
    if lag and p.waiting_since_ms is not None:
        seconds = max(0.0, round(now - p.waiting_since_ms / 1000, 3))
    how = (p.path or lane.path, p.path_reason or lane.path_reason)
    return PartitionView(*key, *lane.counts.get(key, (0, 0)), lag, seconds, *how, stopped, p.paused)


def _rates(samples: list[tuple[float, int, int]], records: int, size: int) -> tuple[float, float]:
    now = time.monotonic()
    samples.append((now, records, size))
    while len(samples) > 2 and now - samples[1][0] > _RATE_S:
        samples.pop(0)
    began, first_records, first_size = samples[0]
    seconds = now - began
    if seconds < 0.05:
        return 0.0, 0.0
    return round((records - first_records) / seconds, 1), round((size - first_size) / seconds, 1)


def _conditions(flow: FlowState) -> tuple[tuple[Condition, int], ...]:
    """Every condition with the time it was first seen; one that went and came back is new."""
    now = int(time.time() * 1000)
    found = [
        *flow.discovered.conditions,
        *flow.own.values(),
        *flow.group_conditions,
        *(c for lane in flow.lanes.values() for c in lane.conditions),
    ]
    keyed = {(c.code, c.topic, c.partition): c for c in found}
    flow.since = {key: flow.since.get(key, now) for key in keyed}
    return tuple((condition, flow.since[key]) for key, condition in keyed.items())


def goal_left(flow: FlowState) -> Mapping[tuple[str, int], int | None]:
    """Source offsets still to copy; None while the position is not known."""
    places = {key: p.position for lane in flow.lanes.values() for key, p in lane.partitions.items()}
    goal = flow.goal or {}
    return {key: None if (at := places.get(key)) is None else max(0, end - at) for key, end in goal.items()}


def goal_view(flow: FlowState) -> GoalView | None:
    if flow.goal is None:
        return None
    left = goal_left(flow)
    known = None if None in left.values() else sum(offsets or 0 for offsets in left.values())
    return GoalView(len(left), sum(offsets == 0 for offsets in left.values()), known, flow.undecided)
