"""Two environments side by side, such as staging and production: one told in the other's names, then compared.

Left out is what two environments never share: how clusters are reached, their ids and regions, tombstones, which are of
one topic id, and the first names of renamed flows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.engine.edits.compare import compare
from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import Cluster, Flow, Topology, by_name
from reconciler.model.reports.promotion import PromotionReport
from reconciler.text import suggestion

Names = Mapping[str, str]


def promotion(source: Topology, target: Topology, names: Names) -> PromotionReport:
    """``names``: cluster, flow, mirror or principal of ``source`` -> its name in ``target``. Raises ReconcilerError for
    a name that is nowhere, and for two that would become one."""
    _require_names(source, target, names)
    named = _named_as(source, names)
    paired = _pairs(named, target)
    named = _named_as(named, paired)
    clusters = by_name(_reached(cluster, target) for cluster in named.clusters.values())
    flows = by_name(_first_name_of(flow, target) for flow in named.flows.values())
    after = replace(named, environment=target.environment, clusters=clusters, flows=flows, deletions=())
    return PromotionReport(
        source.environment, target.environment, compare(replace(target, deletions=()), after), names, paired
    )


def _reached(cluster: Cluster, target: Topology) -> Cluster:
    """With the connection of its counterpart, so that it makes no difference."""
    there = target.clusters.get(cluster.name)
    if there is None:
        return cluster
    return replace(
        cluster,
        bootstrap_servers=there.bootstrap_servers,
        cluster_id=there.cluster_id,
        region=there.region,
        client=there.client,
        principals=there.principals,
    )


def _first_name_of(flow: Flow, target: Topology) -> Flow:
    there = target.flows.get(flow.name)
    return replace(flow, moved_from=there.moved_from if there is not None else "")


def _named_as(topology: Topology, names: Names) -> Topology:
    """``topology`` with other names for clusters, flows, mirrors and principals."""
    if not names:
        return topology

    def of(name: str) -> str:
        return names.get(name, name)

    def all_of(some: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(of, some))

    rollout, audit = topology.rollout, topology.rules.audit
    return replace(
        topology,
        clusters=by_name(replace(it, name=of(it.name)) for it in topology.clusters.values()),
        topics=by_name(replace(it, clusters=all_of(it.clusters)) for it in topology.topics.values()),
        flows=by_name(
            replace(it, name=of(it.name), source=of(it.source), target=of(it.target)) for it in topology.flows.values()
        ),
        mirrors=by_name(
            replace(it, name=of(it.name), flows=tuple(sorted(all_of(it.flows)))) for it in topology.mirrors.values()
        ),
        access=tuple(
            replace(it, clusters=all_of(it.clusters), principal=of(it.principal), flows=all_of(it.flows))
            for it in topology.access
        ),
        quotas=tuple(replace(it, clusters=all_of(it.clusters)) for it in topology.quotas),
        users=tuple(replace(it, clusters=all_of(it.clusters), name=of(it.name)) for it in topology.users),
        rules=replace(topology.rules, audit=audit and replace(audit, cluster=of(audit.cluster))),
        rollout=rollout
        and replace(rollout, waves=tuple(replace(it, clusters=all_of(it.clusters)) for it in rollout.waves)),
    )


def _pairs(source: Topology, target: Topology) -> dict[str, str]:
    """Flows and mirrors of other names where nothing else can be meant: the only ones between the same clusters, the
    only ones that carry the same flows."""
    flows = _only_ones(_between(source), _between(target))
    return {**_only_ones(_carrying(_named_as(source, flows)), _carrying(target)), **flows}


def _between(topology: Topology) -> Mapping[str, tuple[str, ...]]:
    return {flow.name: (flow.source, flow.target) for flow in topology.flows.values()}


def _carrying(topology: Topology) -> Mapping[str, tuple[str, ...]]:
    return {mirror.name: tuple(sorted(mirror.flows)) for mirror in topology.mirrors.values()}


def _only_ones(mine: Mapping[str, tuple[str, ...]], theirs: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Name -> the other side's name of the same key, where neither side has that key twice."""
    keys, others = list(mine.values()), {key: name for name, key in theirs.items()}
    single = {key for key in others if keys.count(key) == list(theirs.values()).count(key) == 1}
    return {name: others[key] for name, key in mine.items() if key in single and others[key] != name}


def _require_names(source: Topology, target: Topology, names: Names) -> None:
    ours, others = _names(source), _names(target)
    for name, other in names.items():
        for topology, known, asked in ((source, ours, name), (target, others, other)):
            if asked not in known:
                problem = f"--map {name}={other}: environment {topology.environment} has nothing named {asked}"
                todo = suggestion(asked, known, "Names of clusters, flows, mirrors and principals can be mapped")
                raise ReconcilerError(
                    problem, "The first name is of the first environment, the second of the other.", todo
                )
    names_after = [names.get(name, name) for name in sorted(ours & (source.clusters.keys() | source.flows.keys()))]
    if doubled := sorted({name for name in names_after if names_after.count(name) > 1}):
        both = sorted(name for name in ours if names.get(name, name) == doubled[0])
        problem = f"{' and '.join(both)} of {source.environment} would both be {doubled[0]}"
        raise ReconcilerError(problem, "Two things cannot be compared with one.", "Map each to a name of its own.")


def _names(topology: Topology) -> set[str]:
    users = {user.name for user in topology.users}
    principals = {rule.principal for rule in topology.access}
    return {*topology.clusters, *topology.flows, *topology.mirrors, *users, *principals}
