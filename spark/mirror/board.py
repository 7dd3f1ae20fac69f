"""What the driver knows: partitions, progress, conditions, rates. Thread-safe; ``status`` makes the record of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mirror.discovery import Discovered
from mirror.lanes import Condition, LaneEnd, LaneProgress, LaneReport, PartitionProgress, PartitionSpec
from mirror.latency import NO_LATENCY, Latency
from mirror.losses import Losses, added, since
from mirror.packing import LaneKey
from mirror.rate_shares import Demand, shares
from mirror.settings import FlowSettings
from mirror.views import FlowView, GoalView, GroupsView, PartitionView, lag_of, lost_of
from replication.pauses import Pause

_RATE_S = 10.0
_SHARE_S = 0.5


@dataclass(slots=True)
class _Lane:
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
    views: dict[tuple[str, int], PartitionView] = field(default_factory=dict)
    outdated: set[tuple[str, int]] = field(default_factory=set)


@dataclass(slots=True)
class _Flow:
    settings: FlowSettings
    lanes: dict[int, _Lane]
    discovered: Discovered = Discovered()  # noqa: RUF009  # frozen
    taken: bool = False
    own: dict[str, Condition] = field(default_factory=dict)
    groups: GroupsView | None = None
    group_conditions: tuple[Condition, ...] = ()
    samples: list[tuple[float, int, int]] = field(default_factory=list)
    since: dict[tuple[str, str | None, int | None], int] = field(default_factory=dict)
    pauses: tuple[Pause, ...] = ()
    goal: Mapping[tuple[str, int], int] | None = None


class Board:
    def __init__(self, flows: tuple[FlowSettings, ...]) -> None:
        self._guard = threading.Lock()
        self._flows = {flow.name: _Flow(flow, {lane: _Lane() for lane in range(flow.lanes)}) for flow in flows}

    def discovered(self, flow: str, found: Discovered) -> bool:
        """True when a lane's partitions changed."""
        with self._guard:
            state = self._flows[flow]
            if found is state.discovered:
                return False
            state.discovered = found
            changed = False
            for lane, specs in found.by_lane(state.settings.lanes).items():
                here = state.lanes[lane]
                if here.specs != specs:
                    here.specs, changed = specs, True
                    keys = {(spec.topic, spec.partition) for spec in specs}
                    here.partitions = {key: p for key, p in here.partitions.items() if key in keys}
                    here.counts = {key: c for key, c in here.counts.items() if key in keys}
                    _view_anew(here)
            return changed

    def discovered_now(self, flow: str) -> Discovered:
        with self._guard:
            return self._flows[flow].discovered

    def specs(self, lane: LaneKey) -> tuple[PartitionSpec, ...]:
        with self._guard:
            return self._flows[lane[0]].lanes[lane[1]].specs

    def set_pauses(self, pauses: Iterable[Pause]) -> None:
        """All that are wished now; those of flows that are not ours are left aside."""
        found = sorted(pauses, key=lambda pause: pause.scope)
        with self._guard:
            for name, flow in self._flows.items():
                flow.pauses = tuple(pause for pause in found if pause.scope.flow == name)

    def paused(self, lane: LaneKey) -> frozenset[tuple[str, int]]:
        """The lane's source partitions that a pause covers."""
        with self._guard:
            flow = self._flows[lane[0]]
            if not flow.pauses:
                return frozenset()
            return frozenset(
                (spec.topic, spec.partition)
                for spec in flow.lanes[lane[1]].specs
                if any(pause.scope.covers(spec.topic, spec.partition) for pause in flow.pauses)
            )

    def taken_over(self, flow: str) -> None:
        with self._guard:
            self._flows[flow].taken = True

    def groups_synced(self, flow: str, view: GroupsView, conditions: tuple[Condition, ...]) -> None:
        with self._guard:
            self._flows[flow].groups, self._flows[flow].group_conditions = view, conditions

    def set_condition(self, flow: str, code: str, condition: Condition | None) -> None:
        """A condition of the flow as a whole, kept until it is set to None."""
        with self._guard:
            if condition is None:
                self._flows[flow].own.pop(code, None)
            else:
                self._flows[flow].own[code] = condition

    def lease_begins(self, lane: LaneKey) -> None:
        """The counts of the lease begin at 0 again."""
        with self._guard:
            here = self._flows[lane[0]].lanes[lane[1]]
            here.lease_counts, here.lease = {}, None

    def progress(self, progress: LaneProgress) -> None:
        """Partitions that it does not name are as they were."""
        with self._guard:
            lane = self._flows[progress.flow].lanes[progress.lane]
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
            _set_conditions(lane, progress.conditions)
            if (lane.path, lane.path_reason) != (progress.path, progress.path_reason):
                lane.path, lane.path_reason = progress.path, progress.path_reason
                _view_anew(lane)
            _count(lane, progress)

    def report(self, report: LaneReport) -> None:
        self.progress(report.progress)
        if report.end in (LaneEnd.STOPPED, LaneEnd.SUPERSEDED):
            with self._guard:
                lane = self._flows[report.progress.flow].lanes[report.progress.lane]
                _set_conditions(lane, tuple(c for c in lane.conditions if c.stops))

    def measure_loads(self) -> Mapping[LaneKey, float]:
        """Bytes of late a lane, plus a little for each partition, so that unknown lanes count as well.

        Of late: since it was measured last, and half of what counted then, so that a lane that was hot last week does
        not hide the one that is hot now.
        """
        with self._guard:
            found: dict[LaneKey, float] = {}
            for name, flow in self._flows.items():
                for number, lane in flow.lanes.items():
                    lane.load, lane.load_bytes = lane.load / 2 + lane.bytes - lane.load_bytes, lane.bytes
                    found[name, number] = lane.load + 10_000.0 * len(lane.specs)
            return found

    def set_goal(self, flow: str, ends: Mapping[tuple[str, int], int]) -> None:
        """Source offsets up to which the flow is to be copied."""
        with self._guard:
            self._flows[flow].goal = dict(ends)

    def done(self, flow: str) -> frozenset[tuple[str, int]]:
        """Partitions that are copied up to their goal."""
        with self._guard:
            return frozenset(key for key, left in _goal_left(self._flows[flow]).items() if not left)

    def goal_view(self, flow: str) -> GoalView | None:
        with self._guard:
            return _goal_view(self._flows[flow])

    def rate_shares(self) -> Mapping[LaneKey, float]:
        """Bytes per second for each lane of the flows that have a limit."""
        now = time.monotonic()
        found: dict[LaneKey, float] = {}
        with self._guard:
            for name, flow in self._flows.items():
                if flow.settings.rate_limit is None:
                    continue
                demands = {number: _demand(lane, now) for number, lane in flow.lanes.items()}
                given = shares(float(flow.settings.rate_limit), demands)
                found |= {(name, number): round(rate, 1) for number, rate in given.items()}
        return found

    def all_run(self) -> bool:
        """Every flow is taken over and both its clusters have answered."""
        with self._guard:
            return all(flow.taken and flow.discovered.complete for flow in self._flows.values())

    def view(self) -> tuple[FlowView, ...]:
        with self._guard:
            return tuple(_view(flow) for flow in self._flows.values())


def _waiting_since(before: PartitionProgress | None, now: PartitionProgress) -> PartitionProgress:
    """A later lease does not know since when a paused partition waits."""
    if before is None or not (before.paused and now.paused) or before.position != now.position:
        return now
    known = [since for since in (before.waiting_since_ms, now.waiting_since_ms) if since is not None]
    return replace(now, waiting_since_ms=min(known)) if known and now.waiting_since_ms is not None else now


def _goal_left(flow: _Flow) -> Mapping[tuple[str, int], int | None]:
    """Source offsets still to copy; None while the position is not known."""
    places = {key: p.position for lane in flow.lanes.values() for key, p in lane.partitions.items()}
    goal = flow.goal or {}
    return {key: None if (at := places.get(key)) is None else max(0, end - at) for key, end in goal.items()}


def _goal_view(flow: _Flow) -> GoalView | None:
    if flow.goal is None:
        return None
    left = _goal_left(flow)
    known = None if None in left.values() else sum(offsets or 0 for offsets in left.values())
    return GoalView(len(left), sum(offsets == 0 for offsets in left.values()), known)


def _demand(lane: _Lane, now: float) -> Demand:
    if lane.sampled is not None and now - lane.sampled[0] >= _SHARE_S / 2:
        lane.rate = (lane.bytes - lane.sampled[1]) / (now - lane.sampled[0])
        lane.sampled = (now, lane.bytes)
    lane.sampled = lane.sampled or (now, lane.bytes)
    return Demand(lane.rate, lane.lease.held_back if lane.lease is not None else 0)


def _count(lane: _Lane, progress: LaneProgress) -> None:
    """Adds what is new since the lease spoke last; a snapshot that was overtaken by a later one adds nothing."""
    before = lane.lease or LaneProgress(progress.flow, progress.lane, ())
    if progress.transactions < before.transactions or progress.latency.count < before.latency.count:
        return
    lane.transactions += progress.transactions - before.transactions
    lane.retries += max(0, progress.retries - before.retries)
    lane.throttled_ms += max(0, progress.throttled_ms - before.throttled_ms)
    lane.latency = lane.latency.plus(progress.latency.since(before.latency))
    lane.lease = progress


def _view(flow: _Flow) -> FlowView:
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
        _goal_view(flow),
    )


def _view_anew(lane: _Lane) -> None:
    """In the order of its partitions."""
    keys = [(spec.topic, spec.partition) for spec in lane.specs]
    lane.views = {key: lane.views.get(key) or PartitionView(*key) for key in keys}
    lane.outdated.update(keys)


def _set_conditions(lane: _Lane, conditions: tuple[Condition, ...]) -> None:
    if conditions != lane.conditions:
        lane.outdated |= _stopped(lane.conditions) ^ _stopped(conditions)
        lane.conditions = conditions


def _stopped(conditions: Iterable[Condition]) -> set[tuple[str, int]]:
    return {(c.topic, c.partition) for c in conditions if c.stops and c.topic is not None and c.partition is not None}


def _partitions(lane: _Lane, now: float) -> Iterable[PartitionView]:
    """Made anew only of partitions of which something was told, and of those that lag: their age grows by itself."""
    stopped = _stopped(lane.conditions)
    outdated, lane.outdated = lane.outdated & lane.views.keys(), set()
    for key in outdated:
        view = lane.views[key] = _partition(lane, key, key in stopped, now)
        if view.records_lag:
            lane.outdated.add(key)
    return lane.views.values()


def _partition(lane: _Lane, key: tuple[str, int], stopped: bool, now: float) -> PartitionView:
    """An age needs the timestamp of a record that is under way."""
    p = lane.partitions.get(key) or PartitionProgress(*key, None, None)
    lag = None if p.position is None or p.end is None else max(0, p.end - p.position)
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


def _conditions(flow: _Flow) -> tuple[tuple[Condition, int], ...]:
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
