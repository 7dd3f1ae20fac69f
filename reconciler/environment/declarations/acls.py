"""``access`` entries: the fields that each role takes, and rules that contradict each other."""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from reconciler.environment.declarations.entry import Reading
from reconciler.environment.declarations.values import Wrong
from reconciler.environment.yaml.locations import Places, unknown_clusters, unknown_name
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.nodes import Scalar, Sequence
from reconciler.errors import Problem
from reconciler.model.environment.topology import Topology
from reconciler.model.principals import (
    CLUSTER_NAME,
    WILDCARD,
    AccessRole,
    AccessRule,
    AclBinding,
    ExactRule,
    NamePattern,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from reconciler.resources.acls.roles import expand_stable
from reconciler.text import nearest

EXACT = "resource"
_ALWAYS = frozenset({"principal", "clusters", "hosts", "absent"})
REQUIRED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        AccessRole.PRODUCER: ("clusters", "topics"),
        AccessRole.CONSUMER: ("clusters", "topics", "groups"),
        AccessRole.STREAMS: ("clusters", "application_id"),
        AccessRole.CONNECT: ("clusters", "groups", "topics"),
        AccessRole.MIRROR: (),
        AccessRole.RECONCILER_PLAN: ("clusters",),
        AccessRole.RECONCILER_APPLY: ("clusters",),
        EXACT: ("clusters", "resource", "operations"),
    }
)
OPTIONAL: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        AccessRole.PRODUCER: ("transactional_ids",),
        AccessRole.STREAMS: ("reads", "writes"),
        AccessRole.CONNECT: ("reads", "writes", "transactional_ids"),
        AccessRole.MIRROR: ("flows",),
        EXACT: ("names", "permission"),
    }
)
MEANT_FOR: Mapping[ResourceType, frozenset[Operation]] = MappingProxyType(
    {
        ResourceType.TOPIC: frozenset(
            {Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE,
             Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}
        ),
        ResourceType.GROUP: frozenset(
            {Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}
        ),
        ResourceType.CLUSTER: frozenset(
            {Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION,
             Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE}
        ),
        ResourceType.TRANSACTIONAL_ID: frozenset({Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT}),
        ResourceType.DELEGATION_TOKEN: frozenset({Operation.DESCRIBE}),
        ResourceType.USER: frozenset({Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS}),
    }
)  # fmt: skip
"""``org.apache.kafka.security.authorizer.AclEntry.supportedOperations``. ALL fits everywhere."""

_PRINCIPAL = re.compile(r"[A-Z][A-Za-z]*:.+")


def build_access(reading: Reading) -> AccessRule:
    """``reading.name`` is the entry's number, from 1."""
    word = reading.value("role", default=None)
    role = None if word is None else AccessRole(word)
    _check_fields(reading, role)

    principal = str(reading.value("principal", default=""))
    kind, _, name = principal.partition(":")
    if not is_principal(principal):
        why = "Kafka compares principals letter by letter, so the rule would apply to no client"
        todo = f"Write User:{name if name and nearest(kind, ['User']) else principal}"
        reading.wrong(("principal",), Wrong("bad-principal", f'the principal is "{principal}"', why, todo))

    hosts = reading.texts("hosts", default=(WILDCARD,))
    for index, host in enumerate(hosts):
        if host != WILDCARD and not is_address(host):
            problem, why = f'hosts has "{host}"', "Kafka compares addresses, never names or networks"
            reading.wrong(("hosts", index), Wrong("bad-host", problem, why, 'Write an IP address, or "*" for all'))

    names = {field: _patterns(reading, field) for field in ("topics", "groups", "transactional_ids", "reads", "writes")}
    return AccessRule(
        number=int(reading.name),
        principal=principal,
        clusters=reading.texts("clusters"),
        role=role,
        exact=_exact(reading) if role is None and reading.node(EXACT) is not None else None,
        hosts=hosts,
        application_id=reading.value("application_id", default=""),
        flows=reading.texts("flows"),
        absent=reading.value("absent", default=False),
        where=reading.place.where,
        **names,
    )


def _check_fields(reading: Reading, role: AccessRole | None) -> None:
    """The fields of an entry fit its role: each role has fields that it requires and others that it reads."""
    written = reading.place.entry.value
    assert isinstance(written, YamlMapping)
    if role is None and EXACT not in written.entries:
        why = "Without either it is unknown what the principal may do"
        todo = f"Write role: {' or '.join(AccessRole)}; or resource, names and operations"
        reading.wrong((), Wrong("access-without-role", "it has neither role nor resource", why, todo))
        return
    # The schema allows the fields of all roles; one that this role ignores would seem to take effect.
    kind, word = (EXACT, "a rule by resource") if role is None else (str(role), f"the role {role}")
    known = {*_ALWAYS, *REQUIRED[kind], *OPTIONAL.get(kind, ()), *(("role",) if role else ())}
    for field in written.entries.keys() - known:
        problem = f"{word} has no field {field}"
        why = "A field that nothing reads would look as if it took effect"
        todo = f"Remove it; {word} has {', '.join(sorted(known - _ALWAYS - {'role'})) or 'no fields of its own'}"
        reading.wrong((field,), Wrong("access-field", problem, why, todo))
    for field in REQUIRED[kind]:
        if field not in written.entries:
            todo = f"Add {field}" + (", or [] for clients without a group" if field == "groups" else "")
            why = "It has no default"
            reading.wrong((), Wrong("missing-field", f"{word} lacks the field {field}", why, todo))


def is_principal(text: str) -> bool:
    """``User:`` and a name, or another type that a principal builder may make; no misspelt User."""
    kind = text.partition(":")[0]
    return bool(_PRINCIPAL.fullmatch(text)) and (kind == "User" or nearest(kind, ["User"]) is None)


def is_address(text: str) -> bool:
    """An IP address, which is all that Kafka compares."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _patterns(reading: Reading, field: str) -> tuple[NamePattern, ...]:
    """Each item is a name, or ``{prefix: ...}``."""
    node = reading.node(field)
    patterns = []
    for item in node.items if isinstance(node, Sequence) else ():
        name, kind = item, PatternType.LITERAL
        if isinstance(item, YamlMapping):
            name, kind = item.entries["prefix"].value, PatternType.PREFIXED
        patterns.append(NamePattern(name.text if isinstance(name, Scalar) else "", kind))
    return tuple(patterns)


def _exact(reading: Reading) -> ExactRule:
    """A rule by resource, names and operations. Operations that a resource does not have are refused: brokers take such
    a rule, and it never decides anything."""
    resource = ResourceType(reading.value(EXACT, default="topic"))
    names = _patterns(reading, "names")
    if resource is ResourceType.CLUSTER:
        if names not in ((), (NamePattern(CLUSTER_NAME),)):
            why = f"A cluster has one resource of this kind, {CLUSTER_NAME}"
            reading.wrong(("names",), Wrong("access-field", "the resource cluster is given names", why, "Remove names"))
        names = (NamePattern(CLUSTER_NAME),)
    elif not names:
        todo = 'Add names, such as [orders, {prefix: "pay."}] or ["*"] for all'
        reading.wrong((), Wrong("missing-field", f"a rule about {resource} lacks names", "It has no default", todo))
    operations = tuple(map(Operation, reading.texts("operations")))
    for index, operation in enumerate(operations):
        if operation not in MEANT_FOR[resource] and operation is not Operation.ALL:
            problem = f"the operation {operation} does not exist on {resource}"
            todo = f"Write one of: {', '.join(sorted(MEANT_FOR[resource]))}, all"
            wrong = Wrong("bad-operation", problem, "No request asks for it, so the rule would say nothing", todo)
            reading.wrong(("operations", index), wrong)
    return ExactRule(resource, names, operations, Permission(reading.value("permission", default="allow")))


def check_access(topology: Topology, places: Places) -> Iterator[Problem]:
    """Names that are unknown, entries that contradict each other, and principals that no client can have."""
    granted_by: dict[tuple[str, AclBinding], AccessRule] = {}
    for rule in topology.access:
        subject = f"access rule {rule.number}"
        yield from unknown_clusters(places, topology.clusters, rule, subject)
        for index, name in enumerate(rule.flows):
            where = places.of(rule, "flows", index)
            yield from unknown_name(places, topology.flows, name, subject, where, "flows")
        if rule.role is AccessRole.MIRROR and rule.absent:
            problem = f"{subject}: the role mirror is declared absent"
            why = "What it comes to depends on live topics"
            yield Problem("access-field", places.of(rule, "absent"), problem, why, "Name the rules by resource")
        if not rule.absent:
            for cluster in rule.clusters:
                granted_by |= {(cluster, acl): rule for acl in expand_stable(rule)}

    # A binding that is declared and declared absent. One a rule is reported: its others have the same cause.
    for rule in (rule for rule in topology.access if rule.absent):
        bindings = ((cluster, acl) for cluster in rule.clusters for acl in expand_stable(rule))
        if (clash := next((binding for binding in bindings if binding in granted_by), None)) is not None:
            problem = f"access rule {rule.number} removes: {clash[1]}. {granted_by[clash].where} declares it"
            why, todo = "One asks for the rule, the other removes it", "Remove one of the two"
            yield Problem("access-contradiction", places.of(rule, "absent"), problem, why, todo)

    for flow in topology.flows.values():
        for name, other in flow.access.principals.items():
            if ":" not in name or ":" not in other:
                bad = name if ":" not in name else other
                where = places.of(flow, "access", "principals", name)
                problem = f'flow {flow.name}: access.principals has "{bad}"'
                why = "Kafka compares principals letter by letter, so no rule would be about it"
                yield Problem("bad-principal", where, problem, why, f"Write User:{bad}")
