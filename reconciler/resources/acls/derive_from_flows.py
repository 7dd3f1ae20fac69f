"""Derives ACLs of a remote topic from those of its source topic, along flows. Pure.

Readers become readers, never writers; what is denied stays denied. A rule that covers names by prefix or wildcard
becomes one prefixed rule only where the flow provably carries all of them, else one literal rule for each topic it
carries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from reconciler.model.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from reconciler.model.environment.topology import Flow
from reconciler.replication.expressions.match import expressions
from reconciler.resources.acls.flow_scope import FlowTopics

Derived = tuple[AclBinding, AclBinding]
"""The rule on the target, and the rule on the source it follows from."""

_LOOKING = (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
_ON_TOPICS: Mapping[tuple[Permission, Operation], tuple[Operation, ...]] = {
    **{(permission, operation): (operation,) for permission in Permission for operation in _LOOKING},
    (Permission.ALLOW, Operation.ALL): (Operation.READ, Operation.DESCRIBE_CONFIGS),
    (Permission.DENY, Operation.ALL): _LOOKING,
}
_ON_GROUPS: Mapping[tuple[Permission, Operation], tuple[Operation, ...]] = {
    **{
        (permission, literal): (literal,)
        for permission in Permission
        for literal in (Operation.READ, Operation.DESCRIBE)
    },
    (Permission.ALLOW, Operation.ALL): (Operation.READ,),
    (Permission.DENY, Operation.ALL): (Operation.READ, Operation.DESCRIBE),
}
_META = re.compile(r"[\\.^$*+?{}\[\]|()]")


def derive(carriage: FlowTopics, rules: Iterable[AclBinding]) -> Iterator[Derived]:
    """For each rule of the flow's source, what it comes to on the target; nothing for rules the flow does not touch."""
    rules = tuple(rules)
    readers: set[str] = set()
    for rule in rules:
        if rule.resource is ResourceType.TOPIC:
            for acl in _on_topics(carriage, rule):
                if acl.operation is Operation.READ and acl.permission is Permission.ALLOW:
                    readers.add(rule.principal)
                yield acl, rule
    if carriage.flow.access.groups:
        for rule in rules:
            if rule.resource is ResourceType.GROUP and rule.principal in readers:
                yield from ((acl, rule) for acl in _on_groups(carriage.flow, rule))


def _on_topics(carriage: FlowTopics, rule: AclBinding) -> Iterator[AclBinding]:
    operations = _ON_TOPICS.get((rule.permission, rule.operation), ())
    if operations:
        for name, pattern in _places(carriage, rule):
            for operation in operations:
                yield _rewritten(carriage.flow, rule, name, pattern, operation)


def _places(carriage: FlowTopics, rule: AclBinding) -> Iterator[tuple[str, PatternType]]:
    if rule.pattern is PatternType.LITERAL and not rule.wildcard:
        remote = carriage.remote_of(rule.name)
        if remote is not None:
            yield remote, PatternType.LITERAL
        return
    covering = carriage.remote_prefix("" if rule.wildcard else rule.name)
    if covering is not None:
        yield covering, PatternType.PREFIXED
    for topic, remote in carriage.topics.items():
        if rule.covers_name(topic) and not (covering is not None and remote.startswith(covering)):
            yield remote, PatternType.LITERAL


def _on_groups(flow: Flow, rule: AclBinding) -> Iterator[AclBinding]:
    if _groups_chosen(flow, rule):
        for operation in _ON_GROUPS.get((rule.permission, rule.operation), ()):
            yield _rewritten(flow, rule, rule.name, rule.pattern, operation)


def _groups_chosen(flow: Flow, rule: AclBinding) -> bool:
    """Groups keep their names. A rule on many travels only where all of them do."""
    include, exclude = flow.groups.include, flow.groups.exclude
    if rule.pattern is PatternType.LITERAL and not rule.wildcard:
        return expressions(include).match(rule.name) and not expressions(exclude).match(rule.name)
    beginning = "" if rule.wildcard else rule.name
    heads = [_META.split(name, maxsplit=1)[0] for name in exclude]
    return ".*" in include and not any(head.startswith(beginning) or beginning.startswith(head) for head in heads)


def _rewritten(flow: Flow, rule: AclBinding, name: str, pattern: PatternType, operation: Operation) -> AclBinding:
    principal = flow.access.principals.get(rule.principal, rule.principal)
    return replace(rule, name=name, pattern=pattern, operation=operation, principal=principal)
