"""The ACLs that each role needs (consumer, producer and so on), and no more.

An allowed READ or WRITE implies DESCRIBE, and WRITE on any topic allows an idempotent producer (KIP-679, Kafka 2.8), so
neither is written out.

Rights of the role ``mirror`` depend on flows and live topics. Source topics are named one by one: a job sees only
topics of its flows, and a new topic gets its rule in the plan that creates its remote topic. Remote names share one
prefixed rule if the naming policy gives them a prefix.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

from reconciler.model.environment.topology import Flow, Topology
from reconciler.model.principals import (
    CLUSTER_NAME,
    WILDCARD,
    AccessRole,
    AccessRule,
    AclBinding,
    NamePattern,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from reconciler.replication.names import (
    OwnTopics,
    host_transactions,
    position_group,
)
from reconciler.resources.flows.routes import Route
from reconciler.resources.topics.internal import written_by
from reconciler.text import BRIEF, first_of, grouped

Right = tuple[ResourceType, NamePattern, Operation]

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TRANSACTION = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
EVERY = NamePattern(WILDCARD)
ITSELF = NamePattern(CLUSTER_NAME)
SINK_GROUPS = NamePattern("connect-", PatternType.PREFIXED)
"""Kafka Connect's groups of sink connectors, unless consumer.override.group.id says otherwise."""
OUR_TRANSACTIONS = NamePattern("reconciler.", PatternType.PREFIXED)


def expand_stable(rule: AccessRule) -> tuple[AclBinding, ...]:
    """Rules of an entry, in order; none for the role mirror, which depends on topics."""
    if rule.exact is not None:
        exact = rule.exact
        return tuple(
            AclBinding(exact.resource, name.name, name.pattern, rule.principal, host, operation, exact.permission)
            for name in exact.names
            for operation in exact.operations
            for host in rule.hosts
        )
    if rule.role is None or rule.role is AccessRole.MIRROR:
        return ()
    return bindings(rule, _rights(rule, rule.role))


def bindings(rule: AccessRule, rights: Iterable[Right]) -> tuple[AclBinding, ...]:
    """Each right for the principal of ``rule`` from each of its hosts, allowed."""
    return tuple(
        AclBinding(resource, name.name, name.pattern, rule.principal, host, operation, Permission.ALLOW)
        for resource, name, operation in dict.fromkeys(rights)
        for host in rule.hosts
    )


def title_of(rule: AccessRule) -> str:
    """The title for reviewers: ``User:orders-app: producer on orders``."""
    if rule.exact is not None:
        exact = rule.exact
        on = "" if exact.resource is CLUSTER else f" {_listed(exact.names)}"
        return f"{rule.principal}: {exact.permission} {', '.join(exact.operations)} on {exact.resource}{on}"
    match rule.role:
        case AccessRole.PRODUCER | AccessRole.CONSUMER:
            about = f" on {_listed(rule.topics)}"
        case AccessRole.STREAMS:
            about = f" {rule.application_id}"
        case AccessRole.CONNECT:
            about = f" {_listed(rule.groups)}"
        case _:
            about = ""
    return f"{rule.principal}: {rule.role}{about}"


def _rights(rule: AccessRule, role: AccessRole) -> Iterator[Right]:
    """Rights by role, as the documentation of each client names them. Those of a mirror follow from its flows instead
    (``mirror_rights``)."""
    match role:
        case AccessRole.PRODUCER:
            yield from _each(TOPIC, rule.topics, Operation.WRITE)
            yield from _each(TRANSACTION, rule.transactional_ids, Operation.WRITE)
        case AccessRole.CONSUMER:
            yield from _each(TOPIC, rule.topics, Operation.READ)
            yield from _each(GROUP, rule.groups, Operation.READ)
        case AccessRole.STREAMS:
            # Kafka Streams developer guide, "Required ACL setting for secure Kafka clusters".
            own = (NamePattern(rule.application_id, PatternType.PREFIXED),)
            yield from _each(TOPIC, rule.reads, Operation.READ)
            yield from _each(TOPIC, rule.writes, Operation.WRITE)
            yield from _each(TOPIC, own, Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE)
            yield from _each(TOPIC, own, Operation.DESCRIBE_CONFIGS)
            yield from _each(GROUP, own, Operation.READ, Operation.DELETE)
            yield from _each(TRANSACTION, own, Operation.WRITE)
        case AccessRole.CONNECT:
            # Workers: their group and their three topics; connectors: what they read and write.
            yield from _each(GROUP, rule.groups, Operation.READ)
            yield from _each(
                TOPIC, rule.topics, Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE_CONFIGS
            )
            yield from _each(TOPIC, rule.reads, Operation.READ)
            if rule.reads:
                yield from _each(GROUP, (SINK_GROUPS,), Operation.READ)
            yield from _each(TOPIC, rule.writes, Operation.WRITE)
            yield from _each(TRANSACTION, rule.transactional_ids, Operation.WRITE)
        case AccessRole.RECONCILER_PLAN:
            yield from _looking()
        case AccessRole.RECONCILER_APPLY:
            yield from _looking()
            # Topics, configs and their removal; access rules and replicas (ALTER on the cluster); throttles and
            # quotas.
            yield from _each(
                TOPIC, (EVERY,), Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS
            )
            yield from _each(CLUSTER, (ITSELF,), Operation.ALTER, Operation.ALTER_CONFIGS)
            yield from _each(TRANSACTION, (OUR_TRANSACTIONS,), Operation.WRITE)
        case AccessRole.MIRROR:
            return
        case _:
            assert_never(role)


def _looking() -> Iterator[Right]:
    """Rights for the requests of plan, drift and doctor."""
    yield from _each(TOPIC, (EVERY,), Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
    yield from _each(GROUP, (EVERY,), Operation.DESCRIBE)
    yield from _each(TRANSACTION, (EVERY,), Operation.DESCRIBE)
    yield from _each(CLUSTER, (ITSELF,), Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)


def _each(resource: ResourceType, names: Iterable[NamePattern], *operations: Operation) -> Iterator[Right]:
    return ((resource, name, operation) for name in names for operation in operations)


def _listed(names: tuple[NamePattern, ...]) -> str:
    return first_of([str(name) for name in names], BRIEF)


EVERY_GROUP = NamePattern("*")


def flows_of(rule: AccessRule, topology: Topology) -> tuple[Flow, ...]:
    return tuple(flow for flow in topology.flows.values() if not rule.flows or flow.name in rule.flows)


def clusters_of(rule: AccessRule, topology: Topology) -> tuple[str, ...]:
    """Clusters of a rule of role mirror."""
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
            for other in topology.arriving(flow):  # a principal of both has Read, which implies Describe
                if other not in wanted:
                    yield GROUP, NamePattern(position_group(other.state_name)), Operation.DESCRIBE
        if flow.target == cluster:
            # Read, too, because `verify` compares both sides as the same principal.
            if flow.naming.policy == "default":
                names = [NamePattern(f"{flow.source}{flow.naming.separator}", PatternType.PREFIXED)]
            else:
                names = [NamePattern(route.remote.name) for route in mine]
            for name in names:
                yield from _read_and_write(name)
                if flow.keeps_offsets:  # DeleteRecords, below the source's first offset; DescribeProducers needs Read
                    yield TOPIC, name, Operation.DELETE
            yield GROUP, NamePattern(position_group(flow.state_name)), Operation.READ
            yield TRANSACTION, NamePattern(f"{position_group(flow.state_name)}.", PatternType.PREFIXED), Operation.WRITE
            if flow.groups.sync_offsets:
                yield GROUP, EVERY_GROUP, Operation.READ
    # Topics that the job keeps for itself on `cluster`; it reads back what it wrote.
    carrying, own = {flow.name for flow in wanted}, topology.clusters[cluster].own_topics
    for mirror in topology.mirrors.values():
        if carrying.intersection(mirror.flows) and topology.status_cluster(mirror) == cluster:
            yield from _read_and_write(NamePattern(own.status))
            if mirror.hosted:
                yield from _read_and_write(NamePattern(own.control))
                prefix = NamePattern(host_transactions(topology.environment), PatternType.PREFIXED)
                yield TRANSACTION, prefix, Operation.WRITE
    for carried in sorted(carrying):
        for topic in written_by(topology, topology.flows[carried]):
            if topic.ref.cluster == cluster:
                yield from _read_and_write(NamePattern(topic.ref.name))


def own_rights(role: AccessRole | None, own: OwnTopics) -> Iterator[Right]:
    """Rights of plan and apply on the status and lock topics of a cluster, whose names depend on its prefix."""
    if role in (AccessRole.RECONCILER_PLAN, AccessRole.RECONCILER_APPLY):
        yield from _each(TOPIC, (NamePattern(own.status), NamePattern(own.lock)), Operation.READ)
    if role is AccessRole.RECONCILER_APPLY:
        yield TOPIC, NamePattern(own.lock), Operation.WRITE


def record_rights(role: AccessRole | None, topology: Topology, cluster: str) -> Iterator[Right]:
    """Additional rights of our own programs on clusters that keep records of mirrors or applies. ``mirror pause`` and
    ``failover`` write pauses to the status topic."""
    if role not in (AccessRole.RECONCILER_PLAN, AccessRole.RECONCILER_APPLY):
        return
    applies, own = role is AccessRole.RECONCILER_APPLY, topology.clusters[cluster].own_topics
    yield from own_rights(role, own)
    kept = [mirror for mirror in topology.mirrors.values() if topology.status_cluster(mirror) == cluster]
    if kept and applies:
        yield TOPIC, NamePattern(own.status), Operation.WRITE
    if any(mirror.hosted for mirror in kept):
        yield TOPIC, NamePattern(own.control), Operation.READ
        if applies:
            yield TOPIC, NamePattern(own.control), Operation.WRITE
    audit = topology.audit_place()
    if audit is not None and audit.cluster == cluster:
        yield TOPIC, NamePattern(audit.name), Operation.READ
        if applies:
            yield TOPIC, NamePattern(audit.name), Operation.WRITE


def _read_and_write(name: NamePattern) -> Iterator[Right]:
    yield TOPIC, name, Operation.READ
    yield TOPIC, name, Operation.WRITE
