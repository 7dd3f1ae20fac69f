"""Adopts the ACLs of a live cluster as ``access`` entries; reports what no entry can hold.

Roles are not guessed: a rule is written as Kafka stores it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.environment.declarations.acls import MEANT_FOR, is_address, is_principal
from reconciler.environment.yaml.nodes import CONTROL
from reconciler.model.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AccessRule,
    AclBinding,
    ExactRule,
    NamePattern,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from reconciler.text import grouped

Subject = tuple[str, Permission, ResourceType]
Operations = tuple[Operation, ...]
Names = tuple[NamePattern, ...]


@dataclass(frozen=True, slots=True)
class AdoptedAccess:
    rules: tuple[AccessRule, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Of Kafka's rules."""
        rules = ((rule.exact, rule.hosts) for rule in self.rules if rule.exact)
        return sum(len(exact.names) * len(exact.operations) * len(hosts) for exact, hosts in rules)


NO_ACCESS = AdoptedAccess()


def adopt_access(cluster: str, acls: Iterable[AclBinding]) -> AdoptedAccess:
    """Rules of one principal that differ in name, operation or host only are put together."""
    taken: list[AclBinding] = []
    left_out: list[str] = []
    for acl in sorted(acls):
        if why := _why_not(acl):
            left_out.append(f"{acl}: {why}")
        else:
            taken.append(acl)
    rules: list[AccessRule] = []
    for (principal, permission, resource), operations, names, hosts in _grouped(taken):
        exact = ExactRule(resource, names, operations, permission)
        rules.append(AccessRule(len(rules) + 1, principal, (cluster,), exact=exact, hosts=hosts))
    return AdoptedAccess(tuple(rules), tuple(left_out))


def _why_not(acl: AclBinding) -> str:
    if not is_principal(acl.principal):
        return "its principal is none that a client can be"
    if acl.host != WILDCARD and not is_address(acl.host):
        return "its host is no address"
    if not acl.name or CONTROL.search(f"{acl.name}{acl.principal}"):
        return "it contains characters that are not allowed in a topology"
    if acl.operation is not Operation.ALL and acl.operation not in MEANT_FOR[acl.resource]:
        return f"the operation does not exist on {acl.resource}"
    at_cluster = acl.name == CLUSTER_NAME and acl.pattern is PatternType.LITERAL
    return "" if acl.resource is not ResourceType.CLUSTER or at_cluster else f"a cluster is called {CLUSTER_NAME}"


def _grouped(acls: Iterable[AclBinding]) -> Iterator[tuple[Subject, Operations, Names, tuple[str, ...]]]:
    operations = grouped(
        (((acl.principal, acl.permission, acl.resource), acl.host, NamePattern(acl.name, acl.pattern)), acl.operation)
        for acl in acls
    )
    names = grouped(((subject, host, tuple(each)), name) for (subject, host, name), each in operations.items())
    hosts = grouped(((subject, each, tuple(sorted(some))), host) for (subject, host, each), some in names.items())
    rules = sorted(hosts.items(), key=lambda item: (item[0][0], item[0][2], item[0][1]))
    for (subject, each_operations, all_names), all_hosts in rules:
        yield subject, each_operations, all_names, tuple(sorted(all_hosts))


def fields_of(rule: AccessRule) -> Mapping[str, str | tuple[NamePattern | str, ...]]:
    """The fields of an exact rule, in the order in which they are written; defaults are left out."""
    assert rule.exact is not None
    exact = rule.exact
    fields: dict[str, str | tuple[NamePattern | str, ...]] = {"principal": rule.principal, "clusters": rule.clusters}
    fields["resource"] = str(exact.resource)
    if exact.resource is not ResourceType.CLUSTER:
        fields["names"] = exact.names
    fields["operations"] = tuple(map(str, exact.operations))
    if exact.permission is not Permission.ALLOW:
        fields["permission"] = str(exact.permission)
    if rule.hosts != (WILDCARD,):
        fields["hosts"] = rule.hosts
    return fields
