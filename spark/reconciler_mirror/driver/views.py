"""What the board shows of flows and partitions, frozen, for the status record and the metrics; sums over it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mirror.lanes import Condition
from mirror.latency import NO_LATENCY, Latency
from mirror.losses import Loss, Losses, added
from mirror.settings import FlowSettings
from replication.pauses import Pause, Scope


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One source partition. Counts are this application's; lag in records and in seconds is None while not known."""

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
class FlowView:
    """One flow. ``records_lag`` and ``seconds_lag`` are None while not known; a condition comes with its first time.

    ``committed_ms``: when the driver last heard of a commit, None before the first. ``pauses``: what is wished; each
    partition says whether it is in effect. ``filtered`` and ``returning``: records that ``where`` or provenance kept
    from the target. ``lost``: what was left behind where the flow goes on. ``throttled_seconds``: how
    long the rate limit held lanes back, added up over lanes.
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
    filtered: int = 0
    returning: int = 0
    groups: GroupsView | None = None
    lost: tuple[FlowLoss, ...] = ()
    throttled_seconds: float = 0.0
    goal: GoalView | None = None


@dataclass(frozen=True, slots=True)
class TopicView:
    """The partitions of one topic together; the lag is unknown while that of one partition is."""

    topic: str
    records: int
    bytes: int
    records_lag: int | None
    seconds_lag: float | None


def lag_of(partitions: Iterable[PartitionView]) -> tuple[int | None, float | None]:
    """Records and seconds behind, together. A stopped partition of unknown lag is told by its condition instead.

    The seconds are those of the partition furthest behind, among those whose oldest record is under way.
    """
    records, oldest = 0, None
    for one in partitions:
        if one.records_lag is None:
            if one.stopped:
                continue
            return None, None
        records += one.records_lag
        if one.records_lag and one.seconds_lag is not None:
            oldest = one.seconds_lag if oldest is None else max(oldest, one.seconds_lag)
    return (0, 0.0) if records == 0 else (records, oldest)


def by_topic(partitions: Iterable[PartitionView]) -> tuple[TopicView, ...]:
    topics: dict[str, list[PartitionView]] = {}
    for one in partitions:
        topics.setdefault(one.topic, []).append(one)
    return tuple(
        TopicView(topic, sum(p.records for p in parts), sum(p.bytes for p in parts), *lag_of(parts))
        for topic, parts in topics.items()
    )


def worst(partitions: Iterable[PartitionView], count: int) -> tuple[PartitionView, ...]:
    """The ``count`` partitions furthest behind, most records first. What is caught up or unknown is not among them."""
    behind = [one for one in partitions if one.records_lag]
    return tuple(sorted(behind, key=lambda p: (-(p.records_lag or 0), p.topic, p.partition))[:count])


@dataclass(frozen=True, slots=True)
class PauseCount:
    """Of the partitions that a pause covers, how many lanes have confirmed."""

    partitions: int
    paused: int


def pause_count(scope: Scope, partitions: Iterable[PartitionView]) -> PauseCount:
    covered = [one for one in partitions if scope.covers(one.topic, one.partition)]
    return PauseCount(len(covered), sum(one.paused for one in covered))


def resuming(view: FlowView) -> int:
    """Partitions that no pause covers any more and that a lane still holds."""
    return sum(
        one.paused and not any(pause.scope.covers(one.topic, one.partition) for pause in view.pauses)
        for one in view.partitions
    )


def lost_of(partitions: Iterable[Losses]) -> tuple[FlowLoss, ...]:
    each = [loss for losses in partitions for loss in losses]
    return tuple(FlowLoss(loss, sum(one.code == loss.code for one in each)) for loss in added((), each))


def path_counts(partitions: Iterable[PartitionView]) -> Mapping[tuple[str, str], int]:
    """(path, reason) -> partitions that are copied this way."""
    return dict(sorted(Counter((one.path, one.reason) for one in partitions).items()))
