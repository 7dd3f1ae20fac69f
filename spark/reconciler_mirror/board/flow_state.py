"""The state of one flow in the driver: lag, oldest unread record, rates and lanes, updated by reports of leases.

Partitions without a new report keep their views.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from reconciler.replication import status
from reconciler.replication.handover import FlowSettings
from reconciler.replication.names import LAG_HOLDS_MS
from reconciler.replication.records.pauses import Pause
from reconciler_mirror.board.unassigned import LANE_CODES
from reconciler_mirror.conditions.flow import STALLED_S, partitions_stalled
from reconciler_mirror.model.counters import NO_LATENCY, HoleCounts, Latency, Losses, added, since
from reconciler_mirror.model.lane import (
    OF_A_READ,
    Condition,
    Discovered,
    LaneProgress,
    PartitionProgress,
    PartitionSpec,
)
from reconciler_mirror.model.views import FlowView, PartitionView, lag_of, last_lag_of, lost_of

_RATE_S = 10.0
SILENT_S = 10.0
"""Seconds after which a lane's last report no longer counts; its lease sends a sign of life every two seconds."""


@dataclass(frozen=True, slots=True)
class FillSamples:
    """``steps``: monotonic times and numbers of offsets left to fill, at each change; the newest last. A transaction of
    fillers may take longer than the window on a busy machine, so the last two steps are always kept."""

    steps: tuple[tuple[float, int], ...] = ()

    def seen(self, now: float, left: int) -> FillSamples:
        """With the number ``left`` at ``now``. A higher number comes from a lane's first report or a new partition, and
        is no progress: the samples begin there. With nothing left there are no samples."""
        if not left:
            return FillSamples()
        if not self.steps or left > self.steps[-1][1]:
            return FillSamples(((now, left),))
        steps = self.steps if left == self.steps[-1][1] else (*self.steps, (now, left))
        while len(steps) > 2 and now - steps[1][0] > _RATE_S:
            steps = steps[1:]
        return FillSamples(steps)

    def per_second(self, now: float) -> float:
        """Filled offsets per second; 0 before the first step."""
        if len(self.steps) < 2:
            return 0.0
        (began, first), (_, left) = self.steps[0], self.steps[-1]
        return round((first - left) / max(now - began, 0.05), 1)


@dataclass(slots=True)
class LaneState:
    """What the driver knows of one lane. A lane outlives its leases: ``lease`` has the counts of the running one, the
    other fields the sums over all of them."""

    specs: tuple[PartitionSpec, ...] = ()
    """Its partitions, by the last discovery."""
    partitions: dict[tuple[str, int], PartitionProgress] = field(default_factory=dict)
    """The newest row of each partition, by source topic and number."""
    conditions: tuple[Condition, ...] = ()
    """Conditions of the running lease, about the lane or its partitions."""
    lease_rows: dict[tuple[str, int], PartitionProgress] = field(default_factory=dict)
    """By partition, the row of the running lease with the largest counts; a report's excess is added to the sums.
    Partitions that have left stay: they may come back, and count on then."""
    lease: LaneProgress | None = None
    """The running lease's last report; None before the first."""
    counts: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """Records and bytes over all leases."""
    records: int = 0
    bytes: int = 0
    load: float = 0.0
    """Recent bytes: each measurement halves the former load. Lanes are placed on tasks by it."""
    load_bytes: int = 0
    """``bytes`` at the last measurement of ``load``."""
    filtered: int = 0
    returning: int = 0
    losses: dict[tuple[str, int], Losses] = field(default_factory=dict)
    """By partition, over all leases."""
    throttled_ms: int = 0
    rate: float = 0.0
    """Bytes per second between the last two measurements; lanes get shares of the flow's limit by it."""
    sampled: tuple[float, int] | None = None
    """Monotonic time of the last measurement of ``rate``, and ``bytes`` then."""
    transactions: int = 0
    retries: int = 0
    holes: HoleCounts = HoleCounts()  # noqa: RUF009  # frozen
    latency: Latency = NO_LATENCY
    committed_ms: int | None = None
    """When a report last had a new commit, since 1970."""
    untasked: bool = False
    """The lane has no task now."""
    reported_untasked: bool = False
    """That has lasted long enough for a condition."""
    heard_at: float = 0.0
    """When a session of the lane was last known to be alive, monotonic."""
    known: bool = False
    """``heard_at`` was recent enough when the views were last made."""
    looked_ms: int = 0
    """When the views were last made, since 1970."""
    since: dict[tuple[str, int], tuple[int | None, float]] = field(default_factory=dict)
    """Position, and since when it has not moved, of partitions that have records to copy, or may have."""
    views: dict[tuple[str, int], PartitionView] = field(default_factory=dict)
    outdated: set[tuple[str, int]] = field(default_factory=set)
    """Keys of ``views`` to make again."""


@dataclass(slots=True)
class FlowState:
    """What the driver knows of one flow; ``flow_view`` makes the view for status and metrics."""

    settings: FlowSettings
    lanes: dict[int, LaneState]
    discovered: Discovered = Discovered()  # noqa: RUF009  # frozen
    taken: bool = False
    """This application has taken the flow over, so its lanes may begin."""
    own: dict[str, Condition] = field(default_factory=dict)
    """Conditions of the flow as a whole, by code."""
    groups: status.GroupSyncStatus | None = None
    """None before the first round of group sync."""
    group_conditions: tuple[Condition, ...] = ()
    samples: list[tuple[float, int, int]] = field(default_factory=list)
    """Samples for rates: monotonic time, records and bytes copied by then."""
    filling: FillSamples = field(default_factory=FillSamples)
    since: dict[tuple[str, str | None, int | None], int] = field(default_factory=dict)
    pauses: tuple[Pause, ...] = ()
    goal: Mapping[tuple[str, int], int] | None = None
    """Source offsets up to which a cut-over or drill wants the flow copied."""
    undecided: int = 0
    """Number of offsets after ``goal`` that belong to or follow transactions open at that time."""
    last_lag: status.LastLag | None = None
    """The last known lag, kept while the lag is unknown."""


def take_progress(lane: LaneState, progress: LaneProgress) -> None:
    """Adds a lane's report; partitions that it does not name are unchanged."""
    if progress.at_work:
        lane.heard_at = time.monotonic()
    for p in progress.partitions:
        key = (p.topic, p.partition)
        # A report has totals of its lease: the excess over the last one is new, and a lower total is an older report.
        before = lane.lease_rows.get(key) or PartitionProgress(*key, None, None)
        lane.lease_rows[key] = max(p, before, key=lambda row: row.records + row.filtered + row.returning)
        more_records, more_bytes = max(0, p.records - before.records), max(0, p.bytes - before.bytes)
        copied, copied_bytes = lane.counts.get(key, (0, 0))
        lane.counts[key] = (copied + more_records, copied_bytes + more_bytes)
        lane.records += more_records
        lane.bytes += more_bytes
        if more_records:
            lane.committed_ms = int(time.time() * 1000)
        lane.filtered += max(0, p.filtered - before.filtered)
        lane.returning += max(0, p.returning - before.returning)
        if lost := since(p.losses, before.losses):
            lane.losses[key] = added(lane.losses.get(key, ()), lost)
        # A new lease does not know since when records of a paused partition wait, but the former row does.
        former = lane.partitions.get(key)
        if former is not None and former.paused and p.paused and former.position == p.position:
            since_ms = [ms for ms in (former.waiting_since_ms, p.waiting_since_ms) if ms is not None]
            p = replace(p, waiting_since_ms=min(since_ms)) if p.waiting_since_ms is not None else p
        lane.partitions[key] = p
        lane.outdated.add(key)
    if progress.at_work or progress.conditions:  # between two sessions the former conditions still hold
        set_conditions(lane, progress.conditions)
    # Adds the counts since the lease's last report; a snapshot that a later one has overtaken adds nothing.
    last = lane.lease or LaneProgress(progress.flow, progress.lane, ())
    if progress.transactions < last.transactions or progress.latency.count < last.latency.count:
        return
    lane.transactions += progress.transactions - last.transactions
    lane.retries += max(0, progress.retries - last.retries)
    lane.throttled_ms += max(0, progress.throttled_ms - last.throttled_ms)
    if progress.holes is not None:
        lane.holes = progress.holes.since(last.holes or HoleCounts()).plus(lane.holes)
    lane.latency = lane.latency.plus(progress.latency.since(last.latency))
    lane.lease = progress


def last_lag(lanes: Iterable[LaneState]) -> int | None:
    """The lag by the lanes' last reports; None if they never reported one."""
    rows = [p for lane in lanes for p in lane.partitions.values()]
    known = [max(0, p.end - p.position) for p in rows if p.end is not None and p.position is not None]
    return sum(known) if known else None


def renew_views(lane: LaneState) -> None:
    """Orders the views by the lane's partitions, and has all of them made again."""
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
    """The view of a flow for status record and metrics: its partitions, the sums over them, and its conditions."""
    lanes = flow.lanes.values()
    records, size = sum(lane.records for lane in lanes), sum(lane.bytes for lane in lanes)
    running = flow.taken and flow.discovered.complete
    partitions = tuple(part for lane in lanes for part in _partitions(lane, time.monotonic()))
    # The lag is unknown as soon as one part is: a partition without a lane, or a failed listing, must not make the sum
    # look small. The known parts go into ``records_lag_at_least`` and the last lag.
    uncopied = sum(flow.discovered.uncopied.values())
    listed = bool(partitions) or not any(c.code in OF_A_READ for c in flow.discovered.conditions)
    lag = lag_of(partitions) if running and listed and not uncopied else (None, None)
    now_ms = int(time.time() * 1000)
    if lag[0] is not None:
        flow.last_lag = status.LastLag(lag[0], now_ms - LAG_HOLDS_MS)
    elif partitions:
        flow.last_lag = last_lag_of(partitions, now_ms, uncopied) or flow.last_lag
    latency = NO_LATENCY
    for lane in lanes:
        latency = latency.plus(lane.latency)
    settings = flow.settings
    # Partitions without a lane have no view, so they are added to the counts: nothing copies them.
    at_least = sum(p.at_least for p in partitions)
    unknown = sum(p.records_lag is None for p in partitions) + uncopied
    stalled = sum(p.stalled for p in partitions) + uncopied
    records_per_second, bytes_per_second = _rates(flow.samples, records, size)
    ages = [p.seconds_lag for p in partitions]
    oldest = None if None in ages else max((age for age in ages if age is not None), default=0.0)
    figures = status.FlowStatus(
        settings.name,
        settings.fingerprint,
        topics=flow.discovered.topics,
        partitions=len(partitions),
        records_total=records,
        records_per_second=records_per_second,
        bytes_per_second=bytes_per_second,
        records_lag=lag[0],
        seconds_lag=lag[1],
        transactions=sum(lane.transactions for lane in lanes),
        retries=sum(lane.retries for lane in lanes),
        filtered=None if settings.where is None else sum(lane.filtered for lane in lanes),
        returning=None if settings.provenance is None else sum(lane.returning for lane in lanes),
        groups=flow.groups,
        lost=lost_of(losses for lane in lanes for losses in lane.losses.values()),
        rate_limit=settings.rate_limit,
        throttled_seconds=None
        if settings.rate_limit is None
        else round(sum(lane.throttled_ms for lane in lanes) / 1000, 1),
        catch_up=goal_view(flow),
        records_lag_at_least=at_least if lag[0] is None else lag[0],
        lag_unknown_partitions=unknown,
        stalled_partitions=stalled,
        same_offsets=_same_offsets(flow) if settings.keeps_offsets else None,
        last_lag=flow.last_lag if lag[0] is None else None,
        lanes=settings.lanes,
        oldest_unread_seconds=None if lag[0] is None else oldest,
    )
    committed = max((lane.committed_ms for lane in lanes if lane.committed_ms is not None), default=None)
    conditions = _conditions(flow, partitions)
    return FlowView(settings, running, partitions, figures, conditions, size, at_least, latency, committed, flow.pauses)


def _same_offsets(flow: FlowState) -> status.SameOffsetsStatus:
    """Sums over the flow's lanes. The rate of filling comes from the shrinking number of offsets left, because each
    lease counts from 0. ``filling`` is None while no hole is being filled."""
    counts = [lane.holes for lane in flow.lanes.values()]
    left, partitions = sum(count.left for count in counts), sum(count.filling for count in counts)
    now = time.monotonic()
    flow.filling = flow.filling.seen(now, left)
    return status.SameOffsetsStatus(
        sum(count.holes for count in counts),
        sum(count.fillers for count in counts),
        sum(count.refusals for count in counts),
        status.Filling(partitions, left, flow.filling.per_second(now)) if partitions else None,
    )


def _partitions(lane: LaneState, now: float) -> Iterable[PartitionView]:
    """The partitions' views. Makes new ones only for partitions with a new report, and for those that lag, or may,
    because their age grows by itself. ``now``: monotonic."""
    known = now - lane.heard_at <= SILENT_S
    if known is not lane.known:
        lane.known = known
        renew_views(lane)
    stopped = stopped_of(lane.conditions)
    looked_ms, lane.looked_ms = lane.looked_ms, int(time.time() * 1000)
    outdated, lane.outdated = lane.outdated & lane.views.keys(), set()
    for key in outdated:
        p = lane.partitions.get(key) or PartitionProgress(*key, None, None)
        # The last report of a silent lane is no lower bound of its lag: the lane may have copied more since.
        at_least = 0 if p.position is None or p.end is None or not lane.known else max(0, p.end - p.position)
        unknown = p.position is None or p.end is None or not lane.known or p.silent_since_ms is not None
        lag = None if unknown else at_least
        # The age is known only from a fetched record with a timestamp.
        seconds = 0.0 if lag == 0 else None
        if lag and p.waiting_since_ms is not None and p.waiting_since_ms >= 0:
            seconds = max(0.0, round(time.time() - p.waiting_since_ms / 1000, 3))
        # Stalled: the position has not moved for ``STALLED_S`` with records to copy. A rate limit that holds the lane
        # back restarts that time.
        stalled = False
        if lag == 0 or p.paused:
            lane.since.pop(key, None)
        else:
            began = lane.since.get(key)
            if began is None or began[0] != p.position or (lane.lease is not None and lane.lease.held_back):
                began = lane.since[key] = (p.position, now)
            stalled = now - began[1] >= STALLED_S or key in stopped
        counts, how = lane.counts.get(key, (0, 0)), (p.path, p.path_reason)
        # The lag that was last known stays in the view with its time, however long the lag is unknown from now on.
        before, last = lane.views[key], None
        if lag is None:
            last = before.last_lag
            if before.records_lag is not None:
                last = (before.records_lag, looked_ms - LAG_HOLDS_MS)
        lane.views[key] = PartitionView(
            *key, *counts, lag, seconds, *how, key in stopped, p.paused, at_least, stalled, last
        )
        if lag != 0:
            lane.outdated.add(key)
    return lane.views.values()


def _rates(samples: list[tuple[float, int, int]], records: int, size: int) -> tuple[float, float]:
    """Records and bytes per second over the last ``_RATE_S`` seconds; appends a sample. Keeps one sample from before
    that time, so that rare reports still give two to compare. 0.0 over less than 50 ms, because the clock's steps would
    look like bursts."""
    now = time.monotonic()
    samples.append((now, records, size))
    while len(samples) > 2 and now - samples[1][0] > _RATE_S:
        samples.pop(0)
    began, first_records, first_size = samples[0]
    seconds = now - began
    if seconds < 0.05:
        return 0.0, 0.0
    return round((records - first_records) / seconds, 1), round((size - first_size) / seconds, 1)


def _conditions(flow: FlowState, partitions: Iterable[PartitionView]) -> tuple[tuple[Condition, int], ...]:
    """Every condition with the time it was first seen; one that ended and came back is new."""
    now = int(time.time() * 1000)
    conditions = [
        *flow.discovered.conditions,
        *flow.own.values(),
        *flow.group_conditions,
        *(c for lane in flow.lanes.values() for c in lane.conditions),
    ]
    # Stalled partitions without any other explanation get a condition of their own, one per topic.
    stalled = [p for p in partitions if p.stalled and not p.stopped]
    whole = [*flow.discovered.conditions, *(c for c in flow.own.values() if c.code not in LANE_CODES)]
    if stalled and all(c.topic is not None for c in whole):
        named = {(c.topic, c.partition) for c in conditions if c.topic is not None}
        lanes = {key: lane for lane in flow.lanes.values() for key in lane.views}
        recent_ms = now - STALLED_S * 1000
        topics: dict[tuple[str, bool], list[PartitionView]] = {}
        for p in stalled:
            lane = lanes[p.topic, p.partition]
            if lane.untasked or any(c.topic is None for c in lane.conditions):
                continue
            if named.isdisjoint({(p.topic, None), (p.topic, p.partition)}):
                topics.setdefault((p.topic, (lane.committed_ms or 0) > recent_ms), []).append(p)
        conditions += (
            partitions_stalled(topic, [(p.partition, p.records_lag) for p in parts], others_move=others)
            for (topic, others), parts in topics.items()
        )
    keyed = {(c.code, c.topic, c.partition): c for c in conditions}
    flow.since = {key: flow.since.get(key, now) for key in keyed}
    return tuple((condition, flow.since[key]) for key, condition in keyed.items())


def goal_left(flow: FlowState) -> Mapping[tuple[str, int], int | None]:
    """Source offsets left to copy, by partition; None while the position is unknown."""
    places = {key: p.position for lane in flow.lanes.values() for key, p in lane.partitions.items()}
    goal = flow.goal or {}
    return {key: None if (at := places.get(key)) is None else max(0, end - at) for key, end in goal.items()}


def goal_view(flow: FlowState) -> status.CatchUpStatus | None:
    """The rest of a flow's way to the ends of a cut-over or drill; None without a goal. The number of offsets left is
    None as soon as one partition is unknown: a sum over the others would look like progress."""
    if flow.goal is None:
        return None
    offsets_left = goal_left(flow)
    known = None if None in offsets_left.values() else sum(offsets or 0 for offsets in offsets_left.values())
    return status.CatchUpStatus(
        len(offsets_left), sum(offsets == 0 for offsets in offsets_left.values()), known, flow.undecided
    )
