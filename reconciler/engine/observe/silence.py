"""Which clusters are silent now, asked again and again without waiting for those that are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import MappingProxyType
from typing import Protocol

from reconciler.errors import Unknown, or_unknown_why

SILENT_SECONDS = 1.5
"""How long an answer to a small request may take before nothing is known of a cluster."""
FIRST_SECONDS = 5.0
"""The same of the first one: it waits for a connection and a login, perhaps over a long line."""
ASK_EVERY_SECONDS = 1.0


class AnsweringCluster(Protocol):
    def ask(self) -> None:
        """Raises ReconcilerError when there is no answer."""
        ...


class SilenceWatch:
    """Asks each cluster; one that does not answer keeps no other waiting. ``pool`` has a thread for each cluster. For
    one thread at a time."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        clusters: Mapping[str, AnsweringCluster],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool, self._clusters, self._clock = pool, clusters, clock
        self._asked: dict[str, tuple[float, Future[Unknown | None]]] = {}
        self._answered: dict[str, float] = {}
        self._silent: dict[str, Unknown] = {}

    def look(self, within_s: float) -> Mapping[str, Unknown]:
        """Those that are silent, and why, after ``within_s``. A cluster is asked a second after its last answer; one
        that was not silent has ``SILENT_SECONDS`` for the next."""
        now = self._clock()
        for name, asked in self._clusters.items():
            if name not in self._asked and now - self._answered.get(name, float("-inf")) >= ASK_EVERY_SECONDS:
                self._asked[name] = now, self._pool.submit(_failure, name, asked)
        wait([future for _, future in self._asked.values()], within_s)
        for name in tuple(self._asked):
            self._take(name)
        return MappingProxyType(dict(self._silent))

    def _take(self, name: str) -> None:
        asked_at, future = self._asked[name]
        if future.done():
            del self._asked[name]
            self._answered[name] = self._clock()
            failure = future.result()
            if failure is None:
                self._silent.pop(name, None)
            else:
                self._silent[name] = failure
            return
        seconds, patience = self._clock() - asked_at, SILENT_SECONDS if name in self._answered else FIRST_SECONDS
        if seconds >= patience and name not in self._silent:
            why = f"cluster {name} has not answered a request for {seconds:.1f} s. It may be slow, cut off or lost"
            self._silent[name] = Unknown(f"cluster {name}", why, "It is asked again; the others go on.")


def _failure(name: str, cluster: AnsweringCluster) -> Unknown | None:
    return or_unknown_why(f"cluster {name}", cluster.ask)
