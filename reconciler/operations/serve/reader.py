"""Reads an environment again and again, once for all browsers, and keeps the newest view of it.

Each kind of reading has its own thread and connections, so that a silent cluster holds up nothing else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from reconciler.engine.plan.amounts import Amount
from reconciler.engine.topic_list import owners, topic_list
from reconciler.engine.topology_map import topology_map
from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveMirror, LiveState
from reconciler.model.plan import Plan
from reconciler.model.reports.drift import History
from reconciler.model.state.rollout_progress import Promotion
from reconciler.render.live.view import (
    AuditTrail,
    ClustersSeen,
    JobsSeen,
    LiveReading,
    LiveView,
    Reviewed,
    affairs_now,
    live_now,
)
from reconciler.render.reports.status import StatusInputs
from reconciler.render.reports.watch import LagTrend
from reconciler.text import ANY_FOLDER

SLICE_SECONDS = 0.2
"""How soon a requested end is noticed."""
Opened = TypeVar("Opened")


@dataclass(frozen=True, slots=True)
class Paces:
    """Seconds from one reading to the next. Clusters and plans may take long: they are paused for nine times as long as
    they took, so that reading takes a tenth of the time at most, and for no longer than ``most_s``; for ``clusters_s``
    where a cluster has come back meanwhile. ``silent_s``: between looks at which clusters are silent."""

    jobs_s: float = 1.0
    lock_s: float = 1.0
    silent_s: float = 0.2
    clusters_s: float = 10.0
    review_s: float = 60.0
    most_s: float = 45.0

    def pause(self, took_s: float) -> float:
        return max(self.clusters_s, min(self.most_s, 9 * took_s))


ReadJobs = Callable[[], Mapping[str, LiveMirror | Unknown]]
ReadLock = Callable[[LiveState], StatusInputs]
ReadSilence = Callable[[], Mapping[str, Unknown]]
"""The clusters that do not answer now, and why. Raises nothing."""


class ClusterReads(Protocol):
    """``review``: the plan, what earlier runs did, and the clusters as it saw them. ``observe``: these alone."""

    def observe(self) -> LiveState: ...
    def review(self) -> ReviewRead: ...


class Sources(Protocol):
    """Where readings come from. Each is opened again when the folder declares something else; all raise
    ReconcilerError."""

    def read_topology(self) -> Topology: ...
    def jobs(self, topology: Topology) -> AbstractContextManager[ReadJobs]: ...
    def lock(self, topology: Topology) -> AbstractContextManager[ReadLock]: ...
    def silent(self, topology: Topology) -> AbstractContextManager[ReadSilence]: ...
    def clusters(self, topology: Topology) -> AbstractContextManager[ClusterReads]: ...


@dataclass(frozen=True, slots=True)
class ReviewRead:
    live: LiveState
    plan: Plan
    history: History
    trail: AuditTrail
    amounts: tuple[Amount, ...] = ()


class LiveReader:
    """``view`` is the newest one, at any time and for any thread. Use as a context manager."""

    def __init__(
        self,
        sources: Sources,
        paces: Paces | None = None,
        clock: Callable[[], float] = time.time,
        folder: str = ANY_FOLDER,
    ) -> None:
        """``folder``: of the environment, as a command names it. Raises ReconcilerError for a folder that cannot be
        read, before anything is connected."""
        self._sources = sources
        self._paces = paces or Paces()
        self._clock = clock
        self._view = LiveView(sources.read_topology(), folder=folder)
        self._swap = threading.Lock()
        self._stop = threading.Event()
        self._came_back = threading.Event()
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="live")
        self._threads: list[Future[None]] = []

    @property
    def view(self) -> LiveView:
        return self._view

    def __enter__(self) -> LiveReader:
        """One thread for each kind of reading, with paces of their own: a cluster that does not answer must not hold up
        the rest."""
        self._threads = [
            self._pool.submit(self._repeat, self._sources.jobs, self._jobs),
            self._pool.submit(self._repeat, self._sources.lock, self._lock),
            self._pool.submit(self._repeat, self._sources.silent, self._silent),
            self._pool.submit(self._repeat, self._sources.clusters, self._clusters),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown()

    def require_alive(self) -> None:
        """Raises what ended a thread: a fault of this program, after which its figures would only grow old."""
        for thread in self._threads:
            if thread.done():
                thread.result()

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    # threads

    def _repeat(
        self,
        opened: Callable[[Topology], AbstractContextManager[Opened]],
        read: Callable[[Topology, Opened], None],
    ) -> None:
        """Opens the source of ``read``, and again whenever the folder declares something else."""
        while not self._stop.is_set():
            topology = self._view.topology
            with opened(topology) as source:
                read(topology, source)

    def _goes_on(self, topology: Topology, seconds: float, due: Callable[[], bool] = lambda: False) -> bool:
        """Waits ``seconds``, or until ``due``; False if the view has another ``topology`` by then, or the server must
        stop."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._over(topology) and not due():
            self._stop.wait(min(SLICE_SECONDS, left))
        return not self._over(topology)

    def _over(self, topology: Topology) -> bool:
        return self._stop.is_set() or topology is not self._view.topology

    def _publish(self, **parts: Any) -> None:
        with self._swap:
            self._view = replace(self._view, **parts)

    def _failed(self, part: str, error: ReconcilerError) -> None:
        reading: LiveReading[object] = getattr(self._view, part)
        self._publish(**{part: replace(reading, failure=Unknown(part, error.what, error.todo))})

    def _jobs(self, topology: Topology, read: ReadJobs) -> None:
        """Mirrors as they report themselves. The trend of lags is kept between looks, by which the time left is
        estimated."""
        trend = LagTrend()
        while True:
            try:
                mirrors = read()
                left = trend.look(time.monotonic(), LiveState({}, mirrors).as_reported())
                self._publish(jobs=LiveReading(JobsSeen(mirrors, dict(left)), self.now_ms()))
            except ReconcilerError as error:
                self._failed("jobs", error)
            if not self._goes_on(topology, self._paces.jobs_s):
                return

    def _lock(self, topology: Topology, read: ReadLock) -> None:
        """Who holds the environment's lock, and what is under way there."""
        while True:
            try:
                lock = read(live_now(self._view, self.now_ms()))
                self._publish(lock=LiveReading(lock, self.now_ms()))
            except ReconcilerError as error:
                self._failed("lock", error)
            if not self._goes_on(topology, self._paces.lock_s):
                return

    def _silent(self, topology: Topology, read: ReadSilence) -> None:
        """Clusters that do not answer. When one comes back, the clusters are read at once, not only at the next
        pace."""
        while True:
            silent, before = read(), self._view.silent.value or {}
            self._publish(silent=LiveReading(silent, self.now_ms()))
            if before.keys() - silent.keys():
                self._came_back.set()
            if not self._goes_on(topology, self._paces.silent_s):
                return

    def _clusters(self, topology: Topology, source: ClusterReads) -> None:
        reviewed_at = None
        while True:
            began = time.monotonic()
            self._came_back.clear()
            try:
                if reviewed_at is None:  # clusters alone come sooner
                    self._see(topology, source.observe())
                if reviewed_at is None or began - reviewed_at >= self._paces.review_s:
                    reviewed_at = began
                    if self._folder_changed(topology):
                        return
                    review, at_ms = source.review(), self.now_ms()
                    self._see(topology, review.live, review.plan)
                    seen = self._view.clusters.value
                    assert seen is not None
                    owned = owners(topology, review.live)
                    reviewed = Reviewed(review.plan, seen.drawn, review.history, owned, review.amounts)
                    self._publish(review=LiveReading(reviewed, at_ms), audit=LiveReading(review.trail, at_ms))
                else:
                    self._see(topology, source.observe())
            except ReconcilerError as error:
                self._failed("clusters" if self._view.clusters.value is None else "review", error)
            least, pause = self._paces.clusters_s, self._paces.pause(time.monotonic() - began)
            # A cluster that has come back is known again as soon as it may be read.
            if not (self._goes_on(topology, least) and self._goes_on(topology, pause - least, self._came_back.is_set)):
                return

    def _folder_changed(self, topology: Topology) -> bool:
        """Whether the folder now declares something else; the view then begins again, but for its audit records. A
        folder that cannot be read leaves the last topology in place, with the problem shown on the page."""
        try:
            now = self._sources.read_topology()
        except ReconcilerError as error:
            self._publish(folder_problem=f"{error.what}\n{error.todo or error.why}")
            return False
        self._publish(folder_problem="")
        if now == topology:
            return False
        with self._swap:
            self._view = LiveView(now, audit=self._view.audit, folder=self._view.folder)
        return True

    def _see(self, topology: Topology, live: LiveState, plan: Plan | None = None) -> None:
        plan = plan or (self._view.review.value.plan if self._view.review.value is not None else None)
        rollout = affairs_now(self._view, self.now_ms()).rollout
        progress: Promotion | Unknown | None = rollout.promotion if rollout is not None else None
        drawn = topology_map(topology, live, plan, progress)
        seen = ClustersSeen(live.clusters, drawn, topic_list(topology, live))
        self._publish(clusters=LiveReading(seen, self.now_ms()))
