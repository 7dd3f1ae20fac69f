"""Prometheus metrics of the mirror job: each metric of a flow, lane and partition, by name (docs/mirror/metrics.md).

Each scrape renders the board's present view; nothing is kept between scrapes.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from threading import Thread
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from reconciler.replication.handover import MirrorSettings
from reconciler.replication.names import FORMER_NAMES, runbook_of
from reconciler.replication.status import ReportedLoss, SameOffsetsStatus
from reconciler_mirror import log_lines as logs
from reconciler_mirror.model.counters import BOUNDS_MS
from reconciler_mirror.model.views import FlowView, PartitionView, TopicView, by_topic, lag_of, path_counts
from reconciler_mirror.report.status import Application, flow_state

_log = logs.logger("metrics")
MOST_SERIES = 2_000
"""Most series of each fine level (partitions, topics). A level with more is left out as a whole."""
_LOST = {
    "offsets": "Source offsets left behind by on_condition.",
    "records": "Records left behind one by one.",
    "batches": "Batches left behind.",
}
FLOW_STATES = ("starting", "running", "degraded", "paused", "stopped")


_FINE_FIGURES = (
    (CounterMetricFamily, "records", "Records copied and committed.", "records"),
    (CounterMetricFamily, "bytes", "Bytes copied and committed.", "bytes"),
    (GaugeMetricFamily, "lag_records", "Readable source offsets not committed.", "records_lag"),
    (GaugeMetricFamily, "lag_seconds", "Age of the oldest record not committed.", "seconds_lag"),
)
SERIES_OF_ONE = len(_FINE_FIGURES)


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """The content of one scrape. ``state``: the application's, as in the status record."""

    settings: MirrorSettings
    who: Application
    state: str
    flows: tuple[FlowView, ...]
    leases: int
    leases_lost: int


@dataclass(frozen=True, slots=True)
class _FlowFigure:
    """One value per flow, None while unknown; the client library appends _total to names of counters."""

    kind: type[CounterMetricFamily] | type[GaugeMetricFamily]
    name: str
    text: str
    value: Callable[[FlowView], float | None]


def _same(view: FlowView, figure: Callable[[SameOffsetsStatus], int]) -> int | None:
    return None if view.figures.same_offsets is None else figure(view.figures.same_offsets)


_counter = partial(_FlowFigure, CounterMetricFamily)
_gauge = partial(_FlowFigure, GaugeMetricFamily)
_FLOW_FIGURES = (
    _counter("records", "Records copied and committed.", lambda v: v.figures.records_total),
    _counter("bytes", "Bytes copied and committed.", lambda v: v.bytes_total),
    _counter(
        "transactions",
        "Transactions committed; of at_least_once, commits of positions.",
        lambda v: v.figures.transactions,
    ),
    _counter("retries", "Lanes that failed and were restarted.", lambda v: v.figures.retries),
    _counter("filtered", "Records that `where` kept from the target.", lambda v: v.figures.filtered),
    _counter("returning", "Records that provenance kept from the target.", lambda v: v.figures.returning),
    _gauge(
        "lag_records",
        "Readable source offsets not committed at the target, markers and holes included; ends at an open transaction.",
        lambda v: v.figures.records_lag,
    ),
    _gauge(
        "lag_seconds",
        "Age of the oldest record read and not committed; 0 when caught up.",
        lambda v: v.figures.seconds_lag,
    ),
    _gauge(
        "oldest_unread_seconds",
        "Age of the oldest source record that is not copied.",
        lambda v: v.figures.oldest_unread_seconds,
    ),
    _gauge(
        "lag_known",
        "1 while the lag of every partition is known; 0: the two lags have no sample.",
        lambda v: v.figures.records_lag is not None,
    ),
    _gauge("lag_records_at_least", "Source offsets not yet committed, as far as known.", lambda v: v.lag_at_least),
    _gauge(
        "lag_unknown_partitions",
        "Source partitions of unknown lag, or without a place at the target.",
        lambda v: v.figures.lag_unknown_partitions,
    ),
    _gauge(
        "stalled_partitions",
        "Partitions with records, stopped or unmoved for 30 s; not paused ones.",
        lambda v: v.figures.stalled_partitions,
    ),
    _gauge(
        "due_records",
        "Source offsets not yet committed of partitions that are not paused, as far as known.",
        lambda v: sum(p.at_least for p in v.partitions if not p.paused),
    ),
    _gauge(
        "due_seconds",
        "Age of the oldest record not committed of partitions that are not paused.",
        lambda v: lag_of(p for p in v.partitions if not p.paused)[1],
    ),
    _gauge("topics", "Source topics that are copied.", lambda v: v.figures.topics),
    _gauge("partitions", "Source partitions that are copied.", lambda v: len(v.partitions)),
    _gauge("paused_partitions", "Source partitions that are paused.", lambda v: sum(p.paused for p in v.partitions)),
    _gauge(
        "paused_timestamp_seconds",
        "Since when the oldest pause holds, in seconds since 1970.",
        lambda v: min((pause.since_ms / 1000 for pause in v.pauses if pause.since_ms), default=None),
    ),
    _gauge("rate_limit_bytes", "Most bytes per second, where limited.", lambda v: v.figures.rate_limit),
    _counter(
        "throttled_seconds",
        "How long the rate limit held lanes back, added up over lanes.",
        lambda v: v.figures.throttled_seconds,
    ),
    _gauge("lanes", "Lanes of the flow.", lambda v: v.settings.lanes),
    _gauge(
        "same_offsets", "1 where copies keep the source's offsets.", lambda v: 1 if v.figures.same_offsets else None
    ),
    _counter(
        "holes",
        "Holes of the source that were filled; only of same offsets.",
        lambda v: _same(v, lambda same: same.holes),
    ),
    _counter(
        "fillers", "Empty records that fill holes; only of same offsets.", lambda v: _same(v, lambda same: same.fillers)
    ),
    _counter(
        "sequence_refusals",
        "Batches refused because another producer appended to the copy; only of same offsets.",
        lambda v: _same(v, lambda same: same.refusals),
    ),
    _gauge(
        "filling_offsets_left",
        "Empty offsets left until new copies begin; only of same offsets.",
        lambda v: _same(v, lambda same: same.filling.offsets_left if same.filling else 0),
    ),
    _gauge(
        "last_commit_timestamp_seconds",
        "When the driver last heard of committed records, in seconds since 1970; no sample before the first.",
        lambda v: None if v.committed_ms is None else v.committed_ms / 1000,
    ),
)


def families(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    """Every metric of one scrape. An unknown value has no sample."""
    settings, flows = snapshot.settings, snapshot.flows
    labels = ["environment", "mirror", "application_id", "fingerprint"]
    names = [settings.environment, settings.mirror, snapshot.who.application_id, settings.fingerprint]
    yield _family(GaugeMetricFamily, "mirror_info", "Always 1: which application this is.", labels, [(names, 1)])
    started, text = snapshot.who.started_at_ms / 1000, "When this application started, in seconds since 1970."
    yield GaugeMetricFamily("mirror_start_timestamp_seconds", text, value=started)
    yield GaugeMetricFamily("mirror_leases", "Leases that run now.", value=snapshot.leases)
    yield CounterMetricFamily("mirror_leases_lost", "Leases whose worker died or did not start.", snapshot.leases_lost)
    for figure in _FLOW_FIGURES:
        values = [([view.settings.name], figure.value(view)) for view in flows]
        yield _family(figure.kind, f"mirror_flow_{figure.name}", figure.text, ["flow"], values)
        for former in _former(figure.name):
            text = f"Deprecated: use mirror_flow_{figure.name}."
            yield _family(figure.kind, f"mirror_flow_{former}", text, ["flow"], values)
    yield from _of_flows(flows, snapshot.state, settings.docs_url)
    yield from _fine(flows)


def _of_flows(flows: Sequence[FlowView], application: str, docs_url: str) -> Iterator[Metric]:
    """Metrics with more labels than the flow: states, conditions, losses, paths, and the histogram of latency."""
    now = [(view.settings.name, flow_state(view, application)) for view in flows]
    states = (([flow, state], state == holds) for flow, holds in now for state in FLOW_STATES)
    text = "1 for the flow's state, 0 for the others."
    yield _family(GaugeMetricFamily, "mirror_flow_state", text, ["flow", "state"], states)

    # A renamed condition has a second series under its former code, marked by ``renamed_to``: alert rules on the former
    # code still fire, and rules that count conditions can exclude it.
    labels = ["flow", "code", "stops", "runbook", "renamed_to"]
    conditions = GaugeMetricFamily(
        "mirror_flow_conditions", "Conditions that hold now; renamed_to is empty but for former codes.", labels=labels
    )
    for view in flows:
        counts = Counter((condition.code, condition.stops) for condition, _ in view.conditions)
        for (code, stops), count in sorted(counts.items()):
            more = str(stops).lower(), runbook_of(code, docs_url)
            conditions.add_metric([view.settings.name, code, *more, ""], count)
            for former in _former(code):
                conditions.add_metric([view.settings.name, former, *more, code], count)
    yield conditions

    # Flows with ``continue_on`` have a sample of 0 before the first loss: increase() needs one to count from.
    losses = [
        ([view.settings.name, code], lost.get(code, ReportedLoss(code, 0)))
        for view in flows
        for lost in [{loss.code: loss for loss in view.figures.lost}]
        for code in view.settings.continue_on or ()
    ]
    for name, text in _LOST.items():
        samples = ((names, getattr(loss, name)) for names, loss in losses)
        yield _family(CounterMetricFamily, f"mirror_flow_lost_{name}", text, ["flow", "code"], samples)

    ways = [(view.settings.name, each) for view in flows for each in path_counts(view.partitions)]
    paths = (([flow, each.path, each.reason], each.partitions) for flow, each in ways)
    text = "Partitions copied whole or by record, and why."
    yield _family(GaugeMetricFamily, "mirror_flow_path_partitions", text, ["flow", "path", "reason"], paths)

    text = "From the source timestamp to the commit at the target: the oldest record of each partition in each commit."
    latency = HistogramMetricFamily("mirror_replication_latency_seconds", text, labels=["flow"])
    bounds = [*(f"{bound / 1000:g}" for bound in BOUNDS_MS), "+Inf"]
    for view in flows:
        buckets = list(zip(bounds, map(float, accumulate(view.latency.counts)), strict=True))
        latency.add_metric([view.settings.name], buckets, view.latency.total_ms / 1000)
    yield latency


def _family(
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily],
    name: str,
    text: str,
    labels: Sequence[str],
    samples: Iterable[tuple[Sequence[str], float | None]],
) -> Metric:
    """``samples``: values of the labels, and a value, None while unknown."""
    family = kind(name, text, labels=labels)
    for names, value in samples:
        if value is not None:
            family.add_metric(names, value)
    return family


def _former(name: str) -> Iterator[str]:
    return (former for former, now in FORMER_NAMES.items() if now == name)


def _fine(flows: Sequence[FlowView]) -> Iterator[Metric]:
    """Metrics by partition and by topic; each level only up to MOST_SERIES."""
    left_out = GaugeMetricFamily(
        "mirror_series_left_out",
        "Series of topics or partitions above the cap of 2,000, which leaves out the whole level.",
        labels=["level"],
    )
    partitions = [([v.settings.name, p.topic, str(p.partition)], p) for v in flows for p in v.partitions]
    topics = [([v.settings.name, topic.topic], topic) for v in flows for topic in by_topic(v.partitions)]
    levels: tuple[tuple[str, list[str], Sequence[tuple[Sequence[str], PartitionView | TopicView]]], ...] = (
        ("topic", ["flow", "topic"], topics),
        ("partition", ["flow", "topic", "partition"], partitions),
    )
    for level, labels, rows in levels:
        series = len(rows) * SERIES_OF_ONE
        left_out.add_metric([level], series if series > MOST_SERIES else 0)
        shown = rows if series <= MOST_SERIES else ()
        for kind, name, text, attribute in _FINE_FIGURES:
            samples = ((names, getattr(entry, attribute)) for names, entry in shown)
            yield _family(kind, f"mirror_{level}_{name}", text, labels, samples)
    yield left_out


class _Now(Collector):
    """Renders all metrics at each scrape."""

    def __init__(self, snapshot: Callable[[], MetricsSnapshot]) -> None:
        self._seen = snapshot

    def collect(self) -> Iterator[Metric]:
        yield from families(self._seen())


_PORT_PATIENCE_S = 15.0
SCRAPE_WITHIN_S = 10.0
"""Seconds that a scrape may be silent."""


class MetricsEndpoint:
    """Serves metrics. ``open`` may be called repeatedly, until an older application has freed the port."""

    def __init__(self, host: str, port: int, snapshot: Callable[[], MetricsSnapshot]) -> None:
        self._host, self._wanted = host, port
        self._registry = CollectorRegistry()
        self._registry.register(_Now(snapshot))
        self._running: tuple[WSGIServer, Thread] | None = None
        self._refused_since = 0.0
        self._refused = ""

    @property
    def port(self) -> int | None:
        """None while metrics are not served."""
        return None if self._running is None else int(self._running[0].server_port)

    @property
    def refused(self) -> str:
        """Why the port cannot be had, if that lasts: after a restart the former application keeps it for a while."""
        return self._refused if time.monotonic() - self._refused_since >= _PORT_PATIENCE_S else ""

    def open(self) -> None:
        """Starts serving, unless it has; called with each status record. Port 0: no metrics. A refused port is tried
        again, and logged once."""
        if self._running is not None or self._wanted == 0:
            return
        try:
            self._running = server, _ = start_http_server(self._wanted, self._host, self._registry)
        except OSError as error:
            why, said_before = error.strerror or str(error), bool(self._refused)
            self._refused = why
            if not said_before:
                self._refused_since = time.monotonic()
                _log.warning(
                    "metrics cannot be served yet; records are still copied",
                    host=self._host,
                    port=self._wanted,
                    why=why,
                    todo="nothing while an older application leaves; otherwise choose another metrics_port or "
                    "metrics_host for this mirror. It is retried automatically.",
                )
        else:
            self._refused = ""
            # Else each client that sends nothing would keep a thread and a descriptor of the driver for ever.
            server.RequestHandlerClass.timeout = SCRAPE_WITHIN_S  # type: ignore[attr-defined]
            server.handle_error = lambda *_: None  # type: ignore[method-assign]
            _log.info("metrics are served", host=self._host, port=self.port)

    def close(self) -> None:
        if self._running is not None:
            server, thread = self._running
            server.shutdown()
            server.server_close()
            thread.join()
            self._running = None
