"""Messages about an ACL batch that was not confirmed: what became of it, why, what to do."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.errors import Unknown
from reconciler.model.acls import Unsupported
from reconciler.model.changes import AclChange
from reconciler.model.live import Before, LiveAccess
from reconciler.resources.acls.probe.undo import by_hand

AGAIN = "The next plan shows it again; applying that probes it again."


def unreadable(access: LiveAccess) -> str:
    """Why a wave cannot begin: nobody could undo it."""
    if isinstance(access.acls, Unsupported):
        return f"{access.acls.why}\nIt keeps no access rules\nSet authorizer.class.name on it."
    todo = access.acls.todo if isinstance(access.acls, Unknown) else ""
    problem = access.acls.error if isinstance(access.acls, Unknown) else ""
    return f"{problem}\nWhat is there now must be known, so that it can be undone\n{todo}"


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


def left(change: AclChange, before: Before, about: tuple[str, str, str], first: Sequence[str]) -> str:
    """``about``: why the probe failed, why undoing failed, an address; ``first``: commands that must come before."""
    why, reason, server = about
    lines = [f"done, and NOT undone, although its probe failed: {why}", f"Undoing it failed: {reason}"]
    lines.append("Do it yourself, as a principal with Alter on the cluster:")
    lines += [f"  {name}" for name in (*first, by_hand(change.acl, before.there, server))]
    return "\n".join([*lines, AGAIN])
