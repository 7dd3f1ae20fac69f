"""What a person reads of a change whose wave was not confirmed: what became of it, why, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.acls import Unsupported
from reconciler.changes import AclChange
from reconciler.errors import Unknown
from reconciler.live import Before, LiveAccess
from reconciler.probing.undoing import by_hand

AGAIN = "The next plan shows it again; applying that probes it again."


def unreadable(access: LiveAccess) -> str:
    """Why a wave cannot begin: nobody could undo it."""
    if isinstance(access.acls, Unsupported):
        return f"{access.acls.why}\nIt keeps no access rules\nSet authorizer.class.name on it."
    todo = access.acls.todo if isinstance(access.acls, Unknown) else ""
    what = access.acls.error if isinstance(access.acls, Unknown) else ""
    return f"{what}\nWhat is there now must be known, so that it can be undone\n{todo}"


def undone(why: str) -> str:
    return (
        f"done, and undone again, since its probe failed: {why}\nAll is as before this wave.\nMend it and plan again."
    )


def unproven(why: str) -> str:
    return f"done, and not confirmed: {why}\nIt stands, since what is not known is no reason to undo it.\n{AGAIN}"


def interrupted(undoing: str) -> str:
    if undoing:
        return f"interrupted while it was being undone; it still stands. Its probe failed: {undoing}\n{AGAIN}"
    return f"interrupted before it was probed; it stands\n{AGAIN}"


def left(change: AclChange, before: Before, about: tuple[str, str, str], first: Sequence[str]) -> str:
    """``about``: why the probe failed, why undoing failed, an address; ``first``: commands that must come before."""
    why, reason, server = about
    lines = [f"done, and NOT undone, although its probe failed: {why}", f"Undoing it failed: {reason}"]
    lines.append("By hand, as somebody with Alter on the cluster:")
    lines += [f"  {one}" for one in (*first, by_hand(change.acl, before.there, server))]
    return "\n".join([*lines, AGAIN])
