"""Changes in words, one file a kind of resource, all of them in ``WORDS``.

Belongs here: what people read of one change. Not here: what is decided about it (``resources.<kind>.kind``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reconciler.engine.kinds import kind_of
from reconciler.model.changes import Change, KindName
from reconciler.render.plan.kinds.acls import ACLS
from reconciler.render.plan.kinds.mirrors import MIRRORS
from reconciler.render.plan.kinds.quotas import QUOTAS
from reconciler.render.plan.kinds.replicas import REPLICAS
from reconciler.render.plan.kinds.topics import TOPICS
from reconciler.render.plan.kinds.users import USERS
from reconciler.render.plan.kinds.words import FieldValues, Words

WORDS: Mapping[KindName, Words[Any]] = {
    KindName.TOPICS: TOPICS,
    KindName.REPLICAS: REPLICAS,
    KindName.ACLS: ACLS,
    KindName.QUOTAS: QUOTAS,
    KindName.USERS: USERS,
    KindName.MIRRORS: MIRRORS,
}


def words_of(change: Change) -> Words[Any]:
    """Raises TypeError for a change that no kind knows."""
    return WORDS[kind_of(change).name]


def headline(change: Change, alone: bool = True) -> str:
    """What happens; with ``alone`` also why."""
    return words_of(change).headline(change, f"; {change.reason.text}" if alone else "")


def signature(change: Change) -> object:
    """Equal for changes that may be told as one."""
    return words_of(change).signature(change)


def fields_of(change: Change) -> Iterable[FieldValues]:
    """How it is and how it will be, field by field."""
    return words_of(change).fields(change)


def described(changes: Sequence[Change]) -> Iterable[str]:
    """Lines under the headline. ``changes`` have one signature; origins may differ and are then left out."""
    return words_of(changes[0]).lines(changes)
