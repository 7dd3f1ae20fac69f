"""Topology x LiveState -> what differs: changes, and everything that is refused, unknown, ignored or not ours.

Border: nothing is ordered here and nothing is asked of a cluster. A failed read never turns into a change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import replace
from functools import cache, partial
from typing import Any

from reconciler.changes import Reason, ReassignReplicas, Refused, Role, Unmanaged
from reconciler.diffing.access import compare_access
from reconciler.diffing.findings import Findings, Settled, merged
from reconciler.diffing.identities import Stranger, strangers
from reconciler.diffing.mirrors import compare_mirrors
from reconciler.diffing.quotas import compare_quotas
from reconciler.diffing.removals import compare_tombstones, without_doomed
from reconciler.diffing.replicas import compare_replicas
from reconciler.diffing.topics import Surroundings, compare_topics, metric_name
from reconciler.diffing.users import compare_users
from reconciler.diffing.wishes import TopicWishes, wishes
from reconciler.errors import Unknown
from reconciler.guarding.pruning import prune
from reconciler.live import LiveCluster, LiveState
from reconciler.prospects import broker_configs, different_configs
from reconciler.replicas import ReplicaFacts
from reconciler.routing import Routing, find_routes, selector_of
from reconciler.topology import Flow, TopicRef, Topology

Previous = Mapping[str, Mapping[str, Any]]


def diff(
    topology: Topology, live: LiveState, previous: Previous | None = None, pruning: bool = False
) -> tuple[Findings, Routing]:
    """``previous``: mirror name -> the hand-over its running job was started with, where it is still known.

    ``pruning``: unmanaged topics that a prune list owns are deleted, and quotas and users that earlier runs made and
    git names no longer; else it is only told which.
    """
    strange = strangers(topology, live)
    clusters = merged(_cluster(topology, live, name, strange) for name in sorted(topology.clusters))
    present = _usable(topology, live, strange)
    usable = without_doomed(topology, present)
    routing = find_routes(topology, usable)
    wished = wishes(topology, usable, routing)
    replicas = compare_replicas(topology, usable, wished)
    names = {cluster: named.keys() for cluster, named in wished.alike.items()}
    around = _surroundings(topology, usable, names, replicas)
    topics = merged(compare_topics(wished, _known(present), around))
    blocked = _blocked_flows(topology, usable, routing)
    found = merged(
        (
            clusters,
            Findings(refused=routing.refused, notes=(*routing.notes, *_ring_notes(routing))),
            topics,
            replicas,
            _left_over(topology, usable, tuple(_unmanaged(topology, usable, names, routing.contested)), pruning),
            *compare_mirrors(topology, usable, routing, blocked, previous or {}),
            *compare_tombstones(topology, present, wished),
            Findings(notes=tuple(_declared_remotes(wished))),
            compare_access(topology, usable, routing),
            compare_quotas(topology, usable, pruning),
            compare_users(topology, usable, pruning),
        )
    )
    return replace(found, unknown=_each_once(found.unknown)), routing


def _cluster(topology: Topology, live: LiveState, name: str, strange: Mapping[str, Stranger]) -> Findings:
    """A cluster that cannot be used, with everything that is left alone because of it."""
    found = live.clusters.get(name)
    if found is None:
        found = Unknown(f"cluster {name}", "nobody read it")
    if isinstance(found, Unknown):
        return Findings(unknown=(replace(found, detail=(*found.detail, *_dependents(topology, name))),))
    if (stranger := strange.get(name)) is None:
        return Findings(settled=(Settled(f"cluster {name}", "cluster_id"),))
    left = ", ".join(_dependents(topology, name)) or "nothing"
    reason = Reason(stranger.code, f"{stranger.what}. Left alone with it: {left}")
    return Findings(refused=(Refused(f"cluster {name}", reason, stranger.todo),))


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
        found = live.clusters.get(name, Unknown(f"cluster {name}", "nobody read it"))
        clusters[name] = Unknown(f"cluster {name}", "not the declared cluster") if name in strange else found
    return LiveState(clusters, live.mirrors)


def _surroundings(
    topology: Topology, live: LiveState, wished: Mapping[str, Collection[str]], replicas: Findings
) -> dict[str, Surroundings]:
    """``wished``: names by cluster."""
    moving = {change.ref for change in replicas.changes if isinstance(change, ReassignReplicas)}
    found: dict[str, Surroundings] = {}
    for name in topology.clusters:
        if cluster := live.known(name):
            different = different_configs(cluster)
            keys = {key for configs in different for key in configs}
            here = frozenset(ref.name for ref in moving if ref.cluster == name)
            facts = cluster.replicas
            moves = facts.moves if isinstance(facts, ReplicaFacts) else ()
            busy = frozenset(move.topic for move in moves)
            fallback = broker_configs(different)
            names = cache(partial(_namesakes, cluster, wished.get(name, ())))
            found[name] = Surroundings(cluster.place_for, names, frozenset(keys), fallback, here, busy, cluster.hidden)
    return found


def _namesakes(cluster: LiveCluster, wished: Iterable[str]) -> Mapping[str, set[str]]:
    names: dict[str, set[str]] = defaultdict(set)
    for topic in (*cluster.topics, *wished):
        names[metric_name(topic)].add(topic)
    return names


def _known(live: LiveState) -> dict[str, LiveCluster]:
    return {name: found for name in live.clusters if (found := live.known(name))}


def _blocked_flows(topology: Topology, live: LiveState, routing: Routing) -> dict[str, str]:
    """Flow -> the read that failed. Empty where its cluster is unusable, which is said with that cluster."""
    found: dict[str, str] = {}
    for route in routing.routes:
        cluster = live.known(route.remote.cluster)
        missing = cluster is not None and route.remote.name not in cluster.topics
        if missing and isinstance(route.configs, Unknown):
            unseen = f"{route.unseen.subject}, which may be there unseen" if route.unseen else ""
            found[route.flow] = unseen or f"the configs of {route.source}"
    unusable = {f.name: "" for f in topology.flows.values() if not (live.known(f.source) and live.known(f.target))}
    return found | unusable


def _unmanaged(
    topology: Topology, live: LiveState, wished: Mapping[str, Set[str]], contested: frozenset[TopicRef]
) -> Iterable[Unmanaged]:
    """``wished``: names by cluster. Of what has a tombstone it is said what became of that."""
    buried = {stone.ref for stone in topology.deletions}
    for name in sorted(topology.clusters):
        if (cluster := live.known(name)) is None:
            continue
        silent = [f for f in topology.flows.values() if f.target == name and not live.known(f.source)]
        here = wished.get(name, frozenset())
        for left in sorted(cluster.topics.keys() - here):
            topic, ref = cluster.topics[left], TopicRef(name, left)
            if ref in contested or ref in buried or topic.internal or topic.name.startswith("__"):
                continue
            if not any(_may_come_from(flow, topic.name) for flow in silent):
                yield Unmanaged(ref, len(topic.partitions))


def _left_over(topology: Topology, live: LiveState, unmanaged: tuple[Unmanaged, ...], pruning: bool) -> Findings:
    found = prune(topology, live, unmanaged, pruning)
    return Findings(found.deletions, found.refused, (), found.left, found.ignored, found.notes)


def _may_come_from(flow: Flow, remote: str) -> bool:
    """Whether a flow whose source did not answer could have made this topic."""
    selector = selector_of(flow)
    upstream = selector.policy.upstream_topic(remote)
    return upstream is not None and selector.why_not(upstream) is None and selector.remote_name(upstream) == remote


def _declared_remotes(wished: TopicWishes) -> Iterable[str]:
    for cluster, named in wished.alike.items():
        for name, wish in named.items():
            if wish.source is not None and wish.role is Role.DECLARED:
                ref = TopicRef(cluster, name)
                yield f"{ref} is the remote topic of {wish.source} and also declared; the declared values win"


def _ring_notes(routing: Routing) -> Iterable[str]:
    rings = sorted(str(route.remote) for route in routing.routes if route.two_way)
    if rings:
        yield f"configs are not synced where the same name flows both ways: {', '.join(rings)}"


def _each_once(unknown: tuple[Unknown, ...]) -> tuple[Unknown, ...]:
    """One entry a subject: a source whose configs were unreadable is met by each of its flows."""
    found: dict[tuple[str, str], Unknown] = {}
    for one in unknown:
        key = (one.subject, one.error)
        known = found.get(key)
        found[key] = replace(known, detail=tuple(dict.fromkeys(known.detail + one.detail))) if known else one
    return tuple(found.values())
