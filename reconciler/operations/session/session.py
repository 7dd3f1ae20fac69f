"""The session of a command: opens an environment's clusters, reads and plans."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.clusters.impact import ask_stakes, read_nature
from reconciler.backends.clusters.topics.read_ahead import ReadAhead
from reconciler.backends.files import environment_name, read_readable
from reconciler.backends.git import Revision, origin_of, revision
from reconciler.backends.mirror_jobs.host.route import RoutedRunner
from reconciler.backends.mirror_jobs.runner.run_folder import state_folder
from reconciler.backends.mirror_jobs.status.records import StatusRecords
from reconciler.backends.secrets import require_secrets
from reconciler.backends.state.environment_records import read_last_apply
from reconciler.backends.state.lock.home import look
from reconciler.backends.state.lock.topic_refused import lock_topic_refused
from reconciler.engine.guards import applied_now, from_here, guarded, unjudged
from reconciler.engine.guards.first_contact import clusters_of, todo, unmet
from reconciler.engine.guards.other_repository import other_repository
from reconciler.engine.guards.remote_topics import copied_again, copied_first, copies_of, judge, with_remote_topics
from reconciler.engine.observe.cluster_ids import strangers
from reconciler.engine.observe.read_all import MirrorWatch, ReadScope, observe, with_answers, with_named
from reconciler.engine.observe.unlisted import unlisted
from reconciler.engine.plan.amounts import Amount, amounts, beginning_to_travel, copy_questions
from reconciler.engine.plan.build import basis_now, plan, still_true, with_broker_refusals
from reconciler.engine.plan.fingerprints import basis, topology_digest, unreadable
from reconciler.engine.plan.impact import described, filled, on_empty, questions, together, weighed
from reconciler.environment.load import load, no_collection
from reconciler.environment.load_clusters import NO_HEAD, Head
from reconciler.errors import BlockedError, ClusterError, Moved, Problem, ReconcilerError, Unknown
from reconciler.model.changes import AlterQuota, AlterUser, Subject, TopicChange
from reconciler.model.environment.topology import Cluster, Principal, TopicRef, Topology
from reconciler.model.live import LiveCluster, LiveMirror, LiveState
from reconciler.model.plan import Edition, Plan
from reconciler.model.state import last_apply
from reconciler.model.state.home import home_of
from reconciler.model.state.last_apply import Applied, Consent
from reconciler.model.state.left_by_apply import LeftCluster
from reconciler.model.state.lock import LOCK_TOPIC, lock_cluster
from reconciler.operations.review.copy_facts import remote_facts, with_copy_facts
from reconciler.operations.session.driver_orders import order_stop
from reconciler.operations.session.early_reads import Begun
from reconciler.operations.session.hosted_mirrors import HostedMirrors
from reconciler.operations.session.unseen_jobs import UnseenJobs
from reconciler.resources.acls.authorizer.affected_groups import reading_questions, with_readers
from reconciler.resources.acls.desired import access_clusters
from reconciler.resources.quotas import quota_clusters
from reconciler.resources.replicas.observe import look_closer
from reconciler.resources.shrink_limit import shrunken
from reconciler.resources.users import user_clusters

LOOKS_ONLY = "this principal may look and not change, as is recommended for plans; apply is checked"
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
        self.left: Mapping[str, LeftCluster] = {}
        """What the last apply left, by cluster."""
        self.origin = ""
        """Repository and folder of the last plan."""
        self.state = state_folder(folder)
        self.base_handovers: Mapping[str, Mapping[str, object]] = {}
        """Of the commit that an edit is compared with, by mirror."""
        self._ahead = ahead
        clusters = topology.clusters.items()
        self.clusters = {
            name: KafkaCluster(declared, principal, topology.environment, self._begun(declared))
            for name, declared in clusters
        }
        self.records = {name: StatusRecords(declared, topology.environment, principal) for name, declared in clusters}
        self.strays: Mapping[str, LiveMirror] = {}
        self.seen: LiveState | None = None
        self.amounts: tuple[Amount, ...] = ()
        """What the last plan copies, loses and moves, where somebody reads it."""
        self.hosted = HostedMirrors(folder, topology, principal, lambda: self.seen, self.status)
        unseen = UnseenJobs(topology, self.records, principal, self.status, self._last_apply)
        self.runner = RoutedRunner(
            self.state,
            topology.mirrors,
            self.status,
            unseen.here,
            unseen.require_heard,
            hosts=self.hosted,
            order_stop=partial(order_stop, self.records, principal),
        )

    def _begun(self, declared: Cluster) -> Callable[[], LiveCluster | None] | None:
        return (
            partial(self._ahead.take, declared.name)
            if self._ahead is not None and self._ahead.reads(declared)
            else None
        )

    def close(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
        for record in self.records.values():
            record.close()
        self.hosted.close()
        for cluster in self.clusters.values():
            cluster.close()

    def status(self, mirror: str) -> LiveMirror | None:
        """The newest status record of a mirror, from the cluster that carries it. Raises ClusterError."""
        declared = self.topology.mirrors.get(mirror)
        if declared is None:
            return self.strays.get(mirror)
        return self.records[self.topology.status_cluster(declared)].read(mirror, now_ms(), self.runner.has_lost)

    def observe(self, asked: Iterable[TopicRef] = ()) -> LiveState:
        """Everything: all clusters, all mirrors of the topology, and running ones that left it. What git, flows or
        ``asked`` name and no cluster lists is asked for by name."""
        quotas = quota_clusters(self.topology)
        wanted = ReadScope(access_clusters(self.topology), quotas, quotas, user_clusters(self.topology))
        with ThreadPoolExecutor(1) as aside:
            jobs = aside.submit(self._mirrors_and_strays)
            listed = observe(self.clusters, wanted=wanted)
            named = with_named(listed, unlisted(self.topology, listed, asked), self.clusters)
            self.seen = LiveState(named.clusters, jobs.result())
        return self.seen

    def whole(self, cluster: str, *names: str) -> LiveCluster:
        """One cluster alone, with what it answers to ``names``. Raises ClusterError."""
        listed = self.clusters[cluster].read()
        missing = sorted(set(names) - listed.topics.keys())
        return with_answers(listed, self.clusters[cluster].read(missing)) if missing else listed

    def _mirrors_and_strays(self) -> Mapping[str, LiveMirror | Unknown]:
        self.strays = self._strays()
        return observe({}, self.runner, (*self.topology.mirrors, *self.strays)).mirrors

    @contextmanager
    def watch(self) -> Iterator[MirrorWatch]:
        """The mirrors of the topology alone: cheap enough for every other second."""
        with ThreadPoolExecutor(max(1, len(self.topology.mirrors))) as pool:
            yield MirrorWatch(pool, self.runner, self.topology.mirrors)

    @no_collection()
    def plan(self, seen: Revision | None = None, consent: Consent = NOTHING_AGREED, alone: bool = False) -> Plan:
        """``alone``: nobody will read it, so nothing is asked that only people want to know.

        Raises ClusterError when the apply principal cannot read the record of the last apply.
        """
        here = revision(self.folder)
        seen = seen or here
        with ThreadPoolExecutor(len(self.topology.clusters) + 2) as aside:
            applied = aside.submit(self._read_applied, consent)
            asked = self._joined_by_flows() if alone else self.topology.clusters
            natures = {name: aside.submit(read_nature, cluster, self.principal) for name, cluster in asked.items()}
            observed = aside.submit(self.observe)
            edition = Edition(seen.commit, seen.dirty, topology_digest(self.topology))  # while clusters answer
            live = observed.result()
            self.applied = applied.result()
            cluster_features = {name: future.result() for name, future in natures.items()}
        self.origin = self._origin(here)
        live = look_closer(self.topology, live, self.clusters)
        made = plan(self.topology, live, self._previous(), edition, consent.prune, self.left)
        return self._reviewed(described(made, self.topology, cluster_features), live, consent, alone)

    def _joined_by_flows(self) -> Mapping[str, Cluster]:
        names = {name for flow in self.topology.flows.values() for name in (flow.source, flow.target)}
        return {name: self.topology.clusters[name] for name in sorted(names)}

    def _origin(self, here: Revision) -> str:
        if not isinstance(self.applied, Applied):
            return here.origin
        return origin_of(self.folder, here, self.applied.origin, self.applied.commit)

    def _reviewed(self, made: Plan, live: LiveState, consent: Consent, alone: bool) -> Plan:
        """With what speaks against it, and what its dangerous changes put at stake: all clusters are asked at once."""
        copies = copies_of(self.topology, live)
        facts = remote_facts(self.topology, self.principal, copies)
        judged = judge(self.topology, copies, facts)
        made = with_remote_topics(made, self.topology, live, judged, copies, facts, self.applied)
        again = () if alone else tuple(sorted(copied_again(judged)))
        first = beginning_to_travel(made, self.topology, live)
        travelling = () if alone else tuple(sorted({*first, *copied_first(judged), *again}))
        asked = {} if alone else together(questions(made, live), reading_questions(made, live))
        asked = together(asked, copy_questions(travelling, live))
        with ThreadPoolExecutor(max(1, len(asked))) as pool:
            stakes = ask_stakes(pool, self.topology.clusters, self.principal, asked)
            made = from_here(self._checked(made, live), self.applied, self.origin)
            made = guarded(made, self.topology, live, self.applied, consent)
            impacts = stakes()
        made = with_copy_facts(made, self.topology, live, self.principal)
        if alone:
            return made
        made = weighed(made, self.topology, impacts)
        self.amounts = amounts(made, travelling, impacts, live, again)
        return with_readers(made, live, impacts) if asked else made

    def guard(self, saved: Plan, consent: Consent) -> Plan:
        """A saved plan with what speaks against it now. Reads only clusters that nobody has vouched for."""
        self.applied = self._read_applied(consent)
        strange = {name: self.clusters[name] for name in self._strange(saved) if name in self.clusters}
        live = observe(strange)
        self.origin = self._origin(revision(self.folder))
        made = from_here(unjudged(saved), self.applied, self.origin)
        return guarded(made, self.topology, live, self.applied, consent)

    def remembered(self, done: Plan, consent: Consent, by: Applied) -> Applied | None:
        """The record that an apply of ``done`` leaves behind; None when nothing changed or it must not count."""
        before = self.applied if isinstance(self.applied, Applied) else None
        if not consent.shrink and any(shrunken(self.topology, before)):
            return None
        if not consent.first_contact and any(other_repository(before, self.origin)):
            return None
        touched = {name for planned in done.changes for name in clusters_of(planned.change, self.topology)}
        strange = set(self._strange(done)) - touched
        met = {
            cluster.name: cluster.cluster_id
            for cluster in done.basis.clusters
            if cluster.cluster_id is not None and (consent.first_contact or cluster.name not in strange)
        }
        origin = self.origin or (before.origin if before is not None else "")
        applied = applied_now(self.topology, before, met, replace(by, origin=origin))
        return None if before is not None and applied.same_desired(before) else applied

    def require_met(self, cluster: Cluster, record: bytes | None) -> None:
        """Raises BlockedError for a cluster that nobody vouched for, not the ``record`` of the last apply either, and
        that this program never wrote to."""
        applied = None
        with suppress(ValueError):
            applied = last_apply.loads(record) if record is not None else None
        reader = self.clusters[cluster.name]
        if cluster.cluster_id is not None or LOCK_TOPIC in reader.read((LOCK_TOPIC,)).topics:
            return
        live_cluster = reader.read()
        if what := unmet(cluster, live_cluster, applied):
            why = "Nothing was changed; the lock of the environment would be the first thing to be written there."
            raise BlockedError(what, why, f"{todo(cluster.name, live_cluster.cluster_id)}.")

    def require_met_targets(self, mirrors: Iterable[str]) -> None:
        """Raises BlockedError where ``apply`` would not start these mirrors: a cluster is another one than declared, or
        nobody has met a target. ClusterError where a target that only the record vouches for does not answer."""
        flows = [flow for name in mirrors for flow in self.topology.flows_of(self.topology.mirrors[name])]
        targets = {flow.target for flow in flows if self.topology.clusters[flow.target].cluster_id is None}
        live = {name: self.clusters[name].read() for name in targets}
        for name in {each for flow in flows for each in (flow.source, flow.target)} - targets:
            with suppress(ClusterError):  # the job waits for it
                live[name] = self.clusters[name].read(())
        why = "No mirror was started: its job would write there, or copy from there."
        for wrong in strangers(self.topology, LiveState(live, {})).values():
            raise BlockedError(wrong.what, why, f"{wrong.todo}.")
        applied = self._read_applied(NOTHING_AGREED) if targets else None
        for name in sorted(targets):
            met = applied if isinstance(applied, Applied) else None
            if problem := unmet(self.topology.clusters[name], live[name], met):
                raise BlockedError(problem, why, f"{todo(name, live[name].cluster_id)}.")

    def _strange(self, made: Plan) -> Iterator[str]:
        """Clusters of the plan that neither git nor an earlier apply vouches for."""
        met = self.applied.clusters if isinstance(self.applied, Applied) else {}
        for cluster in made.basis.clusters:
            declared = self.topology.clusters.get(cluster.name)
            if declared is None or cluster.cluster_id is None or declared.cluster_id is not None:
                continue
            if met.get(cluster.name) != cluster.cluster_id:
                yield cluster.name

    def find_home(self, live: LiveState | None = None) -> Cluster:
        """The cluster that keeps the lock; ``topology`` remembers it. ``live``: who did not answer is not asked again.

        Raises ClusterError where it is, or may be, one that does not answer, BlockedError where none of these is it.
        """
        names = [name for name in self.topology.clusters if live is None or live.known(name)]
        home = home_of(self.topology, look(self.topology, self.principal, names)).home
        self.topology = replace(self.topology, lock_home=home)
        return self.topology.clusters[home]

    def _last_apply(self) -> Applied | Unknown | None:
        return self._read_applied(NOTHING_AGREED)

    def _read_applied(self, consent: Consent) -> Applied | Unknown | None:
        try:
            place = lock_cluster(self.topology) if self.topology.lock_home else self.find_home()
            applied, self.left = read_last_apply(place, self.topology.environment, self.principal)
            return applied
        except ReconcilerError as error:
            if isinstance(error, ClusterError) and error.kind == "invalid" and consent.shrink and consent.first_contact:
                return None
            if self.principal is Principal.APPLY and getattr(error, "kind", "") != "unreachable":
                raise
            name = getattr(error, "cluster", "")
            return Unknown(f"its record on {name}" if name else "its record", error.what, error.todo)

    def moved(self, planned: Plan) -> tuple[Moved, ...]:
        """What of the plan's ground is no longer as it was; reads only that ground."""
        rests_on = basis([observation.subject for observation in planned.basis.observed])
        readers = {name: self.clusters[name] for name in rests_on.wanted.topics or () if name in self.clusters}
        self.strays = self._strays() if set(rests_on.mirrors) - set(self.topology.mirrors) else {}
        live = observe(readers, self.runner, rests_on.mirrors, rests_on.wanted)
        if unknown := unreadable(live):
            why = "\n".join(f"  {each_unknown.subject}: {each_unknown.error}" for each_unknown in unknown)
            todo = "Fix it and apply again."
            raise ReconcilerError("nothing was applied: what the plan rests on could not be read again", why, todo)
        return (*still_true(planned, basis_now(planned, self.topology, live)), *self._filled(planned, live))

    def _filled(self, planned: Plan, live: LiveState) -> tuple[Moved, ...]:
        asked = on_empty(planned, live)
        with ThreadPoolExecutor(max(1, len(asked))) as pool:
            return filled(planned, ask_stakes(pool, self.topology.clusters, self.principal, asked)())

    def require_secrets(self, planned: Plan) -> None:
        """Raises SecretError with every password of the plan that cannot be had here, before anything is changed."""
        require_secrets(
            (f"user {change.cluster}/{change.user}", change.password)
            for change in (change.change for change in planned.changes)
            if isinstance(change, AlterUser)
        )

    def _previous(self) -> dict[str, Mapping[str, object]]:
        """The hand-over that each job was given, as far as it is known here; it explains a restart."""
        asked = {name: self.hosted.handover(mirror) for name, mirror in self.topology.mirrors.items() if mirror.hosted}
        known = {
            name: asked.get(name) or self.runner.folder(name).read("handover.json") for name in self.topology.mirrors
        }
        return {name: self._as_running(name, before) for name, before in known.items()}

    def _as_running(self, mirror: str, before: Mapping[str, object]) -> Mapping[str, object]:
        """On another machine than the job's, git may know the definition that it runs with: that of the edit's base."""
        live_mirror = self.seen.mirrors.get(mirror) if self.seen is not None else None
        runs = live_mirror.fingerprint if isinstance(live_mirror, LiveMirror) else None
        base = self.base_handovers.get(mirror)
        return base if base is not None and base["fingerprint"] == runs else before

    def _checked(self, made: Plan, live: LiveState) -> Plan:
        """With the brokers' own check of topics and quotas, and of the lock's topic where an apply would make it; where
        they cannot be asked, the plan says so."""
        asked: dict[tuple[str, bool], list[TopicChange | AlterQuota]] = {}
        for planned in made.changes:
            if isinstance(planned.change, TopicChange | AlterQuota):
                key = planned.change.cluster, isinstance(planned.change, AlterQuota)
                asked.setdefault(key, []).append(planned.change)
        refusals: dict[Subject, str] = {}
        unasked: dict[str, str] = {}
        with ThreadPoolExecutor(len(asked) + 1) as pool:
            of_lock = pool.submit(lock_topic_refused, self.clusters, live, self.topology.lock_home, made)
            answers = {key: pool.submit(self.clusters[key[0]].validate, some) for key, some in asked.items()}
            for (name, _), answer in answers.items():
                try:
                    refusals |= answer.result()
                except ClusterError as error:
                    why = LOOKS_ONLY if error.kind == "denied" else error.what
                    unasked[name] = "; ".join(dict.fromkeys(filter(None, (unasked.get(name), why))))
            refusals |= of_lock.result()
        return with_broker_refusals(made, refusals, unasked)

    def _strays(self) -> dict[str, LiveMirror]:
        """Jobs of this environment that run without being declared. A silent cluster is told by ``observe``."""

        def ask(records: StatusRecords) -> Iterable[LiveMirror]:
            try:
                return [m for m in records.read_all(now_ms()).values() if isinstance(m, LiveMirror)]
            except ReconcilerError:
                return []

        with ThreadPoolExecutor(max_workers=max(1, len(self.records))) as pool:
            mirrors = [mirror for mirrors in pool.map(ask, self.records.values()) for mirror in mirrors]
        return {mirror.name: mirror for mirror in mirrors if mirror.name not in self.topology.mirrors}


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
