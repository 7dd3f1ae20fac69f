"""Gains and losses of access by changed ACLs, and lock-outs of a principal.

Names are grouped by the rules that match them, so that ten thousand topics cost no more than their groups.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.model.plan import AccessShift
from reconciler.model.principals import (
    ANYONE,
    IMPLIED_BY,
    WILDCARD,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from reconciler.resources.acls.authorizer.decide import AccessRequest, Rulebook

Names = Mapping[ResourceType, Collection[str]]
"""Existing topics and groups of the cluster. Other names count only as future ones."""

SOMEBODY_ELSE = "User:(anyone else)"
_UNUSED_NAME = "\0"
_LAST = "\U0010ffff"
_Whose = tuple[str, bool, ResourceType, str]
"""Principal, whether it gains, the kind of resource, its host."""

OPERATIONS: Mapping[ResourceType, tuple[Operation, ...]] = {
    resource: tuple(Operation[name] for name in names.split())
    for resource, names in {
        ResourceType.TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
        ResourceType.GROUP: "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
        ResourceType.CLUSTER: "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE",
        ResourceType.TRANSACTIONAL_ID: "WRITE DESCRIBE TWO_PHASE_COMMIT",
        ResourceType.DELEGATION_TOKEN: "DESCRIBE",
        ResourceType.USER: "CREATE_TOKENS DESCRIBE_TOKENS",
    }.items()
}
"""Operations that Kafka asks for on each kind of resource (kafka-acls documentation, "Operations and resources")."""


@dataclass(frozen=True, slots=True)
class LockedOut:
    """A needed request that is allowed today and would be denied. ``by``: the denying rule; None: no rule is left."""

    request: AccessRequest
    today: AclBinding | None
    by: AclBinding | None


def shifts(
    before: Rulebook, after: Rulebook, touched: Iterable[AclBinding], names: Names, cluster: str = ""
) -> tuple[AccessShift, ...]:
    """Gains and losses when ``touched`` rules are made or deleted, with all names. Sorted by principal, losses
    first."""
    classes = _Classes(before, after, {resource: sorted(some) for resource, some in names.items()})
    all_operations: dict[_Whose, dict[str, set[Operation]]] = defaultdict(lambda: defaultdict(set))
    for rule in touched:
        host = {} if rule.host == WILDCARD else {"host": rule.host}
        principals = tuple(_principals(rule, before, after))
        # Requests that the rule may decide. With allow.everyone.if.no.acl.found its mere existence decides all of them.
        allows = rule.permission is Permission.ALLOW
        operations = tuple(
            each
            for each in OPERATIONS[rule.resource]
            if before.allow_everyone
            or rule.operation in (Operation.ALL, each)
            or (allows and rule.operation in IMPLIED_BY.get(each, ()))
        )
        for members in classes.under(rule):
            for principal in principals:
                for operation in operations:
                    request = AccessRequest(principal, operation, rule.resource, members[0], **host)
                    was, now = before.allows(request), after.allows(request)
                    if was != now:
                        reach = all_operations[principal, now, rule.resource, _hosts(rule, request, after, now)]
                        for name in members:
                            reach[name].add(operation)
    return tuple(_merged(cluster, all_operations))


def _hosts(rule: AclBinding, request: AccessRequest, after: Rulebook, now: bool) -> str:
    """Where the request is decided otherwise than before; hosts with rules of their own may be exceptions."""
    if rule.host != WILDCARD:
        return rule.host
    named = {each.host for each in after.on(request.resource, request.name)} - {WILDCARD}
    but = [host for host in sorted(named) if after.allows(replace(request, host=host)) != now]
    return f"any host but {', '.join(but)}" if but else WILDCARD


def locked_out(before: Rulebook, after: Rulebook, required: Iterable[AclBinding]) -> tuple[LockedOut, ...]:
    """Requests that ``required`` rules would allow, that are allowed now, and that would be denied.

    A prefix counts as one future name, since a principal that needs the prefix needs that name, too.
    """
    locked_outs: dict[AccessRequest, LockedOut] = {}
    for request in _wanted(required):
        today, then = before.decide(request), after.decide(request)
        if today.allowed and not then.allowed:
            locked_outs.setdefault(request, LockedOut(request, today.by, then.by))
    return tuple(locked_outs[request] for request in sorted(locked_outs))


def upheld_by(after: Rulebook, required: Iterable[AclBinding]) -> frozenset[AclBinding]:
    """Rules on which a request of ``required`` rules depends."""
    decisions = map(after.decide, _wanted(required))
    return frozenset(decision.by for decision in decisions if decision.allowed and decision.by is not None)


def _wanted(required: Iterable[AclBinding]) -> Iterator[AccessRequest]:
    for rule in required:
        name = rule.name if rule.pattern is PatternType.LITERAL and not rule.wildcard else _to_come(rule)
        operations = OPERATIONS[rule.resource] if rule.operation is Operation.ALL else (rule.operation,)
        yield from (AccessRequest(rule.principal, operation, rule.resource, name) for operation in operations)


def _principals(rule: AclBinding, *books: Rulebook) -> Iterator[str]:
    """Principals of the rule. A rule for everyone concerns each principal in any rule, and a fictitious one in place of
    all others."""
    if rule.principal != ANYONE:
        yield rule.principal
        return
    kept = (kind.values() for book in books for kind in (book.literal, book.prefixed))
    named = {acl.principal for tuples in kept for some in tuples for acl in some}
    yield from sorted(named - {ANYONE})
    yield SOMEBODY_ELSE


class _Classes:
    """Classes of names that the same rules match, before and after: a decision for one name holds for its class."""

    def __init__(self, before: Rulebook, after: Rulebook, names: Mapping[ResourceType, Sequence[str]]) -> None:
        self.books = before, after
        self.names = names
        self.numbers: dict[tuple[tuple[AclBinding, ...], ...], int] = {}
        self.known: dict[tuple[ResourceType, str], int] = {}

    def under(self, rule: AclBinding) -> Iterable[list[str]]:
        """Classes of the names that ``rule`` covers; ``_to_come`` stands in for future names."""
        by_name: dict[int, list[str]] = defaultdict(list)
        for name in self._covered(rule):
            key = rule.resource, name
            if key not in self.known:
                rules = tuple(tuple(book.on(rule.resource, name)) for book in self.books)
                self.known[key] = self.numbers.setdefault(rules, len(self.numbers))
            number = self.known[key]
            by_name[number].append(name)
        return by_name.values()

    def _covered(self, rule: AclBinding) -> Iterator[str]:
        """Existing names that the rule covers, and a stand-in for future ones: without it, a prefix that covers nothing
        yet would have no effect."""
        named = self.names.get(rule.resource, ())
        if rule.wildcard:
            yield from named
        elif rule.pattern is PatternType.LITERAL:
            yield rule.name
            return
        else:
            yield from named[bisect_left(named, rule.name) : bisect_left(named, f"{rule.name}{_LAST}")]
        yield _to_come(rule)


def _to_come(rule: AclBinding) -> str:
    """A name that matches the pattern and that no resource can have, since it contains NUL."""
    return f"{'' if rule.wildcard else rule.name}{_UNUSED_NAME}"


def _merged(cluster: str, given_operations: Mapping[_Whose, Mapping[str, set[Operation]]]) -> Iterator[AccessShift]:
    """Merges names with the same operations into one shift."""
    for (principal, gained, resource, host), reach in sorted(given_operations.items()):
        together: dict[tuple[Operation, ...], list[str]] = defaultdict(list)
        for name, operations in reach.items():
            together[tuple(sorted(operations))].append(name)
        for shared, names in sorted(together.items()):
            to_come = tuple(sorted(f"{name[:-1]}*" for name in names if name.endswith(_UNUSED_NAME)))
            named = tuple(sorted(name for name in names if not name.endswith(_UNUSED_NAME)))
            yield AccessShift(cluster, principal, gained, resource, shared, named, to_come, host=host)
