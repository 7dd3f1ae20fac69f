"""Readings of the live page from sessions: as the plan principal, by what `status`, `plan` and `audit verify` read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from reconciler.backends.connections.sign_of_life import SignOfLife
from reconciler.engine.drift.causes import history
from reconciler.engine.observe.read_all import MirrorWatch
from reconciler.engine.observe.silence import SilenceWatch
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Principal, Topology
from reconciler.model.live import LiveMirror, LiveState
from reconciler.operations.clusters.verify_audit import verified
from reconciler.operations.controller.rollout_world import lock_of, standing
from reconciler.operations.review.drift import past_lines
from reconciler.operations.review.reviews import make_plan
from reconciler.operations.serve.reader import ClusterReads, JobReader, LockReader, ReviewRead, SilenceReader
from reconciler.operations.session.session import Session, read_topology
from reconciler.render.live.view import AuditTrail
from reconciler.render.reports.status import StatusInputs

LOOK_SECONDS = 0.3
"""How long one look waits for clusters that have not answered yet."""


class SessionSources:
    """``reader.Sources`` of an environment's folder. ``say``: what could not be read of the audit record."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.say = say

    def read_topology(self) -> Topology:
        return read_topology(self.folder)

    @contextmanager
    def jobs(self, topology: Topology) -> Iterator[JobReader]:
        with self._session(topology) as session, session.watch() as watched:
            yield _Jobs(watched)

    @contextmanager
    def lock(self, topology: Topology) -> Iterator[LockReader]:
        with self._session(topology) as session:
            yield _Lock(session)

    @contextmanager
    def silent(self, topology: Topology) -> Iterator[SilenceReader]:
        asked = {name: SignOfLife(cluster, Principal.PLAN) for name, cluster in topology.clusters.items()}
        with ExitStack() as closed, ThreadPoolExecutor(max(1, len(asked)), thread_name_prefix="silent") as pool:
            for sign in asked.values():
                closed.callback(sign.close)
            yield _Silence(SilenceWatch(pool, asked))

    @contextmanager
    def clusters(self, topology: Topology) -> Iterator[ClusterReads]:
        with self._session(topology) as session:
            yield _Clusters(session, self.say)

    def _session(self, topology: Topology) -> closing[Session]:
        return closing(Session(self.folder, topology, Principal.PLAN))


class _Jobs:
    def __init__(self, watched: MirrorWatch) -> None:
        self._watched = watched

    def look(self) -> Mapping[str, LiveMirror | Unknown]:
        return self._watched.look().mirrors


class _Silence:
    def __init__(self, watch: SilenceWatch) -> None:
        self._watch = watch

    def look(self) -> Mapping[str, Unknown]:
        return self._watch.look(LOOK_SECONDS)


class _Lock:
    def __init__(self, session: Session) -> None:
        self._session = session

    def look(self, live: LiveState) -> StatusInputs:
        lock = lock_of(self._session, live)
        return StatusInputs(lock, standing(self._session, live, lock))


class _Clusters:
    def __init__(self, session: Session, say: Callable[[str], None]) -> None:
        self._session = session
        self._say = say

    def observe(self) -> LiveState:
        return self._session.observe()

    def review(self) -> ReviewRead:
        plan = make_plan(self._session)
        live = self._session.last.live
        assert live is not None  # a plan looks at everything
        lines = past_lines(self._session, self._say)
        trail = AuditTrail(tuple(lines), verified(self._session))
        return ReviewRead(live, plan, history(lines), trail, self._session.last.amounts)
