"""Keeps what an apply leaves on each cluster, beside the lock, so that the next plan can show what changed outside."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from reconciler.backends.state.lock.kafka_lock import KafkaLock
from reconciler.errors import Unknown, or_unknown
from reconciler.model.changes import ChangeOfTopic
from reconciler.model.live import LiveCluster, broker_configs, different_configs
from reconciler.model.plan import Plan
from reconciler.model.state.last_apply import Applied
from reconciler.model.state.left_by_apply import NOBODY, LeftCluster, dumps, left_key, left_on, left_topics
from reconciler.operations.session.session import Session


def strike(session: Session, lock: KafkaLock, plan: Plan) -> str:
    """Takes what ``plan`` is about to change off the record: if this run were killed, its changes would look like those
    of others. Returns why that failed, or empty."""
    struck = {}
    for name, topics in _touched(plan).items():
        if (left := session.last.left.get(name)) is not None and topics & left.topics.keys():
            struck[name] = left.without(topics)
    return _kept(session, lock, struck)


def keep(session: Session, lock: KafkaLock, done: Plan, by: Applied) -> str:
    """The record of what there is after ``done``: as the plan found it, and what it changed as it is now. A cluster
    that does not answer any more keeps its record, without what was struck. Why it cannot be kept, or empty."""
    touched, unmanaged = _touched(done), defaultdict[str, set[str]](set)
    for topic in done.unmanaged:
        unmanaged[topic.ref.cluster].add(topic.ref.name)
    left: dict[str, LeftCluster] = {}
    for name in session.topology.clusters:
        before = session.last.left.get(name, NOBODY)
        live = session.last.live.known(name) if session.last.live is not None else None
        now = before if live is None else _left_on_managed(live, unmanaged[name])
        if topics := touched.get(name):
            again = or_unknown(f"cluster {name}", partial(session.clusters[name].read, sorted(topics)))
            if isinstance(again, Unknown):
                continue
            now = _with(now.without(topics), again)
        if now.cluster_id and not now.same(before):
            left[name] = replace(now, at_ms=by.at_ms, who=by.who)
    return _kept(session, lock, left)


def _touched(plan: Plan) -> Mapping[str, set[str]]:
    touched: dict[str, set[str]] = defaultdict(set)
    for planned in plan.changes:
        if isinstance(planned.change, ChangeOfTopic):
            touched[planned.change.cluster].add(planned.change.ref.name)
    return touched


def _left_on_managed(live: LiveCluster, unmanaged: set[str]) -> LeftCluster:
    names = live.topics.keys() - unmanaged
    return left_on(live, names, broker_configs(different_configs(live)))


def _with(left: LeftCluster, again: LiveCluster) -> LeftCluster:
    base = left if left.cluster_id == again.cluster_id else replace(NOBODY, cluster_id=again.cluster_id)
    return replace(base, topics={**base.topics, **left_topics(again.topics.values())})


def _kept(session: Session, lock: KafkaLock, left: Mapping[str, LeftCluster]) -> str:
    for name, cluster in left.items():
        with ThreadPoolExecutor(1) as aside:  # an interrupt in the middle of the write would leave its transaction open
            key = left_key(session.topology.environment, name)
            why = aside.submit(lock.keep, key, dumps(cluster)).result()
        if why:
            return why
        session.last = replace(session.last, left={**session.last.left, name: cluster})
    return ""
