"""The access rules of a live cluster as entries of ``access``, few and exact; what no entry can hold is told.

Border: nouns in, nouns and words out. Roles are not guessed: a rule is written as Kafka stores it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.access.building import MEANT_FOR, is_address, is_principal
from reconciler.access_rules import AccessRule, ExactRule, NamePattern
from reconciler.acls import CLUSTER_NAME, WILDCARD, AclBinding, Operation, PatternType, Permission, ResourceType
from reconciler.yaml_nodes import CONTROL

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
        return sum(
            len(rule.exact.names) * len(rule.exact.operations) * len(rule.hosts) for rule in self.rules if rule.exact
        )


NO_ACCESS = AdoptedAccess()


def adopt_access(cluster: str, acls: Iterable[AclBinding]) -> AdoptedAccess:
    """Rules of one principal that differ in name, operation or host only are put together."""
    taken: list[AclBinding] = []
    left: list[str] = []
    for acl in sorted(acls):
        why = _why_not(acl)
        if why:
            left.append(f"{acl}: {why}")
        else:
            taken.append(acl)
    rules: list[AccessRule] = []
    for (principal, permission, resource), operations, names, hosts in _grouped(taken):
        exact = ExactRule(resource, names, operations, permission)
        rules.append(AccessRule(len(rules) + 1, principal, (cluster,), exact=exact, hosts=hosts))
    return AdoptedAccess(tuple(rules), tuple(left))


def _why_not(acl: AclBinding) -> str:
    if not is_principal(acl.principal):
        return "its principal is none that a client can be"
    if acl.host != WILDCARD and not is_address(acl.host):
        return "its host is no address"
    if not acl.name or CONTROL.search(f"{acl.name}{acl.principal}"):
        return "it holds characters that may not stand in a topology"
    if acl.operation is not Operation.ALL and acl.operation not in MEANT_FOR[acl.resource]:
        return f"the operation does not exist on {acl.resource}"
    at_cluster = acl.name == CLUSTER_NAME and acl.pattern is PatternType.LITERAL
    return "" if acl.resource is not ResourceType.CLUSTER or at_cluster else f"a cluster is called {CLUSTER_NAME}"


def _grouped(acls: Iterable[AclBinding]) -> Iterator[tuple[Subject, Operations, Names, tuple[str, ...]]]:
    operations: dict[tuple[Subject, str, NamePattern], list[Operation]] = {}
    for acl in acls:
        place = (acl.principal, acl.permission, acl.resource), acl.host, NamePattern(acl.name, acl.pattern)
        operations.setdefault(place, []).append(acl.operation)
    names: dict[tuple[Subject, str, Operations], list[NamePattern]] = {}
    for (subject, host, name), found in operations.items():
        names.setdefault((subject, host, tuple(found)), []).append(name)
    hosts: dict[tuple[Subject, Operations, Names], list[str]] = {}
    for (subject, host, found_operations), found_names in names.items():
        hosts.setdefault((subject, found_operations, tuple(sorted(found_names))), []).append(host)
    for (subject, found_operations, all_names), all_hosts in sorted(hosts.items(), key=_first):
        yield subject, found_operations, all_names, tuple(sorted(all_hosts))


def _first(one: tuple[tuple[Subject, Operations, Names], list[str]]) -> tuple[object, ...]:
    return one[0][0][0], one[0][0], one[0][2], one[0][1]


def fields_of(rule: AccessRule) -> Mapping[str, str | tuple[NamePattern | str, ...]]:
    """The fields of an exact rule, in the order in which they are written; defaults are left out."""
    assert rule.exact is not None
    exact = rule.exact
    found: dict[str, str | tuple[NamePattern | str, ...]] = {"principal": rule.principal, "clusters": rule.clusters}
    found["resource"] = str(exact.resource)
    if exact.resource is not ResourceType.CLUSTER:
        found["names"] = exact.names
    found["operations"] = tuple(map(str, exact.operations))
    if exact.permission is not Permission.ALLOW:
        found["permission"] = str(exact.permission)
    if rule.hosts != (WILDCARD,):
        found["hosts"] = rule.hosts
    return found
