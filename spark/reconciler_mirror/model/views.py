"""Views of flows and partitions for the status record and the metrics, frozen; sums over them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.replication.handover import FlowSettings
from reconciler.replication.names import LAG_HOLDS_MS
from reconciler.replication.records.pauses import Pause, Scope, scopes_around
from reconciler.replication.status import FlowStatus, LastLag, PartitionLag, PathCount, ReportedLoss
from reconciler_mirror.model.counters import NO_LATENCY, Latency, Losses, added
from reconciler_mirror.model.lane import Condition


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One source partition in status record and metrics. Counts are this application's."""

    topic: str
    partition: int
    records: int = 0
    bytes: int = 0
    records_lag: int | None = None
    """None while unknown, like ``seconds_lag``."""
    seconds_lag: float | None = None
    path: str = "batch"
    """The way of copying, with its ``reason``."""
    reason: str = ""
    stopped: bool = False
    """By a condition; ``paused``: by a user."""
    paused: bool = False
    at_least: int = 0
    """A lower bound of the lag in records."""
    stalled: bool = False
    """It is stopped, or has, or may have, records to copy but has not moved for long."""
    last_lag: tuple[int, int] | None = None
    """The last known lag in records, and its time (ms since 1970); None if the lag is known, or never was."""


@dataclass(frozen=True, slots=True)
class FlowView:
    """One flow. ``figures``: those of the status record without state, paths, conditions and pauses, which
    ``report.status`` adds. Their ``records_lag`` and ``seconds_lag`` are None while any partition's is unknown;
    ``lag_at_least``: the sum over the others. Conditions come with the time they were first seen.

    ``committed_ms``: when the driver last heard of a commit, None before the first. ``pauses``: the requested ones;
    each partition shows whether its pause is in effect.
    """

    settings: FlowSettings
    running: bool
    partitions: tuple[PartitionView, ...]
    figures: FlowStatus
    conditions: tuple[tuple[Condition, int], ...]
    bytes_total: int = 0
    lag_at_least: int = 0
    latency: Latency = NO_LATENCY
    committed_ms: int | None = None
    pauses: tuple[Pause, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicView:
    """Sums over the partitions of one topic; the lag is unknown while any partition's is."""

    topic: str
    records: int
    bytes: int
    records_lag: int | None
    seconds_lag: float | None


def lag_of(partitions: Iterable[PartitionView]) -> tuple[int | None, float | None]:
    """The lag of all partitions in records and seconds; None while any partition's is unknown, even a stopped one's.

    The seconds are the largest among partitions with a known oldest record.
    """
    records, oldest = 0, None
    for partition in partitions:
        if partition.records_lag is None:
            return None, None
        records += partition.records_lag
        if partition.records_lag and partition.seconds_lag is not None:
            oldest = partition.seconds_lag if oldest is None else max(oldest, partition.seconds_lag)
    return (0, 0.0) if records == 0 else (records, oldest)


LAST_WITHIN_MS = 60_000
"""A silent source becomes unknown to one lane after the other within this time. The sum leaves out older lags."""
WORST_PARTITIONS = 10


def last_lag_of(partitions: Iterable[PartitionView], now_ms: int, uncopied: int) -> LastLag | None:
    """The sum of lags last known at about the same time; None if none ever was. ``uncopied``: number of partitions
    without a lane."""
    at_ms = now_ms - LAG_HOLDS_MS
    lags = {p: p.last_lag if p.records_lag is None else (p.records_lag, at_ms) for p in partitions}
    newest = max((lag[1] for lag in lags.values() if lag is not None), default=None)
    if newest is None:
        return None
    known = {p: lag for p, lag in lags.items() if lag is not None and lag[1] >= newest - LAST_WITHIN_MS}
    furthest = sorted(known.items(), key=lambda item: (-item[1][0], item[0].topic, item[0].partition))
    return LastLag(
        sum(records for records, _ in known.values()),
        min(at for _, at in known.values()),
        len(lags) - len(known) + uncopied,
        tuple(PartitionLag(p.topic, p.partition, lag[0], None) for p, lag in furthest[:WORST_PARTITIONS] if lag[0]),
    )


def by_topic(partitions: Iterable[PartitionView]) -> tuple[TopicView, ...]:
    """Sums by topic. A topic's lag is unknown as soon as one partition's is (``lag_of``)."""
    topics: dict[str, list[PartitionView]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    return tuple(
        TopicView(topic, sum(p.records for p in parts), sum(p.bytes for p in parts), *lag_of(parts))
        for topic, parts in topics.items()
    )


def worst(partitions: Iterable[PartitionView], count: int) -> tuple[PartitionView, ...]:
    """The ``count`` partitions with the most lag, without those of no or unknown lag."""
    behind = [partition for partition in partitions if partition.records_lag]
    return tuple(sorted(behind, key=lambda p: (-(p.records_lag or 0), p.topic, p.partition))[:count])


@dataclass(frozen=True, slots=True)
class PausedCounts:
    """``by_scope``: for each pause the number of its partitions, and of those that lanes have confirmed as paused.
    ``partitions`` and ``paused``: the same for all pauses, each partition once. ``resuming``: partitions still paused
    after their pause was lifted."""

    by_scope: Mapping[Scope, tuple[int, int]]
    partitions: int
    paused: int
    resuming: int


def pause_counts(view: FlowView) -> PausedCounts:
    """How far the pauses are in effect. A partition counts for every scope around it, so that a topic's pause within a
    flow's has its own confirmation."""
    by_scope = {pause.scope: (0, 0) for pause in view.pauses}
    partitions = paused = resuming = 0
    for partition in view.partitions if by_scope else ():
        covering = [
            scope
            for scope in scopes_around(view.settings.name, partition.topic, partition.partition)
            if scope in by_scope
        ]
        for scope in covering:
            covered, confirmed = by_scope[scope]
            by_scope[scope] = covered + 1, confirmed + partition.paused
        partitions += bool(covering)
        paused += partition.paused and bool(covering)
        resuming += partition.paused and not covering
    if not by_scope:
        resuming = sum(partition.paused for partition in view.partitions)
    return PausedCounts(by_scope, partitions, paused, resuming)


def lost_of(partitions: Iterable[Losses]) -> tuple[ReportedLoss, ...]:
    each = [loss for losses in partitions for loss in losses]
    counts = Counter(loss.code for loss in each)
    return tuple(
        ReportedLoss(loss.code, counts[loss.code], loss.offsets, loss.records, loss.batches, loss.text)
        for loss in added((), each)
    )


def path_counts(partitions: Iterable[PartitionView]) -> tuple[PathCount, ...]:
    """Numbers of partitions by way of copying."""
    counts = Counter((partition.path, partition.reason) for partition in partitions)
    return tuple(PathCount(path, reason, count) for (path, reason), count in sorted(counts.items()))
