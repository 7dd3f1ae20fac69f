"""Figures of the last drill in Prometheus' text format, for the textfile collector of a node exporter: a drill is a
command that ends, so nothing can scrape it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from reconciler.model.environment.topology import Objectives
from reconciler.model.reports.drill import DrillVerdict
from reconciler.model.state.last_drill import LastDrill


def metrics_text(last: LastDrill, objectives: Objectives | None) -> str:
    """What was not measured, and what is not declared, has no sample."""
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
