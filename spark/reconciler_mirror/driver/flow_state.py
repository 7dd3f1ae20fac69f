"""The state of one flow and of its lanes in the driver, updated by reports of leases, and its view.

Views of partitions of which nothing was told since are kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from reconciler.replication.handover import FlowSettings
from reconciler.replication.pauses import Pause
from reconciler_mirror.driver.discovery import Discovered
from reconciler_mirror.driver.views import FlowView, GoalView, GroupsView, PartitionView, lag_of, lost_of
from reconciler_mirror.model import Condition, LaneProgress, PartitionProgress, PartitionSpec
from reconciler_mirror.report.latency import NO_LATENCY, Latency
from reconciler_mirror.report.losses import Losses, added, since

_RATE_S = 10.0


@dataclass(slots=True)
class LaneState:
    """``lease_counts`` and ``lease`` are what the running lease told last; the others are sums over all leases."""

    specs: tuple[PartitionSpec, ...] = ()
    partitions: dict[tuple[str, int], PartitionProgress] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    lease_counts: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    lease: LaneProgress | None = None
    counts: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    records: int = 0
    bytes: int = 0
    load: float = 0.0
    load_bytes: int = 0
    filtered: int = 0
    returning: int = 0
    losses: dict[tuple[str, int], Losses] = field(default_factory=dict)
    throttled_ms: int = 0
    rate: float = 0.0
    sampled: tuple[float, int] | None = None
    transactions: int = 0
    retries: int = 0
    latency: Latency = NO_LATENCY
    committed_ms: int | None = None
    path: str = "record"
    path_reason: str = ""
    untasked: bool = False
    views: dict[tuple[str, int], PartitionView] = field(default_factory=dict)
    outdated: set[tuple[str, int]] = field(default_factory=set)


@dataclass(slots=True)
class FlowState:
    settings: FlowSettings
    lanes: dict[int, LaneState]
    discovered: Discovered = Discovered()  # noqa: RUF009  # frozen
    taken: bool = False
    own: dict[str, Condition] = field(default_factory=dict)
    groups: GroupsView | None = None
    group_conditions: tuple[Condition, ...] = ()
    samples: list[tuple[float, int, int]] = field(default_factory=list)
    since: dict[tuple[str, str | None, int | None], int] = field(default_factory=dict)
    pauses: tuple[Pause, ...] = ()
    goal: Mapping[tuple[str, int], int] | None = None
    undecided: int = 0


def take_progress(lane: LaneState, progress: LaneProgress) -> None:
    """Partitions that it does not name are as they were."""
    for p in progress.partitions:
        key = (p.topic, p.partition)
        records, size = lane.lease_counts.get(key, (0, 0))
        more_records, more_bytes = max(0, p.records - records), max(0, p.bytes - size)
        copied, copied_bytes = lane.counts.get(key, (0, 0))
        lane.counts[key] = (copied + more_records, copied_bytes + more_bytes)
        lane.records += more_records
        lane.bytes += more_bytes
        if more_records:
            lane.committed_ms = int(time.time() * 1000)
        before = lane.partitions.get(key) if key in lane.lease_counts else None
        lane.filtered += max(0, p.filtered - (before.filtered if before else 0))
        lane.returning += max(0, p.returning - (before.returning if before else 0))
        if lost := since(p.losses, before.losses if before else ()):
            lane.losses[key] = added(lane.losses.get(key, ()), lost)
        lane.lease_counts[key] = (max(records, p.records), max(size, p.bytes))
        lane.partitions[key] = _waiting_since(lane.partitions.get(key), p)
        lane.outdated.add(key)
    set_conditions(lane, progress.conditions)
    if (lane.path, lane.path_reason) != (progress.path, progress.path_reason):
        lane.path, lane.path_reason = progress.path, progress.path_reason
        view_anew(lane)
    _count(lane, progress)


def _waiting_since(before: PartitionProgress | None, now: PartitionProgress) -> PartitionProgress:
    """A later lease does not know since when a paused partition waits."""
    if before is None or not (before.paused and now.paused) or before.position != now.position:
        return now
    known = [since for since in (before.waiting_since_ms, now.waiting_since_ms) if since is not None]
    return replace(now, waiting_since_ms=min(known)) if known and now.waiting_since_ms is not None else now


def _count(lane: LaneState, progress: LaneProgress) -> None:
    """Adds what is new since the lease spoke last; a snapshot that was overtaken by a later one adds nothing."""
    before = lane.lease or LaneProgress(progress.flow, progress.lane, ())
    if progress.transactions < before.transactions or progress.latency.count < before.latency.count:
        return
    lane.transactions += progress.transactions - before.transactions
    lane.retries += max(0, progress.retries - before.retries)
    lane.throttled_ms += max(0, progress.throttled_ms - before.throttled_ms)
    lane.latency = lane.latency.plus(progress.latency.since(before.latency))
    lane.lease = progress


def view_anew(lane: LaneState) -> None:
    """In the order of its partitions."""
    keys = [(spec.topic, spec.partition) for spec in lane.specs]
    lane.views = {key: lane.views.get(key) or PartitionView(*key) for key in keys}
    lane.outdated.update(keys)


def set_conditions(lane: LaneState, conditions: tuple[Condition, ...]) -> None:
    if conditions != lane.conditions:
        lane.outdated |= stopped_of(lane.conditions) ^ stopped_of(conditions)
        lane.conditions = conditions


def stopped_of(conditions: Iterable[Condition]) -> set[tuple[str, int]]:
    return {(c.topic, c.partition) for c in conditions if c.stops and c.topic is not None and c.partition is not None}


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
        None if flow.settings.where is None else sum(lane.filtered for lane in lanes),
        None if flow.settings.provenance is None else sum(lane.returning for lane in lanes),
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
    conditions = [
        *flow.discovered.conditions,
        *flow.own.values(),
        *flow.group_conditions,
        *(c for lane in flow.lanes.values() for c in lane.conditions),
    ]
    keyed = {(c.code, c.topic, c.partition): c for c in conditions}
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
    offsets_left = goal_left(flow)
    known = None if None in offsets_left.values() else sum(offsets or 0 for offsets in offsets_left.values())
    return GoalView(len(offsets_left), sum(offsets == 0 for offsets in offsets_left.values()), known, flow.undecided)
