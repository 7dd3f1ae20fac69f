"""Who may do more, and who less, once rules have come and gone; and whether somebody locks himself out.

Names are taken together by the rules that match them, so that ten thousand topics cost no more than their classes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.acls import ANYONE, WILDCARD, AclBinding, Operation, PatternType, ResourceType
from reconciler.authorizing.deciding import Request, Rulebook

Names = Mapping[ResourceType, Collection[str]]
"""The names that exist: topics and groups of the cluster. Others count only as names that may come."""

FUTURE = "(names to come)"
SOMEBODY_ELSE = "User:(anybody else)"

OPERATIONS: Mapping[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""Operations that Kafka asks for on each kind of resource (kafka-acls documentation, "Operations and resources")."""


@dataclass(frozen=True, slots=True, order=True)
class Shift:
    """``principal`` may (``gained``) or may no longer do ``operations`` on each of ``names``.

    ``names`` may end with FUTURE: names that do not exist yet and match ``patterns``.
    """

    principal: str
    gained: bool
    resource: ResourceType
    operations: tuple[Operation, ...]
    names: tuple[str, ...]
    host: str = WILDCARD


@dataclass(frozen=True, slots=True)
class LockedOut:
    """A request that is needed, allowed today, and would be denied. ``by``: the denying rule; None: no rule is left."""

    request: Request
    today: AclBinding | None
    by: AclBinding | None

    def __str__(self) -> str:
        because = f"the rule '{self.by}' denies it" if self.by else "no rule that is left allows it"
        allowed = f", which '{self.today}' allows today" if self.today else ""
        return f"{self.request} would be denied{allowed}: {because}"


def shifts(before: Rulebook, after: Rulebook, touched: Iterable[AclBinding], names: Names) -> tuple[Shift, ...]:
    """What changes for whom when ``touched`` rules come or go. Sorted by principal, losses first."""
    found: dict[tuple[str, bool, ResourceType, str, str], set[Operation]] = defaultdict(set)
    for rule in touched:
        for principal in _principals(rule, before, after):
            for request, name in _requests(rule, principal, before, after, names):
                was, now = before.allows(request), after.allows(request)
                if was != now:
                    found[principal, now, rule.resource, name, _host(rule)].add(request.operation)
    return tuple(_merged(found))


def locked_out(before: Rulebook, after: Rulebook, required: Iterable[AclBinding]) -> tuple[LockedOut, ...]:
    """Of what ``required`` rules would allow: every request that is allowed now and would no longer be.

    A prefix stands for one name that may come: whoever needs the prefix needs that name too.
    """
    found: dict[Request, LockedOut] = {}
    for rule in required:
        name = rule.name if rule.pattern is PatternType.LITERAL and not rule.wildcard else _to_come(rule)
        operations = OPERATIONS[rule.resource] if rule.operation is Operation.ALL else (rule.operation,)
        for operation in operations:
            request = Request(rule.principal, operation, rule.resource, name)
            today, then = before.decide(request), after.decide(request)
            if today.allowed and not then.allowed:
                found.setdefault(request, LockedOut(request, today.by, then.by))
    return tuple(found[request] for request in sorted(found))


def _principals(rule: AclBinding, *books: Rulebook) -> Iterator[str]:
    if rule.principal != ANYONE:
        yield rule.principal
        return
    kept = (kind.values() for book in books for kind in (book.literal, book.prefixed))
    named = {one.principal for tuples in kept for some in tuples for one in some}
    yield from sorted(named - {ANYONE})
    yield SOMEBODY_ELSE


def _requests(
    rule: AclBinding, principal: str, before: Rulebook, after: Rulebook, names: Names
) -> Iterator[tuple[Request, str]]:
    """One request for each operation and class of names, told for every name of the class."""
    classes: dict[object, list[str]] = defaultdict(list)
    for name in _covered(rule, names):
        classes[_rules_on(before, rule, name), _rules_on(after, rule, name)].append(name)
    operations = OPERATIONS[rule.resource]
    host = {} if rule.host == WILDCARD else {"host": rule.host}
    for members in classes.values():
        asked = _to_come(rule) if members[0] == FUTURE else members[0]
        for operation in operations:
            request = Request(principal, operation, rule.resource, asked, **host)
            for name in members:
                yield request, name


def _covered(rule: AclBinding, names: Names) -> Iterator[str]:
    yield from (name for name in sorted(names.get(rule.resource, ())) if rule.covers_name(name))
    literal = rule.pattern is PatternType.LITERAL and not rule.wildcard
    if literal and rule.name not in names.get(rule.resource, ()):
        yield rule.name
    if not literal:
        yield FUTURE


def _rules_on(book: Rulebook, rule: AclBinding, name: str) -> tuple[AclBinding, ...]:
    return tuple(book.on(rule.resource, _to_come(rule) if name == FUTURE else name))


def _to_come(rule: AclBinding) -> str:
    """A name that matches the pattern and that nobody has: NUL is in no name."""
    return f"{'' if rule.wildcard else rule.name}\0"


def _host(rule: AclBinding) -> str:
    return rule.host


def _merged(found: Mapping[tuple[str, bool, ResourceType, str, str], set[Operation]]) -> Iterator[Shift]:
    """Names with the same operations are told together."""
    together: dict[tuple[str, bool, ResourceType, tuple[Operation, ...], str], list[str]] = defaultdict(list)
    for (principal, gained, resource, name, host), operations in found.items():
        together[principal, gained, resource, tuple(sorted(operations)), host].append(name)
    for (principal, gained, resource, shared, host), names in sorted(together.items()):
        yield Shift(principal, gained, resource, shared, tuple(sorted(names, key=_future_last)), host)


def _future_last(name: str) -> tuple[bool, str]:
    return name == FUTURE, name
