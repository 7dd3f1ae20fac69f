"""Records that an apply keeps beside the lock: the ids of its clusters, by which the next plan recognises an
unconfirmed cluster, and the state that it left on each, by which the next plan recognises changes from outside."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from reconciler.backends.state.lock import KafkaLock
from reconciler.engine.diff import strangers
from reconciler.engine.guards import applied_now
from reconciler.engine.guards.first_contact import clusters_of, other_repository, todo, unmet
from reconciler.errors import BlockedError, ClusterError, Unknown, or_unknown
from reconciler.model.changes import ChangeOfTopic
from reconciler.model.environment.topology import Cluster
from reconciler.model.live import LiveState
from reconciler.model.plan import Plan
from reconciler.model.state import last_apply
from reconciler.model.state.last_apply import Applied, Consent
from reconciler.model.state.left_by_apply import NOT_SHOWN, NOTHING_RECORDED, LeftCluster, dumps, left_key, left_on
from reconciler.operations.session.session import Session
from reconciler.resources.shrink_limit import shrunken


def record_of(session: Session, done: Plan, consent: Consent, by: Applied) -> Applied | None:
    """The record of an apply of ``done``; None if nothing changed, or if the apply must not be compared with."""
    before = session.last.applied if isinstance(session.last.applied, Applied) else None
    if not consent.shrink and any(shrunken(session.topology, before)):
        return None
    if not consent.first_contact and any(other_repository(before, session.last.origin)):
        return None
    touched = {name for planned in done.changes for name in clusters_of(planned.change, session.topology)}
    unmet_now = set(strange(session, done)) - touched
    met = {
        cluster.name: cluster.cluster_id
        for cluster in done.basis.clusters
        if cluster.cluster_id is not None and (consent.first_contact or cluster.name not in unmet_now)
    }
    origin = session.last.origin or (before.origin if before is not None else "")
    applied = applied_now(session.topology, before, met, replace(by, origin=origin))
    if before is None or not applied.same_desired(before):
        return applied
    return applied if done.changes and before.commit != applied.commit else None


def require_met(session: Session, cluster: Cluster, record: bytes | None) -> None:
    """Raises BlockedError for a cluster that this program never wrote to, unless git or the last apply's ``record`` has
    its id."""
    applied = None
    with suppress(ValueError):
        applied = last_apply.loads(record) if record is not None else None
    reader = session.clusters[cluster.name]
    if cluster.cluster_id is not None or (topic := cluster.own_topics.lock) in reader.read((topic,)).topics:
        return
    live_cluster = reader.read()
    if what := unmet(cluster, live_cluster, applied):
        why = "Nothing was changed; the lock of the environment would be the first thing to be written there."
        raise BlockedError(what, why, f"{todo(cluster.name, live_cluster.cluster_id)}.")


def require_met_targets(session: Session, mirrors: Iterable[str]) -> None:
    """Raises BlockedError where ``apply`` would refuse to start these mirrors: a cluster's id differs from the declared
    one, or nothing confirms a target. ClusterError if a target that only the record could confirm does not answer."""
    flows = [flow for name in mirrors for flow in session.topology.flows_of(session.topology.mirrors[name])]
    targets = {flow.target for flow in flows if session.topology.clusters[flow.target].cluster_id is None}
    live = {name: session.clusters[name].read() for name in targets}
    for name in {each for flow in flows for each in (flow.source, flow.target)} - targets:
        with suppress(ClusterError):  # the job waits until it answers
            live[name] = session.clusters[name].read(())
    why = "No mirror was started: its job would write there, or copy from there."
    for wrong in strangers(session.topology, LiveState(live, {})).values():
        raise BlockedError(wrong.what, why, f"{wrong.todo}.")
    applied = session.read_last_apply().applied if targets else None
    for name in sorted(targets):
        met = applied if isinstance(applied, Applied) else None
        if problem := unmet(session.topology.clusters[name], live[name], met):
            raise BlockedError(problem, why, f"{todo(name, live[name].cluster_id)}.")


def strange(session: Session, made: Plan) -> Iterator[str]:
    """Clusters of the plan whose id neither git nor an earlier apply confirms."""
    met = session.last.applied.clusters if isinstance(session.last.applied, Applied) else {}
    for cluster in made.basis.clusters:
        declared = session.topology.clusters.get(cluster.name)
        if declared is None or cluster.cluster_id is None or declared.cluster_id is not None:
            continue
        if met.get(cluster.name) != cluster.cluster_id:
            yield cluster.name


def strike(session: Session, lock: KafkaLock, plan: Plan) -> str:
    """Removes from the record what ``plan`` is about to change, so that changes of a killed run do not look like
    changes from outside. Returns the error, or empty."""
    struck = {}
    for name, topics in _touched(plan).items():
        if (left := session.last.left.get(name)) is not None and topics & left.topics.keys():
            struck[name] = left.without(topics)
    return _kept(session, lock, struck)


def keep_left(session: Session, lock: KafkaLock, done: Plan, by: Applied) -> str:
    """Records each cluster as the plan found it, with changed objects read again. A cluster that no longer answers
    keeps its earlier record, without struck objects. Returns the error, or empty."""
    touched, unmanaged = _touched(done), defaultdict[str, set[str]](set)
    for topic in done.unmanaged:
        unmanaged[topic.ref.cluster].add(topic.ref.name)
    left: dict[str, LeftCluster] = {}
    for name in session.topology.clusters:
        before = session.last.left.get(name, NOTHING_RECORDED)
        live = session.last.live.known(name) if session.last.live is not None else None
        now = before
        if live is not None:
            now = left_on(live, live.topics.keys() - unmanaged[name])
        if topics := touched.get(name):
            again = or_unknown(f"cluster {name}", partial(session.clusters[name].read, sorted(topics)))
            if isinstance(again, Unknown):
                continue
            now = now.without(topics)
            # Another cluster answers at this address: earlier reads do not belong to it.
            base = now if now.cluster_id == again.cluster_id else replace(NOTHING_RECORDED, cluster_id=again.cluster_id)
            # Created topics show broker defaults that no earlier read has seen.
            shown = left_on(again, again.topics)
            if base.defaults is None:
                base = replace(base, defaults=shown.defaults)
            elif shown.defaults is not None:
                more = {key: value for key, value in shown.defaults.items() if value != NOT_SHOWN}
                base = replace(base, defaults={**base.defaults, **more})
            now = replace(base, topics={**base.topics, **shown.topics})
        if now.cluster_id and not now.same(before):
            left[name] = replace(now, at_ms=by.at_ms, who=by.who)
    return _kept(session, lock, left)


def _touched(plan: Plan) -> Mapping[str, set[str]]:
    touched: dict[str, set[str]] = defaultdict(set)
    for planned in plan.changes:
        if isinstance(planned.change, ChangeOfTopic):
            touched[planned.change.cluster].add(planned.change.ref.name)
    return touched


def _kept(session: Session, lock: KafkaLock, left: Mapping[str, LeftCluster]) -> str:
    for name, cluster in left.items():
        if why := lock.keep(left_key(session.topology.environment, name), dumps(cluster)):
            return why
        session.last = replace(session.last, left={**session.last.left, name: cluster})
    return ""
