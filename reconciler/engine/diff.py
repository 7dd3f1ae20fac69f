"""Compares the desired environment with the live state: changes, and refused, unknown, ignored and unmanaged
subjects."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from reconciler.errors import Unknown
from reconciler.model.changes import About, Reason, ReassignReplicas, Refused, Role, Subject, Unmanaged, Why
from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import LiveCluster, LiveState, different_configs, usual_configs
from reconciler.model.plan import Findings, merged
from reconciler.model.replicas import ReplicaFacts
from reconciler.replication.names import is_reserved
from reconciler.resources.acls.diff import compare_access
from reconciler.resources.flows.routes import Routing, find_routes, is_copy, selector_of
from reconciler.resources.flows.same_offsets import compare_same_offsets
from reconciler.resources.mirrors.diff import compare_mirrors
from reconciler.resources.prune import prune
from reconciler.resources.quotas.diff import compare_quotas
from reconciler.resources.replicas.diff import compare_replicas
from reconciler.resources.topics.desired import desired_topics
from reconciler.resources.topics.diff import Surroundings, compare_topics, metric_name
from reconciler.resources.topics.diff_deletions import compare_tombstones, without_doomed
from reconciler.resources.topics.outside import NOTHING_LEFT, Left, changed_outside, taken_off
from reconciler.resources.users.diff import compare_users
from reconciler.text import grouped

Previous = Mapping[str, Mapping[str, Any]]


def diff(
    topology: Topology,
    live: LiveState,
    previous: Previous | None = None,
    pruning: bool = False,
    left: Left = NOTHING_LEFT,
) -> tuple[Findings, Routing]:
    """``previous``: mirror name -> the hand-over of its running job, where it is still known.

    ``pruning``: delete unmanaged topics in a prune list, and quotas and users of earlier runs that git no longer names;
    otherwise they are only reported. ``left``: the state that the last apply left.
    """
    clusters, present = _clusters(topology, live)

    # Topics with a tombstone are treated as deleted: no flow carries them, and they need no config.
    usable = without_doomed(topology, present)
    routing = find_routes(topology, usable)
    desired = desired_topics(topology, usable, routing)
    replicas = compare_replicas(topology, usable, desired)
    names = {cluster: named.keys() for cluster, named in desired.alike.items()}

    # Outside changes are found with the brokers' defaults, and decide which overrides a topic may lose.
    around = _surroundings(topology, usable, names, replicas)
    brokers = {name: surroundings.fallback for name, surroundings in around.items()}
    outside = tuple(changed_outside(desired, _known(present), brokers, left))
    if gone := taken_off(outside, routing.routes):
        around = {name: replace(surroundings, taken_off=gone) for name, surroundings in around.items()}
    topics = merged(compare_topics(desired, _known(present), around))

    # If git declares a remote topic, its values override those of the source; a topic that flows both ways under one
    # name has no source.
    declared = [
        f"{TopicRef(cluster, name)} is the remote topic of {topic.source} and also declared; the declared values win"
        for cluster, named in desired.alike.items()
        for name, topic in named.items()
        if topic.source is not None and topic.role is Role.DECLARED
    ]
    rings = ", ".join(sorted(str(route.remote) for route in routing.routes if route.two_way))
    ring_notes = (f"configs are not synced where the same name flows both ways: {rings}",) if rings else ()
    blocked = _blocked_flows(topology, usable, routing)
    findings = merged(
        (
            clusters,
            Findings(refused=routing.refused, notes=(*routing.notes, *ring_notes), outside=outside),
            topics,
            replicas,
            prune(topology, usable, tuple(_unmanaged(topology, usable, names, routing.contested)), pruning),
            compare_same_offsets(topology, usable, routing, previous or {}),
            *compare_mirrors(topology, usable, routing, blocked, previous or {}),
            *compare_tombstones(topology, present, desired),
            Findings(notes=tuple(declared)),
            compare_access(topology, usable, routing),
            compare_quotas(topology, usable, pruning),
            compare_users(topology, usable, pruning),
        )
    )

    # One entry for each subject, since every flow of a source reports that its configs could not be read.
    unknown: dict[tuple[str, str], Unknown] = {}
    for each in findings.unknown:
        known = unknown.setdefault((each.subject, each.error), each)
        if known is not each:
            detail = tuple(dict.fromkeys(known.detail + each.detail))
            unknown[each.subject, each.error] = replace(known, detail=detail)
    return replace(findings, unknown=tuple(unknown.values())), routing


@dataclass(frozen=True, slots=True)
class WrongCluster:
    """Why the cluster that answers under an alias is ignored."""

    code: Why
    what: str
    todo: str


def strangers(topology: Topology, live: LiveState) -> Mapping[str, WrongCluster]:
    """Alias -> a cluster that is not the declared one, or the same as under another alias. A silent cluster is unknown,
    not wrong."""
    answered = {name: cluster.cluster_id for name in sorted(topology.clusters) if (cluster := live.known(name))}
    aliases = grouped((cluster_id, name) for name, cluster_id in answered.items())
    strange: dict[str, WrongCluster] = {}
    for name, cluster_id in answered.items():
        declared = topology.clusters[name].cluster_id
        # Two aliases lead to one cluster: a declared cluster_id shows which alias is right. Without one both count as
        # wrong.
        others = [other for other in aliases[cluster_id] if other != name]
        if declared not in (None, cluster_id):
            strange[name] = WrongCluster(
                Why.WRONG_CLUSTER_ID,
                f"cluster {name} is declared with cluster_id {declared}, but {cluster_id} answered; this may be another"
                " cluster",
                f"Correct bootstrap_servers or cluster_id of {name}; look for a tunnel or an old address",
            )
        elif declared is None and others:
            strange[name] = WrongCluster(
                Why.SAME_CLUSTER_TWICE,
                f"cluster {name} and cluster {' and '.join(others)} are one: {cluster_id} answers at the addresses of"
                " each. It would be mirrored onto itself without the cycle rule seeing it",
                f"Correct bootstrap_servers of {name}, or keep one alias; cluster_id in git says which is which",
            )
    return strange


def _clusters(topology: Topology, live: LiveState) -> tuple[Findings, LiveState]:
    """Findings about clusters, and ``live`` without wrong clusters, so that no change is based on them."""
    strange, usable, findings = strangers(topology, live), dict[str, LiveCluster | Unknown](), []
    for name in sorted(topology.clusters):
        subject = f"cluster {name}"
        usable[name] = cluster = live.clusters.get(name, Unknown(subject, "it was not read"))

        # Subjects that stay unknown together with their cluster.
        flows = {flow.name for flow in topology.flows.values() if name in (flow.source, flow.target)}
        topics = sorted(str(TopicRef(name, it.name)) for it in topology.topics.values() if name in it.clusters)
        topics += sorted(f"tombstone of {stone.ref}" for stone in topology.deletions if stone.cluster == name)
        mirrors = sorted(f"mirror {it.name}" for it in topology.mirrors.values() if flows.intersection(it.flows))
        dependents = (*topics, *(f"flow {flow}" for flow in sorted(flows)), *mirrors)
        if isinstance(cluster, Unknown):
            findings.append(Findings(unknown=(replace(cluster, detail=(*cluster.detail, *dependents)),)))
        elif stranger := strange.get(name):
            usable[name] = Unknown(subject, "not the declared cluster")
            reason = f"{stranger.what}. Left alone with it: {', '.join(dependents) or 'nothing'}"
            refused = Refused(Subject(About.CLUSTER, name), Reason(stranger.code, reason), stranger.todo)
            findings.append(Findings(refused=(refused,)))
        else:
            findings.append(Findings(settled=(Subject(About.CLUSTER, name),)))
    return merged(findings), LiveState({name: usable[name] for name in topology.clusters}, live.mirrors)


def _surroundings(
    topology: Topology, live: LiveState, desired: Mapping[str, Collection[str]], replicas: Findings
) -> dict[str, Surroundings]:
    """``desired``: cluster -> names."""
    moving = {change.ref for change in replicas.changes if isinstance(change, ReassignReplicas)}
    surroundings: dict[str, Surroundings] = {}
    for name in topology.clusters:
        if cluster := live.known(name):
            # Computed once for each cluster: each of its topics is compared against the same surroundings.
            different = different_configs(cluster)
            keys = {key for configs in different for key in configs}
            here = frozenset(ref.name for ref in moving if ref.cluster == name)
            facts = cluster.replicas
            moves = facts.moves if isinstance(facts, ReplicaFacts) else ()
            busy = frozenset(move.topic for move in moves)
            fallback = usual_configs(cluster)
            names = cache(partial(_namesakes, cluster, desired.get(name, ())))
            surroundings[name] = Surroundings(
                topology.clusters[name], cluster, names, frozenset(keys), fallback, here, busy
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
    """Flow -> the failed read. Without flows of an unusable cluster, which is reported itself."""
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
    """``desired``: cluster -> names. Topics with a tombstone are left out, since the tombstone is reported."""
    buried = {stone.ref for stone in topology.deletions}
    for name in sorted(topology.clusters):
        if (cluster := live.known(name)) is None:
            continue
        silent = [f for f in topology.flows.values() if f.target == name and not live.known(f.source)]
        here = desired.get(name, frozenset())
        for unmanaged in sorted(cluster.topics.keys() - here):
            topic, ref = cluster.topics[unmanaged], TopicRef(name, unmanaged)
            if ref in contested or ref in buried or topic.internal or is_reserved(topic.name):
                continue
            if not any(is_copy(selector_of(flow), topic.name) for flow in silent):  # its source did not answer
                yield Unmanaged(ref, len(topic.partitions))
