"""Serves the job's metrics over HTTP, on a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Thread
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from reconciler_mirror import log_lines as logs
from reconciler_mirror.report.metrics import MetricsSnapshot, families

_log = logs.logger("metrics")


class _Now(Collector):
    def __init__(self, snapshot: Callable[[], MetricsSnapshot]) -> None:
        self._seen = snapshot

    def collect(self) -> Iterator[Metric]:
        yield from families(self._seen())


class MetricsEndpoint:
    """``open`` may be called again and again: until the port is free, as when an older application still has it."""

    def __init__(self, host: str, port: int, snapshot: Callable[[], MetricsSnapshot]) -> None:
        self._host, self._wanted = host, port
        self._registry = CollectorRegistry()
        self._registry.register(_Now(snapshot))
        self._running: tuple[WSGIServer, Thread] | None = None
        self._complained = False

    @property
    def port(self) -> int | None:
        """None while nothing is served."""
        return None if self._running is None else int(self._running[0].server_port)

    def open(self) -> None:
        if self._running is not None or self._wanted == 0:
            return
        try:
            self._running = start_http_server(self._wanted, self._host, self._registry)
        except OSError as error:
            if not self._complained:
                self._complained = True
                _log.warning(
                    "metrics cannot be served yet; records are copied all the same",
                    host=self._host,
                    port=self._wanted,
                    why=error.strerror or str(error),
                    todo="nothing while an older application leaves; otherwise choose another metrics_port or "
                    "metrics_host for this mirror. It is retried automatically.",
                )
        else:
            _log.info("metrics are served", host=self._host, port=self.port)

    def close(self) -> None:
        if self._running is not None:
            server, thread = self._running
            server.shutdown()
            server.server_close()
            thread.join()
            self._running = None
