"""The figures of ``run`` as Prometheus reads them."""

from __future__ import annotations

import socket

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from reconciler.backends import metrics as run_metrics
from reconciler.backends.metrics import Metrics, MetricsServer
from reconciler.model.reports.health import Figures, Health


def scraped(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = list(text_string_to_metric_families(generate_latest(metrics.registry).decode()))
    assert len({family.name for family in families}) == len(families)
    return {
        (sample.name, tuple(sample.labels.items())): sample.value for family in families for sample in family.samples
    }


def test_the_first_failed_round_is_an_increase() -> None:
    metrics = Metrics()
    failed = ("reconciler_rounds_total", (("result", "failed"),))
    assert scraped(metrics)[failed] == 0
    metrics.take(Figures(seconds=1.0))
    assert scraped(metrics)[failed] == 1


def test_names_of_flows_come_through_whatever_they_hold_and_flows_that_are_gone_leave() -> None:
    metrics = Metrics()
    name = 'east "to"\\west\n'
    metrics.take(Figures(1.0, succeeded_at=2.0, lag_records={name: 3.0}))
    lag = ("reconciler_mirror_lag_records", (("flow", name),))
    assert scraped(metrics)[lag] == 3
    metrics.take(Figures(1.0))
    assert scraped(metrics)[lag] == 3, "a failed round leaves what was known"
    metrics.take(Figures(1.0, succeeded_at=4.0))
    assert lag not in scraped(metrics)


def test_the_verdict_of_the_last_round_is_one_of_its_states() -> None:
    metrics = Metrics()
    assert not [name for name, _ in scraped(metrics) if name == "reconciler_verdict"], "nothing was looked at"
    metrics.take(Figures(1.0, succeeded_at=2.0, health=Health.STOPPED))
    told = {labels[0][1]: value for (name, labels), value in scraped(metrics).items() if name == "reconciler_verdict"}
    assert told == {"OK": 0, "PAUSED": 0, "DEGRADED": 0, "UNKNOWN": 0, "STOPPED": 1}


def test_who_sends_nothing_is_ended(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run_metrics, "SCRAPE_WITHIN_S", 0.2)
    with (
        MetricsServer(Metrics(), "127.0.0.1", 0) as server,
        socket.create_connection(("127.0.0.1", server.port), 10) as silent,
    ):
        assert silent.recv(1) == b""
    assert "Traceback" not in capsys.readouterr().err
