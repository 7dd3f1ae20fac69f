"""The mirror's figures as Prometheus metrics. Names and meanings: docs/metrics.md.

Everything is made at the moment it is asked for, from what the board shows; between two questions nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from mirror.latency import BOUNDS_MS
from mirror.losses import Loss
from mirror.settings import Settings
from mirror.status import Application, flow_state
from mirror.views import FlowView, PartitionView, TopicView, by_topic, path_counts

MOST_SERIES = 2_000
"""Most series of each of the two fine levels, partitions and topics. A level with more is left out as a whole."""
SERIES_OF_ONE = 4
FLOW_STATES = ("starting", "running", "degraded", "paused", "stopped")


@dataclass(frozen=True, slots=True)
class Seen:
    """What one scrape shows. ``state`` is the application's, as in the status record."""

    settings: Settings
    who: Application
    state: str
    flows: tuple[FlowView, ...]
    leases: int
    leases_lost: int


@dataclass(frozen=True, slots=True)
class _FlowFigure:
    """One value a flow, None while not known; ``kind`` counter names end with _total when they are served."""

    name: str
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily]
    text: str
    value: Callable[[FlowView], float | None]


_FLOW_FIGURES = (
    _FlowFigure("records", CounterMetricFamily, "Records copied and committed.", lambda v: v.records_total),
    _FlowFigure("bytes", CounterMetricFamily, "Bytes copied and committed.", lambda v: v.bytes_total),
    _FlowFigure("transactions", CounterMetricFamily, "Transactions committed.", lambda v: v.transactions),
    _FlowFigure("retries", CounterMetricFamily, "Lanes that failed and began again.", lambda v: v.retries),
    _FlowFigure(
        "filtered",
        CounterMetricFamily,
        "Records that where kept from the target.",
        lambda v: None if v.settings.work.where is None else v.filtered,
    ),
    _FlowFigure(
        "returning",
        CounterMetricFamily,
        "Records that provenance kept from the target.",
        lambda v: None if v.settings.work.provenance is None else v.returning,
    ),
    _FlowFigure("lag_records", GaugeMetricFamily, "Source offsets not yet committed.", lambda v: v.records_lag),
    _FlowFigure("lag_seconds", GaugeMetricFamily, "Age of the oldest record not committed.", lambda v: v.seconds_lag),
    _FlowFigure("topics", GaugeMetricFamily, "Source topics that are copied.", lambda v: v.topics),
    _FlowFigure("partitions", GaugeMetricFamily, "Source partitions that are copied.", lambda v: len(v.partitions)),
    _FlowFigure(
        "paused_partitions",
        GaugeMetricFamily,
        "Source partitions that are paused.",
        lambda v: sum(one.paused for one in v.partitions),
    ),
    _FlowFigure(
        "rate_limit_bytes", GaugeMetricFamily, "Most bytes per second, where limited.", lambda v: v.settings.rate_limit
    ),
    _FlowFigure(
        "throttled_seconds",
        CounterMetricFamily,
        "How long the rate limit held lanes back, added up over lanes.",
        lambda v: None if v.settings.rate_limit is None else v.throttled_seconds,
    ),
    _FlowFigure("lanes", GaugeMetricFamily, "Lanes of the flow.", lambda v: v.settings.lanes),
    _FlowFigure(
        "last_commit_timestamp_seconds",
        GaugeMetricFamily,
        "When the driver last heard of committed records, in seconds since 1970.",
        lambda v: None if v.committed_ms is None else v.committed_ms / 1000,
    ),
)


def families(seen: Seen) -> Iterator[Metric]:
    """Every metric of one scrape. What is not known has no sample."""
    yield _info(seen)
    yield GaugeMetricFamily("mirror_leases", "Leases that run now.", value=seen.leases)
    yield CounterMetricFamily("mirror_leases_lost", "Leases whose worker died or did not start.", seen.leases_lost)
    for figure in _FLOW_FIGURES:
        family = figure.kind(f"mirror_flow_{figure.name}", figure.text, labels=["flow"])
        for view in seen.flows:
            value = figure.value(view)
            if value is not None:
                family.add_metric([view.settings.name], value)
        yield family
    yield _states(seen)
    yield _conditions(seen.flows)
    yield from _lost(seen.flows)
    yield _paths(seen.flows)
    yield _latency(seen.flows)
    yield from _fine(seen.flows)


def _info(seen: Seen) -> Metric:
    labels = ["environment", "mirror", "application_id", "fingerprint"]
    family = GaugeMetricFamily("mirror_info", "Always 1: which application this is.", labels=labels)
    settings = seen.settings
    family.add_metric([settings.environment, settings.mirror, seen.who.application_id, settings.fingerprint], 1)
    return family


def _states(seen: Seen) -> Metric:
    family = GaugeMetricFamily(
        "mirror_flow_state", "1 for the flow's state, 0 for the others.", labels=["flow", "state"]
    )
    for view in seen.flows:
        now = flow_state(view, seen.state)
        for state in FLOW_STATES:
            family.add_metric([view.settings.name, state], state == now)
    return family


def _conditions(flows: Iterable[FlowView]) -> Metric:
    labels = ["flow", "code", "stops"]
    family = GaugeMetricFamily("mirror_flow_conditions", "Conditions that hold now.", labels=labels)
    for view in flows:
        found = [(condition.code, str(condition.stops).lower()) for condition, _ in view.conditions]
        for code, stops in sorted(set(found)):
            family.add_metric([view.settings.name, code, stops], found.count((code, stops)))
    return family


def _lost(flows: Sequence[FlowView]) -> Iterator[Metric]:
    """By condition, where the flow goes on."""
    labels = ["flow", "code"]
    offsets = CounterMetricFamily("mirror_flow_lost_offsets", "Source offsets left behind.", labels=labels)
    records = CounterMetricFamily("mirror_flow_lost_records", "Records left behind one by one.", labels=labels)
    batches = CounterMetricFamily("mirror_flow_lost_batches", "Batches left behind.", labels=labels)
    for view in flows:
        for code in sorted(view.settings.continue_on):
            loss = next((one.loss for one in view.lost if one.loss.code == code), Loss(code))
            offsets.add_metric([view.settings.name, code], loss.offsets)
            records.add_metric([view.settings.name, code], loss.records)
            batches.add_metric([view.settings.name, code], loss.batches)
    yield from (offsets, records, batches)


def _paths(flows: Iterable[FlowView]) -> Metric:
    labels = ["flow", "path", "reason"]
    family = GaugeMetricFamily("mirror_flow_path_partitions", "Partitions by the path they take.", labels=labels)
    for view in flows:
        for (path, reason), count in path_counts(view.partitions).items():
            family.add_metric([view.settings.name, path, reason], count)
    return family


def _latency(flows: Iterable[FlowView]) -> Metric:
    text = "From the source timestamp to the commit at the target: the oldest record of each partition in each commit."
    family = HistogramMetricFamily("mirror_replication_latency_seconds", text, labels=["flow"])
    bounds = [*(f"{bound / 1000:g}" for bound in BOUNDS_MS), "+Inf"]
    for view in flows:
        buckets = list(zip(bounds, map(float, accumulate(view.latency.counts)), strict=True))
        family.add_metric([view.settings.name], buckets, view.latency.total_ms / 1000)
    return family


def _fine(flows: Sequence[FlowView]) -> Iterator[Metric]:
    """By partition and by topic, each level only while it stays within MOST_SERIES."""
    left_out = GaugeMetricFamily("mirror_series_left_out", "Series that would be too many.", labels=["level"])
    partitions = [([v.settings.name, p.topic, str(p.partition)], p) for v in flows for p in v.partitions]
    topics = [([v.settings.name, topic.topic], topic) for v in flows for topic in by_topic(v.partitions)]
    yield from _level("topic", ["flow", "topic"], topics, left_out)
    yield from _level("partition", ["flow", "topic", "partition"], partitions, left_out)
    yield left_out


def _level(
    level: str,
    labels: Sequence[str],
    rows: Sequence[tuple[Sequence[str], PartitionView | TopicView]],
    left_out: GaugeMetricFamily,
) -> Iterator[Metric]:
    series = len(rows) * SERIES_OF_ONE
    left_out.add_metric([level], series if series > MOST_SERIES else 0)
    shown = rows if series <= MOST_SERIES else ()
    records = CounterMetricFamily(f"mirror_{level}_records", "Records copied and committed.", labels=labels)
    size = CounterMetricFamily(f"mirror_{level}_bytes", "Bytes copied and committed.", labels=labels)
    lag = GaugeMetricFamily(f"mirror_{level}_lag_records", "Source offsets not yet committed.", labels=labels)
    seconds = GaugeMetricFamily(f"mirror_{level}_lag_seconds", "Age of the oldest record not committed.", labels=labels)
    for names, one in shown:
        records.add_metric(names, one.records)
        size.add_metric(names, one.bytes)
        if one.records_lag is not None:
            lag.add_metric(names, one.records_lag)
        if one.seconds_lag is not None:
            seconds.add_metric(names, one.seconds_lag)
    yield from (records, size, lag, seconds)
