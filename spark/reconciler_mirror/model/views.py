"""Views of flows and partitions for the status record and the metrics, frozen; sums over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.replication.handover import FlowSettings
from reconciler.replication.pauses import Pause, Scope, scopes_around
from reconciler_mirror.model.lane import Condition
from reconciler_mirror.model.latency import NO_LATENCY, Latency
from reconciler_mirror.model.losses import Loss, Losses, added


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One source partition. Counts are this application's; lag in records and in seconds is None while not known.
    ``at_least``: records behind by what is known. ``stalled``: it has records to copy, or may have, and has not moved
    for long, or is stopped."""

    topic: str
    partition: int
    records: int = 0
    bytes: int = 0
    records_lag: int | None = None
    seconds_lag: float | None = None
    path: str = "record"
    reason: str = ""
    stopped: bool = False
    paused: bool = False
    at_least: int = 0
    stalled: bool = False


@dataclass(frozen=True, slots=True)
class GroupsView:
    """Group sync of a flow, after its last round. ``active``: groups with members at the target, left alone.

    ``inexact``: partitions whose target offset is a safe earlier one for now. ``read_ms``: when the source was read.
    """

    groups: int = 0
    active: int = 0
    unsupported: int = 0
    inexact: int = 0
    written_total: int = 0
    checkpoints_total: int = 0
    read_ms: int = 0
    rounds: int = 0
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SameOffsetsView:
    """Of a flow that keeps offsets, by this application. ``holes``: stretches of source offsets without a record that
    were filled; ``fillers``: empty records they were filled with; ``refusals``: batches that brokers refused as not the
    next one, so that the log's end was looked up anew.

    ``filling_partitions``: new copies that are being brought to where their source begins; ``filling_left``: offsets
    that are left of that; ``filling_rate``: offsets per second, 0 while not known.
    """

    holes: int = 0
    fillers: int = 0
    refusals: int = 0
    filling_partitions: int = 0
    filling_left: int = 0
    filling_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class GoalView:
    """In the mode that ends by itself: partitions, those that are copied so far, and offsets left (None: not known).
    ``undecided``: offsets that were held back by open transactions of the source when it began; not waited for."""

    partitions: int
    done: int
    left: int | None
    undecided: int = 0


@dataclass(frozen=True, slots=True)
class FlowLoss:
    """What the partitions of a flow left behind because of one condition, together; the text is the newest of one."""

    loss: Loss
    partitions: int


@dataclass(frozen=True, slots=True)
class LastLag:
    """The lag of a flow when it was known last: of what its source had at ``at_ms``, at most ``records`` are not
    copied. Nothing is known of what was written there since."""

    records: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class FlowView:
    """One flow. ``records_lag`` and ``seconds_lag`` are None while that of one partition is not known, of which there
    are ``lag_unknown``; ``lag_at_least``: what is known of it. ``stalled``: partitions that have records to copy, or
    may have, and do not move. Both count those that match and have no place at the target. A condition comes with its
    first time.

    ``committed_ms``: when the driver last heard of a commit, None before the first. ``pauses``: what is asked for; each
    partition says whether it is in effect. ``filtered`` and ``returning``: records that ``where`` or provenance kept
    from the target, None where the flow does not ask for it. ``lost``: what was left behind where the flow goes on.
    ``throttled_seconds``: how long the rate limit held lanes back, added up over lanes. ``same_offsets`` None: the flow
    does not keep offsets. ``last_lag``: of a lag that is unknown now, None where this application never knew it.
    """

    settings: FlowSettings
    running: bool
    topics: int
    partitions: tuple[PartitionView, ...]
    records_total: int
    bytes_total: int
    records_per_second: float
    bytes_per_second: float
    records_lag: int | None
    seconds_lag: float | None
    conditions: tuple[tuple[Condition, int], ...]
    transactions: int = 0
    retries: int = 0
    latency: Latency = NO_LATENCY
    committed_ms: int | None = None
    pauses: tuple[Pause, ...] = ()
    filtered: int | None = None
    returning: int | None = None
    groups: GroupsView | None = None
    lost: tuple[FlowLoss, ...] = ()
    throttled_seconds: float = 0.0
    goal: GoalView | None = None
    lag_at_least: int = 0
    lag_unknown: int = 0
    stalled: int = 0
    same_offsets: SameOffsetsView | None = None
    last_lag: LastLag | None = None


@dataclass(frozen=True, slots=True)
class TopicView:
    """The partitions of one topic together; the lag is unknown while that of one partition is."""

    topic: str
    records: int
    bytes: int
    records_lag: int | None
    seconds_lag: float | None


def lag_of(partitions: Iterable[PartitionView]) -> tuple[int | None, float | None]:
    """Records and seconds behind, together; None while those of one are not known, also of one that is stopped.

    The seconds are those of the partition furthest behind, among those whose oldest record is under way.
    """
    records, oldest = 0, None
    for partition in partitions:
        if partition.records_lag is None:
            return None, None
        records += partition.records_lag
        if partition.records_lag and partition.seconds_lag is not None:
            oldest = partition.seconds_lag if oldest is None else max(oldest, partition.seconds_lag)
    return (0, 0.0) if records == 0 else (records, oldest)


def by_topic(partitions: Iterable[PartitionView]) -> tuple[TopicView, ...]:
    topics: dict[str, list[PartitionView]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    return tuple(
        TopicView(topic, sum(p.records for p in parts), sum(p.bytes for p in parts), *lag_of(parts))
        for topic, parts in topics.items()
    )


def worst(partitions: Iterable[PartitionView], count: int) -> tuple[PartitionView, ...]:
    """The ``count`` partitions furthest behind, most records first. What is caught up or unknown is not among them."""
    behind = [partition for partition in partitions if partition.records_lag]
    return tuple(sorted(behind, key=lambda p: (-(p.records_lag or 0), p.topic, p.partition))[:count])


@dataclass(frozen=True, slots=True)
class PauseCounts:
    """``by_scope``: of each pause, the partitions that it covers, and for how many of them lanes have confirmed.
    ``partitions`` and ``paused``: the same of all pauses together, each partition once. ``resuming``: partitions that
    no pause covers any more and that a lane still holds."""

    by_scope: Mapping[Scope, tuple[int, int]]
    partitions: int
    paused: int
    resuming: int


def pause_counts(view: FlowView) -> PauseCounts:
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
    return PauseCounts(by_scope, partitions, paused, resuming)


def lost_of(partitions: Iterable[Losses]) -> tuple[FlowLoss, ...]:
    each = [loss for losses in partitions for loss in losses]
    return tuple(FlowLoss(loss, sum(each_loss.code == loss.code for each_loss in each)) for loss in added((), each))


def path_counts(partitions: Iterable[PartitionView]) -> Mapping[tuple[str, str], int]:
    """(path, reason) -> partitions that are copied this way."""
    return dict(sorted(Counter((partition.path, partition.reason) for partition in partitions).items()))
