"""Compares two environments, such as staging and production, after renaming one like the other.

Properties that two environments never share are left out: connections, ids and regions of clusters, tombstones, which
name one topic id, and former names of flows and of the environments.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.engine.edits.compare import compare
from reconciler.errors import ReconcilerError
from reconciler.model.environment.flow_settings import AccessSync
from reconciler.model.environment.topology import Cluster, Flow, Topology, by_name
from reconciler.model.principals import QuotaEntity, QuotaPart
from reconciler.model.reports.edit import PromotionReport
from reconciler.text import suggestion

Names = Mapping[str, str]
USER = "User:"
"""Before the name of a SCRAM user or of a quota's user, in a principal of access rules."""


def promotion(source: Topology, target: Topology, names: Names) -> PromotionReport:
    """``names``: cluster, flow, mirror or principal of ``source`` -> its name in ``target``. Raises ReconcilerError for
    a name that is nowhere, and for two that would become one."""
    _require_names(source, target, names)
    named = _named_as(source, names)

    # Flows and mirrors with other names correspond if they are unique: the only flow between the same clusters, the
    # only mirror with the same flows.
    between = ({flow.name: (flow.source, flow.target) for flow in side.flows.values()} for side in (named, target))
    flow_pairs = _only_ones(*between)
    with_flows = _named_as(named, flow_pairs)
    carrying = ({it.name: tuple(sorted(it.flows)) for it in side.mirrors.values()} for side in (with_flows, target))
    paired = {**_only_ones(*carrying), **flow_pairs}
    named = _named_as(named, paired)

    # With connections and former names of the counterparts, so that these do not differ.
    clusters, flows = list[Cluster](), list[Flow]()
    for cluster in named.clusters.values():
        if (other := target.clusters.get(cluster.name)) is not None:
            cluster = replace(
                cluster,
                bootstrap_servers=other.bootstrap_servers,
                cluster_id=other.cluster_id,
                region=other.region,
                service=other.service,
                topic_prefix=other.topic_prefix,
                client=other.client,
                principals=other.principals,
            )
        clusters.append(cluster)
    for flow in named.flows.values():
        known = target.flows.get(flow.name)
        flows.append(replace(flow, moved_from=known.moved_from if known is not None else ""))
    after = replace(
        named,
        environment=target.environment,
        clusters=by_name(clusters),
        flows=by_name(flows),
        deletions=(),
        moved_from=target.moved_from,
    )
    return PromotionReport(
        source.environment, target.environment, compare(replace(target, deletions=()), after), names, paired
    )


def _named_as(topology: Topology, names: Names) -> Topology:
    """``topology`` with other names for clusters, flows, mirrors and principals."""
    if not names:
        return topology

    def of(name: str) -> str:
        return names.get(name, name)

    def all_of(some: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(of, some))

    def user(name: str) -> str:
        return names.get(name) or of(f"{USER}{name}").removeprefix(USER)

    def limited(part: QuotaPart) -> QuotaPart:
        return replace(part, name=user(part.name)) if part.kind == "user" and part.name is not None else part

    def synced(access: AccessSync) -> AccessSync:
        return replace(access, principals={of(here): of(there) for here, there in access.principals.items()})

    # Every place that names one of these is renamed. One that was forgotten would show as a difference between the two
    # environments that no file has.
    rollout, audit = topology.rollout, topology.rules.audit
    return replace(
        topology,
        clusters=by_name(replace(it, name=of(it.name)) for it in topology.clusters.values()),
        topics=by_name(replace(it, clusters=all_of(it.clusters)) for it in topology.topics.values()),
        flows=by_name(
            replace(it, name=of(it.name), source=of(it.source), target=of(it.target), access=synced(it.access))
            for it in topology.flows.values()
        ),
        mirrors=by_name(
            replace(it, name=of(it.name), flows=tuple(sorted(all_of(it.flows)))) for it in topology.mirrors.values()
        ),
        access=tuple(
            replace(it, clusters=all_of(it.clusters), principal=of(it.principal), flows=all_of(it.flows))
            for it in topology.access
        ),
        quotas=tuple(
            replace(it, clusters=all_of(it.clusters), entity=QuotaEntity(tuple(map(limited, it.entity.parts))))
            for it in topology.quotas
        ),
        users=tuple(replace(it, clusters=all_of(it.clusters), name=user(it.name)) for it in topology.users),
        rules=replace(topology.rules, audit=audit and replace(audit, cluster=of(audit.cluster))),
        rollout=rollout
        and replace(rollout, waves=tuple(replace(it, clusters=all_of(it.clusters)) for it in rollout.waves)),
    )


def _only_ones(mine: Mapping[str, tuple[str, ...]], theirs: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Name -> the other side's name with the same key, for keys that are unique on both sides."""
    keys, others = list(mine.values()), {key: name for name, key in theirs.items()}
    single = {key for key in others if keys.count(key) == list(theirs.values()).count(key) == 1}
    return {name: others[key] for name, key in mine.items() if key in single and others[key] != name}


def _require_names(source: Topology, target: Topology, names: Names) -> None:
    """Raises ReconcilerError for unknown names, and for a mapping that makes one of two."""
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
    limited = {part.name for quota in topology.quotas for part in quota.entity.parts if part.kind == "user"}
    principals = {rule.principal for rule in topology.access} | {f"{USER}{name}" for name in users | limited}
    synced = {name for flow in topology.flows.values() for pair in flow.access.principals.items() for name in pair}
    return {*topology.clusters, *topology.flows, *topology.mirrors, *users, *principals, *synced}
