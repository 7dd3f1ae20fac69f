"""Decides one request against a set of ACLs, as Kafka's StandardAuthorizer does (KIP-801)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

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
from reconciler.text import grouped

_Key = tuple[ResourceType, str]


@dataclass(frozen=True, slots=True, order=True)
class AccessRequest:
    """``principal`` as ``User:name``, ``host`` an address; ``name`` is a resource's name, never a pattern."""

    principal: str
    operation: Operation
    resource: ResourceType
    name: str
    host: str = "192.0.2.1"  # TEST-NET-1: an address that no rule names

    @property
    def where(self) -> str:
        return str(self.resource) if self.resource is ResourceType.CLUSTER else f"{self.resource} {self.name}"


@dataclass(frozen=True, slots=True)
class Decision:
    """``by``: the deciding rule, None if the absence of rules decided."""

    allowed: bool
    by: AclBinding | None = None


@dataclass(frozen=True, slots=True)
class Rulebook:
    """Access rules, indexed as StandardAuthorizer looks them up."""

    literal: Mapping[_Key, tuple[AclBinding, ...]]
    """By resource type and name; ``prefixed``: by resource type and prefix."""
    prefixed: Mapping[_Key, tuple[AclBinding, ...]]
    lengths: Mapping[ResourceType, tuple[int, ...]]
    """Lengths of the prefixes, so that each is looked up once."""
    super_users: frozenset[str] = frozenset()
    """Principals that are allowed everything."""
    allow_everyone: bool = field(default=False)
    """The broker's ``allow.everyone.if.no.acl.found``."""

    @classmethod
    def of(cls, rules: Iterable[AclBinding], super_users: Iterable[str] = (), allow_everyone: bool = False) -> Rulebook:
        """Indexes rules by name, so that a decision checks few of thousands. ``lengths``: lengths of prefixes by
        resource; a name is cut to each of them and looked up."""
        in_order = sorted(rules)
        prefixed = _by_name(rule for rule in in_order if rule.pattern is PatternType.PREFIXED)
        lengths = grouped((resource, len(name)) for resource, name in prefixed)
        return cls(
            _by_name(rule for rule in in_order if rule.pattern is not PatternType.PREFIXED),
            prefixed,
            {resource: tuple(sorted({*numbers})) for resource, numbers in lengths.items()},
            frozenset(super_users),
            allow_everyone,
        )

    def decide(self, request: AccessRequest) -> Decision:
        """A denial wins over any permission; without a rule for the resource ``allow_everyone`` decides."""
        if request.principal in self.super_users:
            return Decision(True)
        allowed, any_rule = None, False
        for rule in self.on(request.resource, request.name):
            any_rule = True
            if not _applies(rule, request):
                continue
            if rule.permission is Permission.DENY:
                return Decision(False, rule)
            allowed = allowed or rule
        if allowed is not None:
            return Decision(True, allowed)
        return Decision(self.allow_everyone and not any_rule)

    def allows(self, request: AccessRequest) -> bool:
        return self.decide(request).allowed

    def on(self, resource: ResourceType, name: str) -> Iterator[AclBinding]:
        """Every rule whose pattern matches the resource: its name, the wildcard, each prefix of its name."""
        yield from self.literal.get((resource, name), ())
        if name != WILDCARD:
            yield from self.literal.get((resource, WILDCARD), ())
        for length in self.lengths.get(resource, ()):
            if length > len(name):
                break
            yield from self.prefixed.get((resource, name[:length]), ())


def _applies(rule: AclBinding, request: AccessRequest) -> bool:
    if rule.principal not in (request.principal, ANYONE) or rule.host not in (WILDCARD, request.host):
        return False
    if rule.operation in (Operation.ALL, request.operation):
        return True
    return rule.permission is Permission.ALLOW and rule.operation in IMPLIED_BY.get(request.operation, ())


def _by_name(rules: Iterable[AclBinding]) -> dict[_Key, tuple[AclBinding, ...]]:
    acls = grouped(((rule.resource, rule.name), rule) for rule in rules)
    return {key: tuple(some) for key, some in acls.items()}
