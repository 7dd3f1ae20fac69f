"""Desired environment against live state: changes, and what is refused, unknown, ignored or unmanaged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import replace
from functools import cache, partial
from typing import Any

from reconciler.engine.observe.cluster_ids import WrongCluster, strangers
from reconciler.errors import Unknown
from reconciler.model.changes import About, Reason, ReassignReplicas, Refused, Role, Subject, Unmanaged
from reconciler.model.changes.findings import Findings, Settled, merged
from reconciler.model.environment.topology import Flow, TopicRef, Topology
from reconciler.model.live import LiveCluster, LiveState, broker_configs, different_configs
from reconciler.model.replicas import ReplicaFacts
from reconciler.resources.acls.diff import compare_access
from reconciler.resources.flows.routes import Routing, find_routes, selector_of
from reconciler.resources.flows.same_offsets import compare_same_offsets
from reconciler.resources.mirrors.diff import compare_mirrors
from reconciler.resources.prune import prune
from reconciler.resources.quotas.diff import compare_quotas
from reconciler.resources.replicas.diff import compare_replicas
from reconciler.resources.topics.desired import DesiredTopics, desired_topics
from reconciler.resources.topics.diff import Surroundings, compare_topics, metric_name
from reconciler.resources.topics.diff_deletions import compare_tombstones, without_doomed
from reconciler.resources.topics.outside import NOTHING_LEFT, Left, changed_outside, taken_off
from reconciler.resources.users.diff import compare_users

Previous = Mapping[str, Mapping[str, Any]]


def diff(
    topology: Topology,
    live: LiveState,
    previous: Previous | None = None,
    pruning: bool = False,
    left: Left = NOTHING_LEFT,
) -> tuple[Findings, Routing]:
    """``previous``: mirror name -> the hand-over its running job was started with, where it is still known.

    ``pruning``: unmanaged topics that a prune list owns are deleted, and quotas and users that earlier runs made and
    git names no longer; else it is only told which. ``left``: what the last apply left.
    """
    strange = strangers(topology, live)
    clusters = merged(_cluster(topology, live, name, strange) for name in sorted(topology.clusters))
    present = _usable(topology, live, strange)
    usable = without_doomed(topology, present)
    routing = find_routes(topology, usable)
    desired = desired_topics(topology, usable, routing)
    replicas = compare_replicas(topology, usable, desired)
    names = {cluster: named.keys() for cluster, named in desired.alike.items()}
    around = _surroundings(topology, usable, names, replicas)
    brokers = {name: surroundings.fallback for name, surroundings in around.items()}
    outside = tuple(changed_outside(desired, _known(present), brokers, left))
    if gone := taken_off(outside, routing.routes):
        around = {name: replace(surroundings, taken_off=gone) for name, surroundings in around.items()}
    topics = merged(compare_topics(desired, _known(present), around))
    blocked = _blocked_flows(topology, usable, routing)
    findings = merged(
        (
            clusters,
            Findings(refused=routing.refused, notes=(*routing.notes, *_ring_notes(routing)), outside=outside),
            topics,
            replicas,
            prune(topology, usable, tuple(_unmanaged(topology, usable, names, routing.contested)), pruning),
            compare_same_offsets(topology, usable, routing, previous or {}),
            *compare_mirrors(topology, usable, routing, blocked, previous or {}),
            *compare_tombstones(topology, present, desired),
            Findings(notes=tuple(_declared_remotes(desired))),
            compare_access(topology, usable, routing),
            compare_quotas(topology, usable, pruning),
            compare_users(topology, usable, pruning),
        )
    )
    return replace(findings, unknown=_each_once(findings.unknown)), routing


def _cluster(topology: Topology, live: LiveState, name: str, strange: Mapping[str, WrongCluster]) -> Findings:
    """A cluster that cannot be used, with everything that is left alone because of it."""
    cluster = live.clusters.get(name)
    if cluster is None:
        cluster = Unknown(f"cluster {name}", "nobody read it")
    if isinstance(cluster, Unknown):
        return Findings(unknown=(replace(cluster, detail=(*cluster.detail, *_dependents(topology, name))),))
    if (stranger := strange.get(name)) is None:
        return Findings(settled=(Settled(Subject(About.CLUSTER, name), "cluster_id"),))
    dependents = ", ".join(_dependents(topology, name)) or "nothing"
    reason = Reason(stranger.code, f"{stranger.what}. Left alone with it: {dependents}")
    return Findings(refused=(Refused(Subject(About.CLUSTER, name), reason, stranger.todo),))


def _dependents(topology: Topology, cluster: str) -> tuple[str, ...]:
    flows = {flow.name for flow in topology.flows.values() if cluster in (flow.source, flow.target)}
    topics = sorted(str(TopicRef(cluster, t.name)) for t in topology.topics.values() if cluster in t.clusters)
    mirrors = sorted(f"mirror {m.name}" for m in topology.mirrors.values() if flows.intersection(m.flows))
    topics += sorted(f"tombstone of {stone.ref}" for stone in topology.deletions if stone.cluster == cluster)
    return (*topics, *(f"flow {name}" for name in sorted(flows)), *mirrors)


def _usable(topology: Topology, live: LiveState, strange: Collection[str]) -> LiveState:
    """``live`` without clusters that are not the declared ones: nothing is concluded from them."""
    clusters: dict[str, LiveCluster | Unknown] = {}
    for name in topology.clusters:
        cluster = live.clusters.get(name, Unknown(f"cluster {name}", "nobody read it"))
        clusters[name] = Unknown(f"cluster {name}", "not the declared cluster") if name in strange else cluster
    return LiveState(clusters, live.mirrors)


def _surroundings(
    topology: Topology, live: LiveState, desired: Mapping[str, Collection[str]], replicas: Findings
) -> dict[str, Surroundings]:
    """``desired``: names by cluster."""
    moving = {change.ref for change in replicas.changes if isinstance(change, ReassignReplicas)}
    surroundings: dict[str, Surroundings] = {}
    for name in topology.clusters:
        if cluster := live.known(name):
            different = different_configs(cluster)
            keys = {key for configs in different for key in configs}
            here = frozenset(ref.name for ref in moving if ref.cluster == name)
            facts = cluster.replicas
            moves = facts.moves if isinstance(facts, ReplicaFacts) else ()
            busy = frozenset(move.topic for move in moves)
            fallback = broker_configs(different)
            names = cache(partial(_namesakes, cluster, desired.get(name, ())))
            surroundings[name] = Surroundings(
                cluster.place_for, names, frozenset(keys), fallback, here, busy, cluster.hidden
            )
    return surroundings


def _namesakes(cluster: LiveCluster, desired: Iterable[str]) -> Mapping[str, set[str]]:
    names: dict[str, set[str]] = defaultdict(set)
    for topic in (*cluster.topics, *desired):
        names[metric_name(topic)].add(topic)
    return names


def _known(live: LiveState) -> dict[str, LiveCluster]:
    return {name: cluster for name in live.clusters if (cluster := live.known(name))}


def _blocked_flows(topology: Topology, live: LiveState, routing: Routing) -> dict[str, str]:
    """Flow -> the read that failed. Empty where its cluster is unusable, which is said with that cluster."""
    blocked_flows: dict[str, str] = {}
    for route in routing.routes:
        cluster = live.known(route.remote.cluster)
        missing = cluster is not None and route.remote.name not in cluster.topics
        if missing and isinstance(route.configs, Unknown):
            unseen = f"{route.unseen.subject}, which may be there unseen" if route.unseen else ""
            blocked_flows[route.flow] = unseen or f"the configs of {route.source}"
    unusable = {f.name: "" for f in topology.flows.values() if not (live.known(f.source) and live.known(f.target))}
    return blocked_flows | unusable


def _unmanaged(
    topology: Topology, live: LiveState, desired: Mapping[str, Set[str]], contested: frozenset[TopicRef]
) -> Iterable[Unmanaged]:
    """``desired``: names by cluster. Of what has a tombstone it is said what became of that."""
    buried = {stone.ref for stone in topology.deletions}
    for name in sorted(topology.clusters):
        if (cluster := live.known(name)) is None:
            continue
        silent = [f for f in topology.flows.values() if f.target == name and not live.known(f.source)]
        here = desired.get(name, frozenset())
        for unmanaged in sorted(cluster.topics.keys() - here):
            topic, ref = cluster.topics[unmanaged], TopicRef(name, unmanaged)
            if ref in contested or ref in buried or topic.internal or topic.name.startswith("__"):
                continue
            if not any(_may_come_from(flow, topic.name) for flow in silent):
                yield Unmanaged(ref, len(topic.partitions))


def _may_come_from(flow: Flow, remote: str) -> bool:
    """Whether a flow whose source did not answer could have made this topic."""
    selector = selector_of(flow)
    upstream = selector.policy.upstream_topic(remote)
    return upstream is not None and selector.why_not(upstream) is None and selector.remote_name(upstream) == remote


def _declared_remotes(desired: DesiredTopics) -> Iterable[str]:
    for cluster, named in desired.alike.items():
        for name, topic in named.items():
            if topic.source is not None and topic.role is Role.DECLARED:
                ref = TopicRef(cluster, name)
                yield f"{ref} is the remote topic of {topic.source} and also declared; the declared values win"


def _ring_notes(routing: Routing) -> Iterable[str]:
    rings = sorted(str(route.remote) for route in routing.routes if route.two_way)
    if rings:
        yield f"configs are not synced where the same name flows both ways: {', '.join(rings)}"


def _each_once(unknown: tuple[Unknown, ...]) -> tuple[Unknown, ...]:
    """One entry a subject: a source whose configs were unreadable is met by each of its flows."""
    unknowns: dict[tuple[str, str], Unknown] = {}
    for each_unknown in unknown:
        key = (each_unknown.subject, each_unknown.error)
        known = unknowns.get(key)
        unknowns[key] = (
            replace(known, detail=tuple(dict.fromkeys(known.detail + each_unknown.detail))) if known else each_unknown
        )
    return tuple(unknowns.values())
