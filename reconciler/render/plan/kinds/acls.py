"""Changes of access rules in words."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.model.changes import AclChange, CreateAcl
from reconciler.render.plan.kinds.words import FieldValues, Words


def _fields(change: AclChange) -> Iterator[FieldValues]:
    rule = str(change.acl)
    yield FieldValues("", "", rule) if isinstance(change, CreateAcl) else FieldValues("", rule, "")


ACLS: Words[AclChange] = Words(
    noun="access rule",
    subject=lambda change: change.grant.title,
    headline=lambda change, _: change.reason.text,
    signature=lambda change: (type(change).__name__, change.grant.title, change.reason),
    lines=lambda changes: (str(change.acl) for change in changes),
    fields=_fields,
)
