"""Changes of access rules in words."""

from __future__ import annotations

from reconciler.model.changes import AclChange
from reconciler.render.plan.kinds.words import Words

ACLS: Words[AclChange] = Words(
    noun="access rule",
    subject=lambda change: change.grant.title,
    headline=lambda change, _: change.reason.text,
    signature=lambda change: (type(change).__name__, change.grant.title, change.reason),
    lines=lambda changes: (str(change.acl) for change in changes),
)
