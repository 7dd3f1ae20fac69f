"""Puts edges into doings for one environment folder: what every command needs before it can say anything.

Border: no arguments, no exit codes, no printing; those are ``cli``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from reconciler.access import access_clusters
from reconciler.applied import SANDBOX_PREFIX, Applied, Consent
from reconciler.authorizing.readers import reading_questions, with_readers
from reconciler.beginning import Begun
from reconciler.changes import AlterQuota, AlterUser, TopicChange, cluster_of
from reconciler.edges.applied_record import read_applied, read_applied_elsewhere
from reconciler.edges.files import environment_name, read_readable
from reconciler.edges.git import Revision, origin_of, revision
from reconciler.edges.kafka.admin import KafkaCluster
from reconciler.edges.kafka.read_ahead import ReadAhead
from reconciler.edges.kafka.stakes import ask_stakes, read_nature
from reconciler.edges.run_folders import state_folder
from reconciler.edges.secrets import require_secrets
from reconciler.edges.spark import SparkRunner
from reconciler.edges.status_records import StatusRecords
from reconciler.enrolling import user_clusters
from reconciler.errors import BlockedError, ClusterError, Moved, Problem, ReconcilerError, Unknown
from reconciler.guarding import applied_now, clusters_of, from_here, guarded, unjudged, unmet
from reconciler.guarding.contact import todo
from reconciler.guarding.elsewhere import moved_record, other_repository
from reconciler.guarding.shrinking import shrunken
from reconciler.heading import NO_HEAD, Head
from reconciler.limiting import quota_clusters
from reconciler.live import LiveCluster, LiveMirror, LiveState
from reconciler.loading import load, no_collection
from reconciler.locks import LOCK_TOPIC, lock_cluster
from reconciler.observations import topology_digest
from reconciler.observing import Wanted, Watch, observe, with_hidden
from reconciler.placing.looking import look_closer
from reconciler.planning import basis_now, plan, still_true, with_broker_refusals
from reconciler.plans import Edition, Plan
from reconciler.rereading import Narrow, ground, unreadable
from reconciler.topology import Cluster, Principal, Topology
from reconciler.weighing import described, filled, on_empty, questions, together, weighed

NOTHING_AGREED = Consent()
"""Takes all that the guards said off a saved plan, so that they can say it anew."""


def read_topology(folder: Path) -> Topology:
    texts, unread = read_readable(folder)
    return _loaded(folder, texts, unread)


def _loaded(folder: Path, texts: Mapping[str, str], unread: Sequence[Problem], head: Head = NO_HEAD) -> Topology:
    return load(texts, environment_name(folder), head=head, expired_too=True, unread=unread)


class Session:
    """One environment with its connections, opened for one principal. Use ``open_session``."""

    def __init__(self, folder: Path, topology: Topology, principal: Principal, ahead: ReadAhead | None = None) -> None:
        """``ahead``: reads of the same clusters that have begun. The session closes it. Raises ReconcilerError."""
        lock_cluster(topology)  # there is none to ask where none is declared
        self.folder = folder
        self.topology = topology
        self.principal = principal
        self.applied: Applied | Unknown | None = None
        self.origin = ""
        """Repository and folder of the last plan."""
        self.state = state_folder(folder)
        self._ahead = ahead
        self.clusters = {
            name: KafkaCluster(wish, principal, topology.environment, self._begun(wish))
            for name, wish in topology.clusters.items()
        }
        self.records = {
            name: StatusRecords(wish, topology.environment, principal) for name, wish in topology.clusters.items()
        }
        self.strays: Mapping[str, LiveMirror] = {}
        self.seen: LiveState | None = None
        self.runner = SparkRunner(self.state, topology.mirrors, self.status)

    def _begun(self, wish: Cluster) -> Callable[[], LiveCluster | None] | None:
        return partial(self._ahead.take, wish.name) if self._ahead is not None and self._ahead.reads(wish) else None

    def close(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
        for record in self.records.values():
            record.close()
        for cluster in self.clusters.values():
            cluster.close()

    def status(self, mirror: str) -> LiveMirror | None:
        """The newest status record of a mirror, from the cluster that carries it. Raises ClusterError."""
        wish = self.topology.mirrors.get(mirror)
        if wish is None:
            return self.strays.get(mirror)
        return self.records[self.topology.status_cluster(wish)].read(mirror, now_ms(), self.runner.has_lost)

    def observe(self) -> LiveState:
        """Everything: all clusters, all mirrors of the topology, and running ones that left it."""
        quotas = quota_clusters(self.topology)
        wanted = Wanted(access_clusters(self.topology), quotas, quotas, user_clusters(self.topology))
        with ThreadPoolExecutor(1) as aside:
            jobs = aside.submit(self._mirrors_and_strays)
            clusters = observe(self.clusters, wanted=wanted).clusters
            self.seen = LiveState(clusters, jobs.result())
        return self.seen

    def _mirrors_and_strays(self) -> Mapping[str, LiveMirror | Unknown]:
        self.strays = self._strays()
        return observe({}, self.runner, (*self.topology.mirrors, *self.strays)).mirrors

    @contextmanager
    def watch(self) -> Iterator[Watch]:
        """The mirrors of the topology alone: cheap enough for every other second."""
        with ThreadPoolExecutor(max(1, len(self.topology.mirrors))) as pool:
            yield Watch(pool, self.runner, self.topology.mirrors)

    @no_collection()
    def plan(self, seen: Revision | None = None, consent: Consent = NOTHING_AGREED, alone: bool = False) -> Plan:
        """``alone``: nobody will read it, so nothing is asked that only people want to know.

        Raises ClusterError when the apply principal cannot read the record of the last apply.
        """
        here = revision(self.folder)
        seen = seen or here
        with ThreadPoolExecutor(len(self.topology.clusters) + 2) as aside:
            applied = aside.submit(self._read_applied, consent)
            wishes = {} if alone else self.topology.clusters
            natures = {name: aside.submit(read_nature, wish, self.principal) for name, wish in wishes.items()}
            observed = aside.submit(self.observe)
            edition = Edition(seen.commit, seen.dirty, topology_digest(self.topology))  # while clusters answer
            live = observed.result()
            self.applied = applied.result()
            told = {name: future.result() for name, future in natures.items()}
        moved = self._look_elsewhere(live)
        self.origin = self._origin(here)
        live = look_closer(self.topology, live, self.clusters)
        made = plan(self.topology, live, self._previous(), edition, consent.prune)
        if (closer := with_hidden(made, live, self.clusters)) is not live:
            live = closer
            made = plan(self.topology, live, self._previous(), edition, consent.prune)
        made = replace(made, notes=(*made.notes, *moved))
        return self._reviewed(described(made, told), live, consent, alone)

    def _look_elsewhere(self, live: LiveState) -> tuple[str, ...]:
        """The cluster that keeps the record may have become the first by name since the last apply."""
        if self.applied is not None:
            return ()
        others = [
            wish
            for name, wish in self.topology.clusters.items()
            if name != lock_cluster(self.topology).name and (one := live.known(name)) and LOCK_TOPIC in one.topics
        ]
        found = read_applied_elsewhere(others, self.topology.environment, self.principal)
        if found is None:
            return ()
        self.applied = found[1]
        return (moved_record(self.topology, found[0]),)

    def _origin(self, here: Revision) -> str:
        before = self.applied
        return (
            origin_of(self.folder, here, before.origin, before.commit) if isinstance(before, Applied) else here.origin
        )

    def _reviewed(self, made: Plan, live: LiveState, consent: Consent, alone: bool) -> Plan:
        """With what speaks against it, and what its dangerous changes put at stake: all clusters are asked at once."""
        asked = {} if alone else together(questions(made, live), reading_questions(made, live))
        with ThreadPoolExecutor(max(1, len(asked))) as pool:
            stakes = ask_stakes(pool, self.topology.clusters, self.principal, asked)
            made = from_here(self._checked(made), self.applied, self.origin)
            made = guarded(made, self.topology, live, self.applied, consent)
            told = stakes()
        if alone:
            return made
        made = weighed(made, self.topology, told)
        return with_readers(made, live, told) if asked else made

    def guard(self, saved: Plan, consent: Consent) -> Plan:
        """A saved plan with what speaks against it now. Reads only clusters that nobody has vouched for."""
        self.applied = self._read_applied(consent)
        strange = {name: self.clusters[name] for name in self._strange(saved) if name in self.clusters}
        live = observe(strange)
        self._look_elsewhere(live)
        self.origin = self._origin(revision(self.folder))
        made = from_here(unjudged(saved), self.applied, self.origin)
        return guarded(made, self.topology, live, self.applied, consent)

    def remembered(self, done: Plan, consent: Consent, by: Applied) -> Applied | None:
        """The record that an apply of ``done`` leaves behind; None when nothing changed or the wish must not count."""
        before = self.applied if isinstance(self.applied, Applied) else None
        if not consent.shrink and any(shrunken(self.topology, before)):
            return None
        if not consent.first_contact and any(other_repository(before, self.origin)):
            return None
        touched = {name for planned in done.changes for name in clusters_of(planned.change, self.topology)}
        strange = set(self._strange(done)) - touched
        met = {
            one.name: one.cluster_id
            for one in done.basis.clusters
            if one.cluster_id is not None and (consent.first_contact or one.name not in strange)
        }
        origin = self.origin or (before.origin if before is not None else "")
        found = applied_now(self.topology, before, met, replace(by, origin=origin))
        return None if before is not None and found.same_wish(before) else found

    def require_met(self, cluster: Cluster) -> None:
        """Raises BlockedError for a cluster that nobody vouched for and that this program never wrote to."""
        reader = self.clusters[cluster.name]
        if cluster.cluster_id is not None or LOCK_TOPIC in reader.read((LOCK_TOPIC,)).topics:
            return
        found = reader.read()
        if what := unmet(cluster, found, None):
            why = "Nothing was changed; the lock of the environment would be the first thing to be written there."
            raise BlockedError(what, why, f"{todo(cluster.name, found.cluster_id)}.")

    def _strange(self, made: Plan) -> Iterator[str]:
        """Clusters of the plan that neither git, nor an earlier apply, nor their own id vouches for."""
        met = self.applied.clusters if isinstance(self.applied, Applied) else {}
        for one in made.basis.clusters:
            wish = self.topology.clusters.get(one.name)
            if wish is None or one.cluster_id is None or wish.cluster_id is not None:
                continue
            if met.get(one.name) != one.cluster_id and not one.cluster_id.startswith(SANDBOX_PREFIX):
                yield one.name

    def _read_applied(self, consent: Consent) -> Applied | Unknown | None:
        place = lock_cluster(self.topology)
        try:
            return read_applied(place, self.topology.environment, self.principal)
        except ReconcilerError as error:
            if isinstance(error, ClusterError) and error.kind == "invalid" and consent.shrink and consent.first_contact:
                return None
            if self.principal is Principal.APPLY and getattr(error, "kind", "") != "unreachable":
                raise
            return Unknown(f"its record on {place.name}", error.what, error.todo)

    def moved(self, planned: Plan) -> tuple[Moved, ...]:
        """What of the plan's ground is no longer as it was; reads only that ground."""
        wanted = ground(one.subject for one in planned.basis.observed)
        readers = {n: Narrow(self.clusters[n], names) for n, names in wanted.topics.items() if n in self.clusters}
        self.strays = self._strays() if set(wanted.mirrors) - set(self.topology.mirrors) else {}
        live = observe(readers, self.runner, wanted.mirrors, wanted.more)
        if unknown := unreadable(live):
            raise ReconcilerError(
                "nothing was applied: what the plan rests on could not be read again",
                "\n".join(f"  {one.subject}: {one.error}" for one in unknown),
                "Mend it and apply again.",
            )
        return (*still_true(planned, basis_now(planned, self.topology, live)), *self._filled(planned, live))

    def _filled(self, planned: Plan, live: LiveState) -> tuple[Moved, ...]:
        asked = on_empty(planned, live)
        with ThreadPoolExecutor(max(1, len(asked))) as pool:
            return filled(planned, ask_stakes(pool, self.topology.clusters, self.principal, asked)())

    def require_secrets(self, planned: Plan) -> None:
        """Raises SecretError with every password of the plan that cannot be had here, before anything is changed."""
        require_secrets(
            (f"user {change.cluster}/{change.user}", change.password)
            for change in (one.change for one in planned.changes)
            if isinstance(change, AlterUser)
        )

    def _previous(self) -> dict[str, Mapping[str, object]]:
        return {name: self.runner.folder(name).read("handover.json") for name in self.topology.mirrors}

    def _checked(self, made: Plan) -> Plan:
        """With the brokers' own check of topics and quotas; where they cannot be asked, the plan says so."""
        asked: dict[tuple[str, bool], list[TopicChange | AlterQuota]] = {}
        for planned in made.changes:
            if isinstance(planned.change, TopicChange | AlterQuota):
                key = cluster_of(planned.change), isinstance(planned.change, AlterQuota)
                asked.setdefault(key, []).append(planned.change)
        refusals: dict[str, str] = {}
        unasked: dict[str, str] = {}
        with ThreadPoolExecutor(max(1, len(asked))) as pool:
            answers = {key: pool.submit(self.clusters[key[0]].validate, some) for key, some in asked.items()}
            for (name, _), answer in answers.items():
                try:
                    refusals |= answer.result()
                except ClusterError as error:
                    unasked[name] = "; ".join(filter(None, (unasked.get(name), error.what)))
        return with_broker_refusals(made, refusals, unasked)

    def _strays(self) -> dict[str, LiveMirror]:
        """Jobs of this environment that run without being declared. A silent cluster is told by ``observe``."""

        def ask(records: StatusRecords) -> Iterable[LiveMirror]:
            try:
                return [m for m in records.read_all(now_ms()).values() if isinstance(m, LiveMirror)]
            except ReconcilerError:
                return []

        with ThreadPoolExecutor(max_workers=max(1, len(self.records))) as pool:
            found = [mirror for mirrors in pool.map(ask, self.records.values()) for mirror in mirrors]
        return {mirror.name: mirror for mirror in found if mirror.name not in self.topology.mirrors}


def now_ms() -> int:
    return int(time.time() * 1000)


@contextmanager
def open_session(folder: Path, principal: Principal, begun: Begun | None = None) -> Iterator[Session]:
    """``begun``: of the same folder and principal, for commands that will want whole clusters; closed in the end.
    Without it nothing is connected before the topology is checked. Raises TopologyError, which waits for no cluster."""
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
