"""Undoes a failed ACL batch: the ACLs to put back, and the commands to do it by hand. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from reconciler.errors import Unknown
from reconciler.model.acls import WILDCARD, AclBinding, Operation, PatternType, Permission, ResourceType
from reconciler.model.changes import AclChange, CreateAcl
from reconciler.model.live import Before, LiveAccess

_RESOURCES = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}


def before_of(changes: Iterable[AclChange], access: LiveAccess) -> dict[AclBinding, Before]:
    """How each rule is before its wave. What an earlier wave touched and nobody confirmed counts as touched by this
    one, so that undoing leads back to what was there before both."""
    rules = access.acls if isinstance(access.acls, frozenset) else frozenset[AclBinding]()
    owned = {} if isinstance(access.owned, Unknown) else access.owned
    return {
        change.acl: access.pending.get(change.acl) or Before(change.acl in rules, owned.get(change.acl))
        for change in changes
    }


def put_back(rules: Iterable[AclBinding], before: Mapping[AclBinding, Before]) -> frozenset[AclBinding]:
    """``rules`` with everything in ``before`` as it was."""
    present = {acl for acl, state in before.items() if state.there}
    return (frozenset(rules) | present) - (before.keys() - present)


def carried_out(rules: Iterable[AclBinding], changes: Iterable[AclChange]) -> frozenset[AclBinding]:
    """``rules`` once ``changes`` are done."""
    wanted = {change.acl: isinstance(change, CreateAcl) for change in changes}
    return (frozenset(rules) - wanted.keys()) | {acl for acl, there in wanted.items() if there}


def settled(rules: Iterable[AclBinding], before: Mapping[AclBinding, Before]) -> frozenset[AclBinding]:
    """Rules of ``before`` that are as they were: nothing is left of them to undo."""
    shown = frozenset(rules)
    return frozenset(acl for acl, state in before.items() if (acl in shown) is state.there)


def by_hand(acl: AclBinding, there: bool, server: str) -> str:
    """The kafka-acls command that makes the rule, or removes it."""
    kind = "deny" if acl.permission is Permission.DENY else "allow"
    resource = (
        "--cluster" if acl.resource is ResourceType.CLUSTER else f"{_RESOURCES[acl.resource]} {_quoted(acl.name)}"
    )
    words = [
        f"kafka-acls.sh --bootstrap-server {server}",
        "--add" if there else "--remove --force",
        f"--{kind}-principal {_quoted(acl.principal)}",
    ]
    if acl.host != WILDCARD:
        words.append(f"--{kind}-host {_quoted(acl.host)}")
    words += [f"--operation {_camel(acl.operation)}", resource]
    if acl.pattern is PatternType.PREFIXED:
        words.append("--resource-pattern-type prefixed")
    return " ".join(words)


def _camel(operation: Operation) -> str:
    return "".join(part.capitalize() for part in operation.split("_"))


def _quoted(text: str) -> str:
    return f"'{text}'" if text.startswith("User:") and "'" not in text else shlex.quote(text)
