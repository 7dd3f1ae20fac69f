"""Undoes a failed ACL batch: ACLs to restore, commands for doing it manually, and the report. Pure functions."""

from collections.abc import Iterable, Mapping, Sequence

from reconciler.errors import Unknown
from reconciler.model.changes import AclChange, CreateAcl
from reconciler.model.live import Before, LiveAccess
from reconciler.model.principals import WILDCARD, AclBinding, PatternType, Permission, ResourceType, Unsupported
from reconciler.text import in_shell

_RESOURCES = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}


def before_of(changes: Iterable[AclChange], access: LiveAccess) -> dict[AclBinding, Before]:
    """State of each rule before its wave. A rule that an unconfirmed earlier wave changed keeps the state before that
    one, so that undoing restores it."""
    rules = access.acls if isinstance(access.acls, frozenset) else frozenset[AclBinding]()
    owned = {} if isinstance(access.owned, Unknown) else access.owned
    return {
        change.acl: access.pending.get(change.acl) or Before(change.acl in rules, owned.get(change.acl))
        for change in changes
    }


def put_back(rules: Iterable[AclBinding], before: Mapping[AclBinding, Before]) -> frozenset[AclBinding]:
    """``rules`` with the states of ``before`` restored."""
    present = {acl for acl, state in before.items() if state.there}
    return (frozenset(rules) | present) - (before.keys() - present)


def carried_out(rules: Iterable[AclBinding], changes: Iterable[AclChange]) -> frozenset[AclBinding]:
    """``rules`` after ``changes``."""
    wanted = {change.acl: isinstance(change, CreateAcl) for change in changes}
    return (frozenset(rules) - wanted.keys()) | {acl for acl, there in wanted.items() if there}


def settled(rules: Iterable[AclBinding], before: Mapping[AclBinding, Before]) -> frozenset[AclBinding]:
    """Rules of ``before`` in their former state, so that nothing is left to undo."""
    shown = frozenset(rules)
    return frozenset(acl for acl, state in before.items() if (acl in shown) is state.there)


def by_hand(acl: AclBinding, there: bool, server: str) -> str:
    """The kafka-acls command that makes the rule, or removes it."""
    kind = "deny" if acl.permission is Permission.DENY else "allow"
    resource = (
        "--cluster" if acl.resource is ResourceType.CLUSTER else f"{_RESOURCES[acl.resource]} {in_shell(acl.name)}"
    )
    words = [
        f"kafka-acls.sh --bootstrap-server {server}",
        "--add" if there else "--remove --force",
        f"--{kind}-principal {in_shell(acl.principal)}",
    ]
    if acl.host != WILDCARD:
        words.append(f"--{kind}-host {in_shell(acl.host)}")
    operation = "".join(part.capitalize() for part in acl.operation.split("_"))  # as in DescribeConfigs
    words += [f"--operation {operation}", resource]
    if acl.pattern is PatternType.PREFIXED:
        words.append("--resource-pattern-type prefixed")
    return " ".join(words)


AGAIN = "The next plan shows it again; applying that probes it again."


def unreadable(access: LiveAccess) -> str:
    """Why a wave cannot begin, since it could not be undone; or empty."""
    if isinstance(access.acls, Unsupported):
        return f"{access.acls.why}\nIt keeps no access rules\nSet authorizer.class.name on it."
    todo = access.acls.todo if isinstance(access.acls, Unknown) else ""
    problem = access.acls.error if isinstance(access.acls, Unknown) else ""
    return f"{problem}\nThe present rules must be known, so that they can be restored\n{todo}"


def undone(why: str) -> str:
    return (
        f"done, and undone again, since its probe failed: {why}\n"
        "All is as before this ACL batch.\nFix it and plan again."
    )


def unproven(why: str) -> str:
    return f"done, and not confirmed: {why}\nIt is kept: an unknown result is no reason to undo it.\n{AGAIN}"


def interrupted(undoing: str) -> str:
    if undoing:
        return f"interrupted while it was being undone; it is still in place. Its probe failed: {undoing}\n{AGAIN}"
    return f"interrupted before it was probed; it is kept\n{AGAIN}"


def left_words(change: AclChange, before: Before, about: tuple[str, str, str], first: Sequence[str]) -> str:
    """``about``: error of the probe, error of undoing, an address; ``first``: commands to run before."""
    why, reason, server = about
    lines = [f"done, and NOT undone, although its probe failed: {why}", f"Undoing it failed: {reason}"]
    lines.append("Do it yourself, as a principal with Alter on the cluster:")
    lines += [f"  {name}" for name in (*first, by_hand(change.acl, before.there, server))]
    return "\n".join([*lines, AGAIN])
