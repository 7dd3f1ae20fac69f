"""The ACLs that a mirror job needs on both sides of its flows, and no more.

Sources are named topic by topic: a job sees no topic that its flows do not carry, and a new topic gets its rule in the
plan that makes its remote topic. Remote names are one prefix where the naming policy gives them one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.model.acls import AccessRole, AccessRule, NamePattern, Operation, PatternType, ResourceType
from reconciler.model.environment.topology import Flow, Topology
from reconciler.replication.names import CONTROL_TOPIC, STATUS_TOPIC, host_transactions, position_group
from reconciler.resources.acls.roles import GROUP, TOPIC, TRANSACTION, Right
from reconciler.resources.flows.routes import Route
from reconciler.resources.topics.internal import written_by
from reconciler.text import grouped

EVERY_GROUP = NamePattern("*")


def flows_of(rule: AccessRule, topology: Topology) -> tuple[Flow, ...]:
    return tuple(flow for flow in topology.flows.values() if not rule.flows or flow.name in rule.flows)


def clusters_of(rule: AccessRule, topology: Topology) -> tuple[str, ...]:
    """Where a rule of role mirror holds."""
    sides = {side for flow in flows_of(rule, topology) for side in (flow.source, flow.target)}
    return rule.clusters or tuple(sorted(sides))


def mirror_rights(flows: Iterable[Flow], topology: Topology, routes: Iterable[Route], cluster: str) -> Iterator[Right]:
    """On ``cluster``, for a principal that carries ``flows``."""
    by_flow = grouped((route.flow, route) for route in routes)
    wanted = tuple(flows)
    for flow in wanted:
        mine = by_flow.get(flow.name, [])
        if flow.source == cluster:
            yield from ((TOPIC, NamePattern(route.source.name), Operation.READ) for route in mine)
            if flow.groups.sync_offsets:
                yield GROUP, EVERY_GROUP, Operation.READ if flow.groups.both_ways else Operation.DESCRIBE
            for other in topology.arriving(flow):  # a principal that carries it, too, has Read, which implies this
                if other not in wanted:
                    yield GROUP, NamePattern(position_group(other.state_name)), Operation.DESCRIBE
        if flow.target == cluster:
            # Reads too: `verify` compares both sides as the same principal.
            if flow.naming.policy == "default":
                names = [NamePattern(f"{flow.source}{flow.naming.separator}", PatternType.PREFIXED)]
            else:
                names = [NamePattern(route.remote.name) for route in mine]
            for name in names:
                yield from _both(TOPIC, name)
                if flow.keeps_offsets:  # DeleteRecords, below the source's first offset; DescribeProducers needs Read
                    yield TOPIC, name, Operation.DELETE
            yield GROUP, NamePattern(position_group(flow.state_name)), Operation.READ
            yield TRANSACTION, NamePattern(f"{position_group(flow.state_name)}.", PatternType.PREFIXED), Operation.WRITE
            if flow.groups.sync_offsets:
                yield GROUP, EVERY_GROUP, Operation.READ
    # Topics that the job keeps for itself on `cluster`; it reads back what it wrote.
    carrying = {flow.name for flow in wanted}
    for mirror in topology.mirrors.values():
        if carrying.intersection(mirror.flows) and topology.status_cluster(mirror) == cluster:
            yield from _both(TOPIC, NamePattern(STATUS_TOPIC))
            if mirror.hosted:
                yield from _both(TOPIC, NamePattern(CONTROL_TOPIC))
                prefix = NamePattern(host_transactions(topology.environment), PatternType.PREFIXED)
                yield TRANSACTION, prefix, Operation.WRITE
    for carried in sorted(carrying):
        for topic in written_by(topology.flows[carried]):
            if topic.ref.cluster == cluster:
                yield from _both(TOPIC, NamePattern(topic.ref.name))


def record_rights(role: AccessRole | None, topology: Topology, cluster: str) -> Iterator[Right]:
    """What our own programs need, beside what is the same everywhere, on clusters that keep records of mirrors or of
    applies. Pauses are records in the status topic: ``mirror pause`` and ``failover`` write them."""
    if role not in (AccessRole.RECONCILER_PLAN, AccessRole.RECONCILER_APPLY):
        return
    applies = role is AccessRole.RECONCILER_APPLY
    kept = [m for m in topology.mirrors.values() if m.flows and topology.status_cluster(m) == cluster]
    if kept and applies:
        yield TOPIC, NamePattern(STATUS_TOPIC), Operation.WRITE
    if any(mirror.hosted for mirror in kept):
        yield TOPIC, NamePattern(CONTROL_TOPIC), Operation.READ
        if applies:
            yield TOPIC, NamePattern(CONTROL_TOPIC), Operation.WRITE
    audit = topology.audit_place()
    if audit is not None and audit.cluster == cluster:
        yield TOPIC, NamePattern(audit.name), Operation.READ
        if applies:
            yield TOPIC, NamePattern(audit.name), Operation.WRITE


def _both(resource: ResourceType, name: NamePattern) -> Iterator[Right]:
    yield resource, name, Operation.READ
    yield resource, name, Operation.WRITE
