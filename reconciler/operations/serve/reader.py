"""Reads an environment periodically, once for all browsers, and holds the newest view of it.

Each kind of reading has its own thread and connections, so that a silent cluster delays no other kind.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from reconciler.backends.connections.requests import SignOfLife
from reconciler.engine.drift.causes import history
from reconciler.engine.observe.read_all import SilenceWatch
from reconciler.engine.plan.amounts import Amount
from reconciler.engine.topic_list import owners, topic_list
from reconciler.engine.topology_map import topology_map
from reconciler.errors import ReconcilerError, Unknown, or_unknown_why
from reconciler.model.environment.topology import Principal, Topology
from reconciler.model.live import LiveMirror, LiveState
from reconciler.model.plan import Plan
from reconciler.model.reports.drift import History
from reconciler.model.reports.failover import Way
from reconciler.model.state.rollout_progress import Promotion
from reconciler.operations.clusters.status import drills_of, lock_of, rollout_status
from reconciler.operations.clusters.verify_audit import verified
from reconciler.operations.failover.decide import move_of
from reconciler.operations.failover.survey import Survey
from reconciler.operations.review.drift import past_lines
from reconciler.operations.review.reviews import make_plan
from reconciler.operations.session.session import Session, read_topology
from reconciler.render.live import view as views
from reconciler.render.live.flows import Standings
from reconciler.render.live.view import AuditTrail
from reconciler.render.reports.status import StatusInputs
from reconciler.render.reports.watch import LagTrend
from reconciler.text import ANY_FOLDER

SLICE_SECONDS = 0.2
"""Longest delay before a thread notices a requested end."""
Opened = TypeVar("Opened")


@dataclass(frozen=True, slots=True)
class Paces:
    """Seconds between two readings. A reading of clusters or plans may take long; the pause after it is nine times as
    long, so that brokers are busy for a tenth of the time, but at most ``most_s``, and ``clusters_s`` if a cluster has
    come back meanwhile. ``silent_s``: seconds between checks for silent clusters."""

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
"""Silent cluster -> reason. Raises nothing."""


class ClusterReads(Protocol):
    """``review``: reads clusters, plans, and reads changes by earlier runs. ``observe``: only reads clusters."""

    def observe(self) -> LiveState: ...
    def review(self) -> ReviewRead: ...


class Sources(Protocol):
    """Sources of readings. Each is reopened when the folder's declarations change; all raise ReconcilerError."""

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
    trail: views.AuditTrail
    amounts: tuple[Amount, ...] = ()


class LiveReader:
    """``view`` is the newest view; any thread may read it at any time. Use as a context manager."""

    def __init__(
        self,
        sources: Sources,
        paces: Paces | None = None,
        clock: Callable[[], float] = time.time,
        folder: str = ANY_FOLDER,
    ) -> None:
        """``folder``: the environment's folder, for commands in texts. Raises ReconcilerError for a folder that cannot
        be read, before anything is connected."""
        self._sources = sources
        self._paces = paces or Paces()
        self._clock = clock
        self._view = views.LiveView(sources.read_topology(), folder=folder)
        self._swap = threading.Lock()
        self._stop = threading.Event()
        self._came_back = threading.Event()
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="live")
        self._threads: list[Future[None]] = []

    @property
    def view(self) -> views.LiveView:
        return self._view

    def __enter__(self) -> LiveReader:
        """Starts one thread for each kind of reading, with its own pace: a silent cluster must not delay the rest."""
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
        """Raises the exception that ended a thread: a bug, after which the page would show stale figures."""
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
        """Opens the source of ``read``, and reopens it when the folder's declarations change."""
        while not self._stop.is_set():
            topology = self._view.topology
            with opened(topology) as source:
                read(topology, source)

    def _goes_on(self, topology: Topology, seconds: float, due: Callable[[], bool] = lambda: False) -> bool:
        """Waits ``seconds``, or until ``due``. False if the view then has another ``topology``, or the server must
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
        reading: views.LiveReading[object] = getattr(self._view, part)
        self._publish(**{part: replace(reading, failure=Unknown(part, error.what, error.todo))})

    def _jobs(self, topology: Topology, read: ReadJobs) -> None:
        """Reads status records of mirrors. The trend of lags is kept between readings, to estimate the remaining
        time."""
        trend = LagTrend()
        while True:
            try:
                mirrors = read()
                left = trend.look(time.monotonic(), LiveState({}, mirrors).as_reported())
                self._publish(jobs=views.LiveReading(views.JobsSeen(mirrors, dict(left)), self.now_ms()))
            except ReconcilerError as error:
                self._failed("jobs", error)
            if not self._goes_on(topology, self._paces.jobs_s):
                return

    def _lock(self, topology: Topology, read: ReadLock) -> None:
        """Reads the holder of the environment's lock, and its progress."""
        while True:
            try:
                lock = read(views.live_now(self._view, self.now_ms()))
                self._publish(lock=views.LiveReading(lock, self.now_ms()))
            except ReconcilerError as error:
                self._failed("lock", error)
            if not self._goes_on(topology, self._paces.lock_s):
                return

    def _silent(self, topology: Topology, read: ReadSilence) -> None:
        """Checks for silent clusters. When one comes back, clusters are read at once, without waiting for the next
        turn."""
        while True:
            silent, before = read(), self._view.silent.value or {}
            self._publish(silent=views.LiveReading(silent, self.now_ms()))
            if before.keys() - silent.keys():
                self._came_back.set()
            if not self._goes_on(topology, self._paces.silent_s):
                return

    def _clusters(self, topology: Topology, source: ClusterReads) -> None:
        """The thread that reads clusters and plans, until the folder changes or the page ends."""
        reviewed_at = None
        while True:
            began = time.monotonic()
            self._came_back.clear()
            try:
                if reviewed_at is None:  # clusters without a plan are read sooner
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
                    reviewed = views.Reviewed(review.plan, seen.drawn, review.history, owned, review.amounts)
                    self._publish(
                        review=views.LiveReading(reviewed, at_ms), audit=views.LiveReading(review.trail, at_ms)
                    )
                else:
                    self._see(topology, source.observe())
            except ReconcilerError as error:
                self._failed("clusters" if self._view.clusters.value is None else "review", error)
            least, pause = self._paces.clusters_s, self._paces.pause(time.monotonic() - began)
            # A returned cluster counts as known again only once it is read.
            if not (self._goes_on(topology, least) and self._goes_on(topology, pause - least, self._came_back.is_set)):
                return

    def _folder_changed(self, topology: Topology) -> bool:
        """Whether the folder's declarations have changed; the view then starts afresh, apart from its audit records. If
        the folder cannot be read, the last topology stays, and the page shows the problem."""
        try:
            now = self._sources.read_topology()
        except ReconcilerError as error:
            self._publish(folder_problem=f"{error.what}\n{error.todo or error.why}")
            return False
        self._publish(folder_problem="")
        if now == topology:
            return False
        with self._swap:
            self._view = views.LiveView(now, audit=self._view.audit, folder=self._view.folder)
        return True

    def _see(self, topology: Topology, live: LiveState, plan: Plan | None = None) -> None:
        plan = plan or (self._view.review.value.plan if self._view.review.value is not None else None)
        rollout = views.affairs_now(self._view, self.now_ms()).rollout
        progress: Promotion | Unknown | None = rollout.promotion if rollout is not None else None
        drawn = topology_map(topology, live, plan, progress)
        seen = views.ClustersSeen(live.clusters, drawn, topic_list(topology, live))
        self._publish(clusters=views.LiveReading(seen, self.now_ms()))


POLL_SECONDS = 0.3
"""Seconds that one check waits for clusters without an answer."""


class SessionSources:
    """``reader.Sources`` of an environment's folder. ``say``: takes words about unreadable audit records."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.say = say

    def read_topology(self) -> Topology:
        return read_topology(self.folder)

    @contextmanager
    def jobs(self, topology: Topology) -> Iterator[ReadJobs]:
        with self._session(topology) as session, session.watch() as watched:
            yield lambda: watched.look().mirrors

    @contextmanager
    def lock(self, topology: Topology) -> Iterator[ReadLock]:
        with self._session(topology) as session:

            def read(live: LiveState) -> StatusInputs:
                lock = lock_of(session, live)
                return StatusInputs(lock, rollout_status(session, live, lock), drills=drills_of(session, live))

            yield read

    @contextmanager
    def silent(self, topology: Topology) -> Iterator[ReadSilence]:
        asked = {name: SignOfLife(cluster, Principal.PLAN) for name, cluster in topology.clusters.items()}
        with ExitStack() as closed, ThreadPoolExecutor(max(1, len(asked)), thread_name_prefix="silent") as pool:
            for sign in asked.values():
                closed.callback(sign.close)
            yield partial(SilenceWatch(pool, asked).look, POLL_SECONDS)

    @contextmanager
    def clusters(self, topology: Topology) -> Iterator[ClusterReads]:
        with self._session(topology) as session:
            yield _Clusters(session, self.say)

    def _session(self, topology: Topology) -> closing[Session]:
        return closing(Session(self.folder, topology, Principal.PLAN))


class _Clusters:
    def __init__(self, session: Session, say: Callable[[str], None]) -> None:
        self._session = session
        self._say = say

    def observe(self) -> LiveState:
        return self._session.observe()

    def review(self) -> ReviewRead:
        plan = make_plan(self._session)
        live = self._session.last.live
        assert live is not None  # making a plan reads everything
        lines = past_lines(self._session, self._say)
        trail = AuditTrail(tuple(lines), verified(self._session))
        return ReviewRead(live, plan, history(lines), trail, self._session.last.amounts)


KEPT_SECONDS = 15.0


def survey_groups(topology: Topology, flow: str) -> Standings:
    """Surveys groups on both sides as `failover --dry-run` does, as the principal `mirror`. Raises ReconcilerError."""
    survey = Survey(topology, move_of(topology, Way.FAILOVER, flow))
    survey.try_origin()
    groups, unsupported = survey.groups()
    lost = survey.lost.error if survey.lost is not None else ""
    return Standings(int(time.time() * 1000), survey.move, groups, unsupported, lost)


class StandingsReader:
    """Surveys for all pages, one at a time: each puts load on both clusters."""

    def __init__(
        self,
        topology: Callable[[], Topology],
        survey: Callable[[Topology, str], Standings] = survey_groups,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topology = topology
        self._survey = survey
        self._clock = clock
        self._asking = threading.Lock()
        self._kept: dict[str, tuple[float, Standings | Unknown]] = {}

    def of(self, flow: str) -> Standings | Unknown:
        """The survey of a flow, at most ``KEPT_SECONDS`` old: a survey asks both clusters for every group, and any
        number of browsers share it."""
        with self._asking:
            topology = self._topology()
            self._kept = {
                name: kept
                for name, kept in self._kept.items()
                if name in topology.flows and self._clock() - kept[0] < KEPT_SECONDS
            }
            if flow not in self._kept:
                if flow not in topology.flows:
                    return Unknown(f"flow {flow}", "no such flow is declared", "Choose one of those that are.")
                at, survey = self._clock(), partial(self._survey, topology, flow)
                self._kept[flow] = at, or_unknown_why(f"flow {flow}", survey)
            return self._kept[flow][1]
