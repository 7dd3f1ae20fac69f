"""Sources of the live page: sessions of the plan principal, which read as `status`, `plan` and `audit verify` do, and
surveys of groups on both sides of a flow, as `failover --dry-run` makes them."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from reconciler.backends.connections.requests import SignOfLife
from reconciler.engine.drift.causes import history
from reconciler.engine.observe.read_all import SilenceWatch
from reconciler.errors import Unknown, or_unknown_why
from reconciler.model.environment.topology import Principal, Topology
from reconciler.model.live import LiveState
from reconciler.model.reports.failover import Way
from reconciler.operations.clusters.status import drills_of, lock_of, rollout_status
from reconciler.operations.clusters.verify_audit import verified
from reconciler.operations.failover.decide import move_of
from reconciler.operations.failover.survey import Survey
from reconciler.operations.review.drift import past_lines
from reconciler.operations.review.reviews import make_plan
from reconciler.operations.serve.reader import ClusterReads, ReadJobs, ReadLock, ReadSilence, ReviewRead
from reconciler.operations.session.session import Session, read_topology
from reconciler.render.live.groups import Standings
from reconciler.render.live.view import AuditTrail
from reconciler.render.reports.status import StatusInputs

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
