"""Prometheus metrics: of ``run``, served over HTTP, and of the last drill, as a file for node_exporter's textfile
collector, because Prometheus cannot scrape a command that ends."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest, start_http_server

from reconciler.errors import ReconcilerError
from reconciler.model.environment.flow_settings import Objectives
from reconciler.model.reports.drill import DrillVerdict
from reconciler.model.reports.health import Figures, Health
from reconciler.model.state.last_drill import LastDrill

SCRAPE_WITHIN_S = 10.0
"""Seconds that a scrape may be silent."""


class Metrics:
    """``registry``: separate, without metrics of the process or of libraries."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.rounds = self._counter("rounds", "Rounds, by how they ended.", "result")
        for result in ("succeeded", "failed"):  # a series must exist at 0, or increase() misses the first failure
            self.rounds.labels(result)
        self.success = self._gauge("last_success_timestamp_seconds", "When a round last looked at everything.")
        self.seconds = self._gauge("round_seconds", "How long the last round took.")
        self.pending = self._gauge("changes_pending", "Changes still to do after the last round.", "kind")
        self.corrections = self._counter("corrections", "Changes carried out.", "kind")
        self.failures = self._counter("changes_failed", "Changes that failed.")
        self.refused = self._gauge("changes_refused", "Desired values that cannot be applied.")
        self.unknown = self._gauge("unknown_clusters", "Clusters that could not be read.")
        self.contested = self._gauge("contested_fields", "Fields someone else sets back; left alone.")
        self.kept = self._gauge("topology_kept", "1 while the folder cannot be used and its last good state counts.")
        self.lag_records = self._gauge("mirror_lag_records", "Records behind, as the mirror job reports.", "flow")
        self.lag_known = self._gauge("mirror_lag_known", "1 while the lag of the whole flow is known, else 0.", "flow")
        self.unknown_mirrors = self._gauge("unknown_mirrors", "Mirrors whose job could not be seen.")
        self.lag_seconds = self._gauge("mirror_lag_seconds", "Seconds behind, as the mirror job reports.", "flow")
        self.verdict = self._gauge("verdict", "1 for the verdict of the last round, 0 for the others.", "state")

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, namespace="reconciler", registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, namespace="reconciler", registry=self.registry)

    def take(self, figures: Figures) -> None:
        """Takes the figures of a round. A failed round keeps the last counts; ``last_success`` shows their age."""
        self.seconds.set(figures.seconds)
        self.kept.set(figures.topology_kept)
        self.rounds.labels("failed" if figures.succeeded_at is None else "succeeded").inc()
        if figures.succeeded_at is None:
            return
        self.success.set(figures.succeeded_at)
        for kind, count in figures.done.items():
            self.corrections.labels(kind).inc(count)
        self.failures.inc(figures.failed)
        self.refused.set(figures.refused)
        self.unknown.set(figures.unknown_clusters)
        self.contested.set(figures.contested)
        _replace(self.pending, figures.pending)
        _replace(self.lag_records, figures.lag_records)
        _replace(self.lag_seconds, figures.lag_seconds)
        _replace(self.lag_known, figures.lag_known)
        self.unknown_mirrors.set(figures.unknown_mirrors)
        known = {} if figures.health is None else {state.value: float(state is figures.health) for state in Health}
        _replace(self.verdict, known)


def _replace(gauge: Gauge, values: Mapping[str, float]) -> None:
    """Replaces all samples, so that a removed flow does not keep its last lag for ever."""
    gauge.clear()
    for label, value in values.items():
        gauge.labels(label).set(value)


class MetricsServer:
    """Serves on a separate thread until closed. Raises ReconcilerError if the port is taken."""

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        try:
            self._server, self._thread = start_http_server(port, host, metrics.registry)
        except (OSError, OverflowError) as error:
            raise ReconcilerError(
                f"metrics cannot be served on {host}:{port}: {getattr(error, 'strerror', None) or error}",
                "You asked for metrics of this run, so nothing was begun without them.",
                "Choose another --metrics-port or --metrics-host.",
            ) from None
        # Else each client that sends nothing would keep a thread and a descriptor for ever.
        self._server.RequestHandlerClass.timeout = SCRAPE_WITHIN_S  # type: ignore[attr-defined]
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def drill_metrics(last: LastDrill, objectives: Objectives | None) -> str:
    """Metrics of a drill; without samples for figures that were not measured or objectives that are not declared."""
    registry, declared = CollectorRegistry(), objectives or Objectives()
    every_ms = declared.drill_every_ms
    for name, text, value in (
        ("last_timestamp_seconds", "When the last drill ended.", last.at_ms / 1000),
        ("last_met_timestamp_seconds", "When a drill met its objectives last; 0 for never.", last.met_ms / 1000),
        ("met", "1 if the last drill met its objectives.", float(last.verdict == DrillVerdict.MET)),
        ("recovery_seconds", "Recovery time of the last drill.", last.recovery_s),
        ("point_seconds", "Recovery point of the last drill.", last.point_s),
        ("every_seconds", "The longest time between two drills, as declared.", every_ms and every_ms / 1000),
    ):
        if value is not None:
            gauge = Gauge(name, text, ("environment", "flow"), namespace="reconciler_drill", registry=registry)
            gauge.labels(last.environment, last.flow).set(value)
    return generate_latest(registry).decode()
