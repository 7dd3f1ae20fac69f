"""Changes of client quotas in words."""

from __future__ import annotations

from reconciler.model.changes import AlterQuota, LimitChange
from reconciler.model.quotas import limit_words
from reconciler.render.plan.kinds.words import FieldValues, Words
from reconciler.text import counted


def _headline(change: AlterQuota, why: str) -> str:
    gone = all(limit.after is None for limit in change.limits)
    return f"{'remove ' if gone else ''}{counted(len(change.limits), 'limit')}{why}"


def _limit(change: LimitChange) -> str:
    limit = _field(change)
    return f"{limit.name}: {limit.before or 'none'} -> {limit.after or 'none'}"


def _field(change: LimitChange) -> FieldValues:
    values = (change.before, change.after)
    before, after = ("" if value is None else limit_words(change.key, value) for value in values)
    return FieldValues(change.key, before, after)


QUOTAS: Words[AlterQuota] = Words(
    noun="quota",
    subject=lambda change: str(change.entity),
    headline=_headline,
    signature=lambda change: ("quota", change.limits, change.reason.code),
    lines=lambda changes: map(_limit, changes[0].limits),
    fields=lambda change: map(_field, change.limits),
)
