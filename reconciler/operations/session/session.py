"""The session of a command: opens an environment's clusters, reads and plans."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.clusters.topics.read import ReadAhead
from reconciler.backends.connections.own import Visits
from reconciler.backends.files import environment_name, read_readable
from reconciler.backends.git import Revision, lacks, origin_of
from reconciler.backends.mirror_jobs.runner.run_folder import state_folder
from reconciler.backends.mirror_jobs.runner.spark_submit import SparkRunner
from reconciler.backends.mirror_jobs.status.records import StatusRecords
from reconciler.backends.state.environment_records import read_last_apply
from reconciler.backends.state.home import look
from reconciler.engine.observe.read_all import MirrorWatch, ReadScope, observe, unlisted, with_answers, with_named
from reconciler.engine.plan.amounts import Amount
from reconciler.environment.load import load
from reconciler.environment.load_clusters import NO_HEAD, Head
from reconciler.errors import ClusterError, Problem, ReconcilerError, Unknown
from reconciler.model.environment.topology import Cluster, Principal, TopicRef, Topology
from reconciler.model.live import JobState, LiveCluster, LiveMirror, LiveState
from reconciler.model.state.home import OtherPrefixError, home_of
from reconciler.model.state.last_apply import Applied, Consent
from reconciler.model.state.left_by_apply import LeftCluster
from reconciler.model.state.lock import lock_cluster
from reconciler.operations.session.early_reads import Begun
from reconciler.operations.session.mirror_runners import MirrorRunners, UnseenJobs, order_stop
from reconciler.operations.session.moved_pauses import status_place
from reconciler.replication.runs.run_folders import HANDOVER
from reconciler.resources.acls.desired import access_clusters
from reconciler.resources.quotas.diff import quota_clusters
from reconciler.resources.users.diff import user_clusters

NOTHING_AGREED = Consent()
"""Agrees to nothing that a guard asks consent for."""


def read_topology(folder: Path) -> Topology:
    texts, unread = read_readable(folder)
    return _loaded(folder, texts, unread)


def _loaded(folder: Path, texts: Mapping[str, str], unread: Sequence[Problem], head: Head = NO_HEAD) -> Topology:
    return load(texts, environment_name(folder), head=head, expired_too=True, unread=unread)


class ReadApply(NamedTuple):
    """``left``: cluster -> state that the last apply left; None if the record was not read."""

    applied: Applied | Unknown | None
    left: Mapping[str, LeftCluster] | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """The last reads of a session."""

    live: LiveState | None = None
    applied: Applied | Unknown | None = None
    """The record of the last apply."""
    left: Mapping[str, LeftCluster] = field(default_factory=dict)
    """Cluster -> state that it left."""
    origin: str = ""
    """Repository and folder of the last plan."""
    newer: bool = False
    """The last apply was of a commit that this checkout lacks."""
    amounts: tuple[Amount, ...] = ()
    """Records that this plan copies, loses and moves."""


class Session:
    """One environment with its connections, opened for one principal. Use ``open_session``."""

    def __init__(self, folder: Path, topology: Topology, principal: Principal, ahead: ReadAhead | None = None) -> None:
        """``ahead``: early reads of the same clusters, which the session closes. Raises ReconcilerError."""
        lock_cluster(topology)  # raises for a topology without clusters
        self.folder = folder
        self.topology = topology
        self.principal = principal
        self.last = Seen()
        self.state = state_folder(folder)
        self._ahead = ahead
        clusters = topology.clusters.items()
        self.clusters: dict[str, KafkaCluster] = {}
        for name, declared in clusters:
            begun = partial(ahead.take, name) if ahead is not None and ahead.reads(declared) else None
            self.clusters[name] = KafkaCluster(declared, principal, topology.environment, begun)
        self.records = {
            name: StatusRecords(declared, topology.environment, principal, moved_from=topology.moved_from)
            for name, declared in clusters
        }
        self.strays: Mapping[str, LiveMirror] = {}
        self._heard: dict[str, str] = {}  # by mirror: where an application of it reported last that it runs
        self.visits = Visits()
        unseen = UnseenJobs(topology, self.records, principal, self.status, lambda: self.read_last_apply().applied)
        here = SparkRunner(
            self.state,
            topology.mirrors,
            self.status,
            unseen.here,
            unseen.require_heard,
            order_stop=partial(order_stop, self.records, principal),
        )
        self.runner = MirrorRunners(folder, topology, principal, here, lambda: self.last.live, self.records)

    def close(self) -> None:
        # Early reads first: their answers are no longer needed.
        if self._ahead is not None:
            self._ahead.close()
        self.visits.close()
        for record in self.records.values():
            record.close()
        self.runner.close()
        for cluster in self.clusters.values():
            cluster.close()

    def status(self, mirror: str) -> LiveMirror | None:
        """The newest status record of a mirror, from the cluster that keeps it. Raises ClusterError."""
        declared = self.topology.mirrors.get(mirror)
        if declared is None:
            return self.strays.get(mirror)
        place = self.topology.status_cluster(declared)
        newest = self._status_at(place, mirror)
        # An edit may move it; a running job moves only at its next start. The record of an application that ended with
        # such a move still says that it runs.
        others = {status_place(self.runner.here.folder(mirror).read(HANDOVER)), self._heard.get(mirror)} - {place}
        reported = [self._status_at(other, mirror) for other in self.records if other in others]
        return max(
            filter(None, (newest, *reported)),
            key=lambda each: (each.state is JobState.RUNNING, each.updated_at_ms or 0),
            default=None,
        )

    def _status_at(self, cluster: str, mirror: str) -> LiveMirror | None:
        return self.records[cluster].read(mirror, now_ms(), self.runner.here.has_lost)

    def observe(self, asked: Iterable[TopicRef] = ()) -> LiveState:
        """Reads all clusters, all mirrors of the topology, and running mirrors that are no longer declared. Topics that
        git, flows or ``asked`` name are read by name if no cluster lists them."""

        quotas = quota_clusters(self.topology)
        wanted = ReadScope(access_clusters(self.topology), quotas, quotas, user_clusters(self.topology))

        def mirrors_and_strays() -> Mapping[str, LiveMirror | Unknown]:
            self.strays = self._strays()
            return observe({}, self.runner, (*self.topology.mirrors, *self.strays)).mirrors

        with ThreadPoolExecutor(1) as aside:
            jobs = aside.submit(mirrors_and_strays)
            listed = observe(self.clusters, wanted=wanted)
            named = with_named(listed, unlisted(self.topology, listed, asked), self.clusters)
            live = LiveState(named.clusters, jobs.result())
        self.last = replace(self.last, live=live)
        return live

    def whole(self, cluster: str, *names: str) -> LiveCluster:
        """Reads one cluster, and topics ``names`` even if it does not list them. Raises ClusterError."""
        listed = self.clusters[cluster].read()
        missing = sorted(set(names) - listed.topics.keys())
        return with_answers(listed, self.clusters[cluster].read(missing)) if missing else listed

    def find_strays(self, mirrors: Collection[str]) -> None:
        """Reads undeclared jobs again if one of ``mirrors`` is undeclared."""
        self.strays = self._strays() if set(mirrors) - set(self.topology.mirrors) else {}

    @contextmanager
    def watch(self) -> Iterator[MirrorWatch]:
        """Reads only mirrors of the topology: cheap enough for every two seconds."""
        with ThreadPoolExecutor(max(1, len(self.topology.mirrors))) as pool:
            yield MirrorWatch(pool, self.runner, self.topology.mirrors)

    def find_home(self, live: LiveState | None = None) -> Cluster:
        """The cluster that keeps the lock; ``topology`` remembers it. Clusters that ``live`` has as unknown are not
        asked again.

        Raises ClusterError if a cluster that keeps or may keep it does not answer, BlockedError if none keeps it.
        """
        names = [name for name in self.topology.clusters if live is None or live.known(name)]
        home = home_of(self.topology, look(self.topology, self.principal, names)).home
        self.topology = replace(self.topology, lock_home=home)
        return self.topology.clusters[home]

    def read_last_apply(self, consent: Consent = NOTHING_AGREED) -> ReadApply:
        """The record of the last apply; Unknown if the plan principal cannot read it. Raises ReconcilerError if the
        apply principal cannot read it, unless ``consent`` covers an invalid record, and OtherPrefixError."""
        try:
            place = lock_cluster(self.topology) if self.topology.lock_home else self.find_home()
            return ReadApply(*read_last_apply(place, self.topology.environment, self.principal))
        except OtherPrefixError:
            raise
        except ReconcilerError as error:
            if isinstance(error, ClusterError) and error.kind == "invalid" and consent.shrink and consent.first_contact:
                return ReadApply(None)
            if self.principal is Principal.APPLY and getattr(error, "kind", "") != "unreachable":
                raise
            name = getattr(error, "cluster", "")
            return ReadApply(Unknown(f"its record on {name}" if name else "its record", error.what, error.todo))

    def keep_last_apply(self, read: ReadApply, here: Revision) -> None:
        """``here``: the checked-out revision. If the record was not read, an earlier one stays in use."""
        applied, left = read.applied, self.last.left if read.left is None else read.left
        origin, newer = here.origin, False
        if isinstance(applied, Applied):
            origin = origin_of(self.folder, here, applied.origin, applied.commit)
            newer = lacks(self.folder, here, applied.commit)
        self.last = replace(self.last, applied=applied, left=left, origin=origin, newer=newer)

    def _strays(self) -> dict[str, LiveMirror]:
        """Running jobs of this environment that are undeclared; takes note of where the declared ones report. A silent
        cluster is skipped: ``observe`` reports it."""

        def ask(records: StatusRecords) -> Iterable[LiveMirror]:
            try:
                return [m for m in records.read_all(now_ms()).values() if isinstance(m, LiveMirror)]
            except ReconcilerError:
                return []

        with ThreadPoolExecutor(max_workers=max(1, len(self.records))) as pool:
            answers = dict(zip(self.records, pool.map(ask, self.records.values()), strict=True))
        mirrors = [(mirror, cluster) for cluster, jobs in answers.items() for mirror in jobs]
        running = [each for each in mirrors if each[0].state is JobState.RUNNING]
        running.sort(key=lambda each: each[0].updated_at_ms or 0)
        self._heard = {mirror.name: cluster for mirror, cluster in running}
        return {mirror.name: mirror for mirror, _ in mirrors if mirror.name not in self.topology.mirrors}


def now_ms() -> int:
    return int(time.time() * 1000)


@contextmanager
def open_session(folder: Path, principal: Principal, begun: Begun | None = None) -> Iterator[Session]:
    """``begun``: early reads of the same folder and principal, closed at the end. Without it, nothing is connected
    before the topology is checked. Raises TopologyError without waiting for a cluster."""
    try:
        if begun is None:
            session = Session(folder, read_topology(folder), principal)
        else:
            session = Session(folder, _loaded(folder, begun.texts, begun.unread, begun.head), principal, begun.ahead)
    except BaseException:
        if begun is not None:
            begun.close()
        raise
    try:
        yield session
    finally:
        session.close()
