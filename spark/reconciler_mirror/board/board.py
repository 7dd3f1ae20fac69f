"""The driver's state: partitions, progress, conditions, rates. Thread-safe."""

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from reconciler.replication.handover import FlowSettings
from reconciler.replication.records.pauses import Pause, scopes_around
from reconciler.replication.status import CatchUpStatus, GroupSyncStatus
from reconciler_mirror.board import flow_state
from reconciler_mirror.board import unassigned as untasked
from reconciler_mirror.model.lane import (
    Condition,
    Discovered,
    LaneEnd,
    LaneKey,
    LaneProgress,
    LaneReport,
    PartitionSpec,
)
from reconciler_mirror.model.views import FlowView

_SHARE_S = 0.5


class Board:
    """Thread-safe: each method takes the lock, and returns snapshots that later changes leave alone."""

    def __init__(self, flows: tuple[FlowSettings, ...]) -> None:
        self._guard = threading.Lock()
        self._flows = {
            flow.name: flow_state.FlowState(flow, {lane: flow_state.LaneState() for lane in range(flow.lanes)})
            for flow in flows
        }

    def discovered(self, flow: str, discovered: Discovered) -> bool:
        """True if a lane's partitions changed."""
        with self._guard:
            state = self._flows[flow]
            if discovered is state.discovered:
                return False
            state.discovered = discovered
            changed = False
            for lane, specs in discovered.by_lane(state.settings.lanes).items():
                state_of_lane = state.lanes[lane]
                if state_of_lane.specs != specs:
                    state_of_lane.specs, changed = specs, True
                    keys = {(spec.topic, spec.partition) for spec in specs}
                    state_of_lane.partitions = {key: p for key, p in state_of_lane.partitions.items() if key in keys}
                    state_of_lane.counts = {key: c for key, c in state_of_lane.counts.items() if key in keys}
                    state_of_lane.since = {key: since for key, since in state_of_lane.since.items() if key in keys}
                    flow_state.renew_views(state_of_lane)
            return changed

    def discovered_now(self, flow: str) -> Discovered:
        with self._guard:
            return self._flows[flow].discovered

    def specs(self, lane: LaneKey) -> tuple[PartitionSpec, ...]:
        with self._guard:
            return self._flows[lane[0]].lanes[lane[1]].specs

    def set_pauses(self, pauses: Iterable[Pause]) -> None:
        """Sets all present pauses, by state names; ignores pauses of other mirrors' flows."""
        in_order = sorted(pauses, key=lambda pause: pause.scope)
        with self._guard:
            for name, flow in self._flows.items():
                state = flow.settings.state_name
                of_flow = (pause for pause in in_order if pause.scope.flow == state)
                flow.pauses = tuple(replace(pause, scope=replace(pause.scope, flow=name)) for pause in of_flow)

    def paused(self, lane: LaneKey) -> frozenset[tuple[str, int]]:
        """The lane's paused source partitions."""
        with self._guard:
            flow = self._flows[lane[0]]
            if not flow.pauses:
                return frozenset()
            scopes = {pause.scope for pause in flow.pauses}
            return frozenset(
                (spec.topic, spec.partition)
                for spec in flow.lanes[lane[1]].specs
                if not scopes.isdisjoint(scopes_around(lane[0], spec.topic, spec.partition))
            )

    def unpaused(self, flow: str) -> tuple[PartitionSpec, ...]:
        """The flow's partitions without a pause."""
        with self._guard:
            pauses, specs = self._flows[flow].pauses, self._flows[flow].discovered.specs
        return tuple(s for s in specs if not any(pause.scope.covers(s.topic, s.partition) for pause in pauses))

    def taken_over(self, flow: str) -> None:
        with self._guard:
            self._flows[flow].taken = True

    def groups_synced(self, flow: str, synced: GroupSyncStatus, conditions: tuple[Condition, ...]) -> None:
        with self._guard:
            self._flows[flow].groups, self._flows[flow].group_conditions = synced, conditions

    def set_condition(self, flow: str, code: str, condition: Condition | None) -> None:
        """A condition of the flow as a whole, kept until it is set to None."""
        with self._guard:
            if condition is None:
                self._flows[flow].own.pop(code, None)
            else:
                self._flows[flow].own[code] = condition

    def lost(self, lanes: Iterable[LaneKey]) -> None:
        """The lanes have lost their task: from now on their lag is unknown."""
        with self._guard:
            for name, number in lanes:
                self._flows[name].lanes[number].heard_at = float("-inf")

    def at_work(self, lanes: Iterable[LaneKey]) -> None:
        """The lanes' sessions are alive; partitions without a new report are unchanged."""
        with self._guard:
            for name, number in lanes:
                self._flows[name].lanes[number].heard_at = time.monotonic()

    def set_untasked(self, lanes: Mapping[LaneKey, untasked.WithoutTask], without: Collection[LaneKey] = ()) -> None:
        """``lanes``: without a working task for long; ``without``: all lanes without one now."""
        with self._guard:
            for name, flow in self._flows.items():
                gaps_of_flow = {number: gap for (of, number), gap in lanes.items() if of == name}
                for number, lane in flow.lanes.items():
                    lane.untasked = number in gaps_of_flow or (name, number) in without
                    if lane.reported_untasked and not lane.untasked:  # "stalled" is measured from now on
                        lane.since.clear()
                    lane.reported_untasked = number in gaps_of_flow
                for code in untasked.LANE_CODES:
                    flow.own.pop(code, None)
                for silent in {gap.silent for gap in gaps_of_flow.values()}:
                    gaps = {number: gap for number, gap in gaps_of_flow.items() if gap.silent is silent}
                    condition = untasked.condition(gaps, flow_state.last_lag(flow.lanes[number] for number in gaps))
                    flow.own[condition.code] = condition

    def lease_begins(self, lane: LaneKey) -> None:
        """A new lease of the lane counts from 0."""
        with self._guard:
            state_of_lane = self._flows[lane[0]].lanes[lane[1]]
            state_of_lane.lease_rows, state_of_lane.lease = {}, None

    def progress(self, progress: LaneProgress) -> None:
        """Takes a report; partitions that it does not name are unchanged."""
        with self._guard:
            flow_state.take_progress(self._flows[progress.flow].lanes[progress.lane], progress)

    def report(self, report: LaneReport) -> None:
        self.progress(report.progress)
        if report.end in (LaneEnd.STOPPED, LaneEnd.SUPERSEDED):
            with self._guard:
                lane = self._flows[report.progress.flow].lanes[report.progress.lane]
                flow_state.set_conditions(lane, tuple(c for c in lane.conditions if c.stops))

    def measure_loads(self) -> Mapping[LaneKey, float]:
        """The load of each lane: recent bytes, plus a little per partition, so that unknown lanes count as well.

        Recent bytes are those since the last measurement plus half of the load then, so that a lane that was busy last
        week does not hide one that is busy now.
        """
        with self._guard:
            loads: dict[LaneKey, float] = {}
            for name, flow in self._flows.items():
                for number, lane in flow.lanes.items():
                    lane.load, lane.load_bytes = lane.load / 2 + lane.bytes - lane.load_bytes, lane.bytes
                    loads[name, number] = lane.load + 10_000.0 * len(lane.specs)
            return loads

    def set_goal(self, flow: str, ends: Mapping[tuple[str, int], int], undecided: int = 0) -> None:
        """``ends``: source offsets up to which the flow must be copied. ``undecided``: number of later offsets, which
        belong to or follow transactions that were open then."""
        with self._guard:
            self._flows[flow].goal, self._flows[flow].undecided = dict(ends), undecided

    def done(self, flow: str) -> frozenset[tuple[str, int]]:
        """Partitions that have reached their goal."""
        with self._guard:
            return frozenset(
                key for key, offsets_left in flow_state.goal_left(self._flows[flow]).items() if not offsets_left
            )

    def goal_view(self, flow: str) -> CatchUpStatus | None:
        with self._guard:
            return flow_state.goal_view(self._flows[flow])

    def rate_shares(self) -> Mapping[LaneKey, float]:
        """Bytes per second for each lane of flows with a rate limit."""
        now = time.monotonic()
        rate_shares: dict[LaneKey, float] = {}
        with self._guard:
            for name, flow in self._flows.items():
                if flow.settings.rate_limit is None:
                    continue
                demands: dict[int, Demand] = {}
                for number, lane in flow.lanes.items():
                    # Two calls in quick succession give no rate, so at least half the interval must lie in between.
                    if lane.sampled is not None and now - lane.sampled[0] >= _SHARE_S / 2:
                        lane.rate = (lane.bytes - lane.sampled[1]) / (now - lane.sampled[0])
                        lane.sampled = (now, lane.bytes)
                    lane.sampled = lane.sampled or (now, lane.bytes)
                    demands[number] = Demand(lane.rate, lane.lease.held_back if lane.lease is not None else 0)
                given = shares(float(flow.settings.rate_limit), demands)
                rate_shares |= {(name, number): round(rate, 1) for number, rate in given.items()}
        return rate_shares

    def all_run(self) -> bool:
        """Whether every flow is taken over, and both its clusters have answered."""
        with self._guard:
            return all(flow.taken and flow.discovered.complete for flow in self._flows.values())

    def view(self) -> tuple[FlowView, ...]:
        with self._guard:
            return tuple(flow_state.flow_view(flow) for flow in self._flows.values())


ROOM = 1.25
"""A lane that the limit does not hold back gets its own rate times this, so that it may grow."""
FLOOR = 0.02
"""Fraction of an even share that a lane without work keeps, so that it can begin at once."""


@dataclass(frozen=True, slots=True)
class Demand:
    """``rate``: recent bytes per second. ``waiting``: partitions that the limit holds back."""

    rate: float
    waiting: int


def shares(limit: float, demands: Mapping[int, Demand]) -> Mapping[int, float]:
    """Lane -> bytes per second. Lanes that the limit does not hold back keep about their own rate; the others share the
    rest by their waiting partitions."""
    even = limit / max(1, len(demands))
    weight = sum(demand.waiting for demand in demands.values())
    if not weight:
        return dict.fromkeys(demands, even)
    quiet = {lane: max(FLOOR * even, ROOM * demand.rate) for lane, demand in demands.items() if not demand.waiting}
    most = even * len(quiet)  # on average, these lanes take at most an even share each
    scale = min(1.0, most / total) if (total := sum(quiet.values())) else 1.0
    given = {lane: rate * scale for lane, rate in quiet.items()}
    rest = limit - sum(given.values())
    return {lane: given[lane] if lane in given else rest * demand.waiting / weight for lane, demand in demands.items()}
