"""What the driver keeps of a flow and of its lanes, and how news of a lease go into it. The board guards it all."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mirror.discovery import Discovered
from mirror.lanes import Condition, LaneProgress, PartitionProgress, PartitionSpec
from mirror.latency import NO_LATENCY, Latency
from mirror.losses import Losses, added, since
from mirror.settings import FlowSettings
from mirror.views import GroupsView, PartitionView
from replication.pauses import Pause


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
