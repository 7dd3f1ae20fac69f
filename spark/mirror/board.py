"""What the driver knows: partitions, progress, conditions, rates. Thread-safe; ``status`` makes the record of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror.discovery import Discovered
from mirror.lanes import Condition, LaneEnd, LaneProgress, LaneReport, PartitionProgress, PartitionSpec
from mirror.packing import LaneKey
from mirror.settings import FlowSettings

_RATE_S = 10.0


@dataclass(slots=True)
class _Lane:
    specs: tuple[PartitionSpec, ...] = ()
    partitions: dict[tuple[str, int], PartitionProgress] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    lease_counts: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    records: int = 0
    bytes: int = 0
    paths: str = "record"


@dataclass(slots=True)
class _Flow:
    settings: FlowSettings
    lanes: dict[int, _Lane]
    discovered: Discovered = Discovered()  # noqa: RUF009  # frozen
    taken: bool = False
    own: dict[str, Condition] = field(default_factory=dict)
    samples: list[tuple[float, int, int]] = field(default_factory=list)
    since: dict[tuple[str, str | None, int | None], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlowView:
    """One flow as the status record shows it. ``records_lag`` and ``seconds_lag`` are None while not known."""

    settings: FlowSettings
    running: bool
    topics: int
    partitions: int
    records_total: int
    records_per_second: float
    bytes_per_second: float
    records_lag: int | None
    seconds_lag: float | None
    conditions: tuple[tuple[Condition, int], ...]


class Board:
    def __init__(self, flows: tuple[FlowSettings, ...]) -> None:
        self._guard = threading.Lock()
        self._flows = {flow.name: _Flow(flow, {lane: _Lane() for lane in range(flow.lanes)}) for flow in flows}

    def discovered(self, flow: str, found: Discovered) -> bool:
        """True when a lane's partitions changed."""
        with self._guard:
            state = self._flows[flow]
            state.discovered = found
            changed = False
            for lane, specs in found.by_lane(state.settings.lanes).items():
                here = state.lanes[lane]
                if here.specs != specs:
                    here.specs, changed = specs, True
                    keys = {(spec.topic, spec.partition) for spec in specs}
                    here.partitions = {key: p for key, p in here.partitions.items() if key in keys}
            return changed

    def discovered_now(self, flow: str) -> Discovered:
        with self._guard:
            return self._flows[flow].discovered

    def specs(self, lane: LaneKey) -> tuple[PartitionSpec, ...]:
        with self._guard:
            return self._flows[lane[0]].lanes[lane[1]].specs

    def taken_over(self, flow: str) -> None:
        with self._guard:
            self._flows[flow].taken = True

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
            self._flows[lane[0]].lanes[lane[1]].lease_counts = {}

    def progress(self, progress: LaneProgress) -> None:
        with self._guard:
            lane = self._flows[progress.flow].lanes[progress.lane]
            for p in progress.partitions:
                key = (p.topic, p.partition)
                records, size = lane.lease_counts.get(key, (0, 0))
                lane.records += max(0, p.records - records)
                lane.bytes += max(0, p.bytes - size)
                lane.lease_counts[key] = (max(records, p.records), max(size, p.bytes))
                lane.partitions[key] = p
            lane.conditions = progress.conditions

    def report(self, report: LaneReport) -> None:
        self.progress(report.progress)
        if report.end in (LaneEnd.STOPPED, LaneEnd.SUPERSEDED):
            with self._guard:
                lane = self._flows[report.progress.flow].lanes[report.progress.lane]
                lane.conditions = tuple(c for c in lane.conditions if c.stops)

    def loads(self) -> Mapping[LaneKey, float]:
        """Bytes copied so far a lane, plus a little for each partition, so that unknown lanes count as well."""
        with self._guard:
            return {
                (name, number): lane.bytes + 10_000.0 * len(lane.specs)
                for name, flow in self._flows.items()
                for number, lane in flow.lanes.items()
            }

    def view(self) -> tuple[FlowView, ...]:
        with self._guard:
            return tuple(_view(flow) for flow in self._flows.values())


def _view(flow: _Flow) -> FlowView:
    lanes = flow.lanes.values()
    records, size = sum(lane.records for lane in lanes), sum(lane.bytes for lane in lanes)
    rates = _rates(flow.samples, records, size)
    lag, seconds = _lag(flow)
    return FlowView(
        flow.settings,
        flow.taken and flow.discovered.complete,
        flow.discovered.topics,
        len(flow.discovered.specs),
        records,
        *rates,
        lag,
        seconds,
        _conditions(flow),
    )


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


def _lag(flow: _Flow) -> tuple[int | None, float | None]:
    """Unknown while one partition is unknown; an age needs the timestamp of a record that is under way."""
    if not (flow.taken and flow.discovered.complete):
        return None, None
    lag, oldest = 0, None
    for lane in flow.lanes.values():
        stopped = {(c.topic, c.partition) for c in lane.conditions if c.stops}
        for spec in lane.specs:
            key = (spec.topic, spec.partition)
            p = lane.partitions.get(key)
            if p is None or p.position is None or p.end is None:
                if key in stopped:
                    continue  # its condition says so
                return None, None
            lag += max(0, p.end - p.position)
            if p.end > p.position and p.waiting_since_ms is not None:
                oldest = p.waiting_since_ms if oldest is None else min(oldest, p.waiting_since_ms)
    if lag == 0:
        return 0, 0.0
    return lag, None if oldest is None else max(0.0, round(time.time() - oldest / 1000, 3))


def _conditions(flow: _Flow) -> tuple[tuple[Condition, int], ...]:
    """Every condition with the time it was first seen; one that went and came back is new."""
    now = int(time.time() * 1000)
    found = [
        *flow.discovered.conditions,
        *flow.own.values(),
        *(c for lane in flow.lanes.values() for c in lane.conditions),
    ]
    keyed = {(c.code, c.topic, c.partition): c for c in found}
    flow.since = {key: flow.since.get(key, now) for key in keyed}
    return tuple((condition, flow.since[key]) for key, condition in keyed.items())
