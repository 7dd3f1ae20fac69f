"""How an edit changes what principals may do and use: access rules, quotas, SCRAM users.

Their entries have no names: two that are about the same whom and what, and differ, are one that was edited. What a role
comes to on each cluster, and who gains and loses access by it, is the live plan's part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from reconciler.access_rules import AccessRule
from reconciler.acls import WILDCARD, Permission
from reconciler.changes import Risk
from reconciler.comparing.fields import NOT_SET, changed_fields, whole
from reconciler.comparison import FieldChange, ItemChange, Sign
from reconciler.errors import Where
from reconciler.quotas import Quota, limit_words
from reconciler.topology import Topology
from reconciler.users import AS_FOUND, ScramUser

Entry = TypeVar("Entry", AccessRule, Quota, ScramUser)
NOBODY = "what is there stays, and nobody looks at it any more"
LIMIT_STAYS = "an entry that is gone takes no limit away; prune takes those of earlier runs"


@dataclass(frozen=True, slots=True)
class _Removal:
    """What leaving git means for an entry, and for one that said ``absent``."""

    entry: str
    absent: str


_ACCESS = _Removal(
    "what an earlier run made of it is deleted, unless something else asks for it",
    "nobody sees to it any more that there are no such rules",
)
_QUOTA = _Removal(LIMIT_STAYS, "nobody sees to it any more that there is no limit")
_UNSEEN = _Removal(NOBODY, NOBODY)
_IN_TITLE = {"principal", "role", "entity.parts", "name", "number"}
_USER = _Removal(
    "the user stays on its clusters; prune deletes whom an earlier run made",
    "nobody sees to it any more that there is no such user",
)


def principal_items(before: Topology, after: Topology) -> Iterator[ItemChange]:
    yield from _section("access", before.access_declared, after.access_declared)
    rules = _ACCESS if after.access_declared else _UNSEEN
    yield from _entries("access rule", _title, before.access, after.access, rules)
    yield from _section("quotas", before.quotas_declared, after.quotas_declared)
    limits = _QUOTA if after.quotas_declared else _UNSEEN
    yield from _entries("quota", lambda one: str(one.entity), before.quotas, after.quotas, limits)
    yield from _section("users", before.users_declared, after.users_declared)
    users = _USER if after.users_declared else _UNSEEN
    yield from _entries("user", lambda one: one.name, before.users, after.users, users)


def _section(name: str, was: bool, now: bool) -> Iterator[ItemChange]:
    """Also an empty section means something: it is looked after from then on."""
    if now and not was:
        yield ItemChange(Sign.ADDED, "section", name, means="read on every cluster from now on, and compared")
    elif was and not now:
        yield ItemChange(Sign.REMOVED, "section", name, means=NOBODY)


def _entries(
    kind: str, title: Callable[[Entry], str], before: Iterable[Entry], after: Iterable[Entry], gone: _Removal
) -> Iterator[ItemChange]:
    old, new = _by_title(title, before), _by_title(title, after)
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name, []), new.get(name, [])
        left = [one for one in was if not _among(one, now)]
        come = [one for one in now if not _among(one, was)]
        for one, edited in zip(left, come, strict=False):
            fields = tuple(_changed(one, edited))
            yield ItemChange(Sign.CHANGED, kind, name, _place(edited.where), fields=fields)
        for one in left[len(come) :]:
            means = gone.absent if one.absent else gone.entry
            yield ItemChange(Sign.REMOVED, kind, name, _place(one.where), means)
        for one in come[len(left) :]:
            yield ItemChange(Sign.ADDED, kind, name, _place(one.where), fields=tuple(_own(one)))


def _by_title(title: Callable[[Entry], str], entries: Iterable[Entry]) -> Mapping[str, list[Entry]]:
    found: dict[str, list[Entry]] = defaultdict(list)
    for one in entries:
        found[title(one)].append(one)
    return found


def _among(one: Entry, others: Iterable[Entry]) -> bool:
    """Which entry of its file it is means nothing, nor does the order of its lists."""
    return any(next(_changed(one, another), None) is None for another in others)


def _title(rule: AccessRule) -> str:
    if rule.exact is None:
        return f"{rule.principal}: {rule.role}"
    return f"{rule.principal}: {rule.exact.permission.name.lower()} on {rule.exact.resource.name.lower()}"


def _changed(was: Entry, now: Entry) -> Iterator[FieldChange]:
    for field in changed_fields(replace(was, number=0), replace(now, number=0)):
        if not field.means:
            yield _meaning(_plain(field), now)


def _own(entry: Entry) -> Iterator[FieldChange]:
    for field in whole(replace(entry, number=0)):
        if field.path not in _IN_TITLE:
            yield _meaning(_plain(field), entry)


def _plain(field: FieldChange) -> FieldChange:
    """As the YAML has it: an exact rule's fields and a quota's limits stand beside the others."""
    section, _, key = field.path.partition(".")
    if section == "exact":
        return replace(field, path=key)
    if section == "limits":
        return replace(field, path=key, before=_limit(key, field.before), after=_limit(key, field.after))
    return field


def _limit(key: str, value: str) -> str:
    return value if value in ("", NOT_SET) else limit_words(key, float(value))


def _meaning(field: FieldChange, entry: Entry) -> FieldChange:
    match entry:
        case AccessRule():
            return _of_access(field, entry)
        case Quota():
            if field.after != NOT_SET or field.path == "clusters":
                return field
            taken = entry.absent or field.path in entry.remove
            return replace(field, means="" if taken else "the limit stays: only remove takes it away")
        case ScramUser():
            return _of_user(field, entry)


def _of_access(field: FieldChange, rule: AccessRule) -> FieldChange:
    denies = rule.exact is not None and rule.exact.permission is Permission.DENY
    if field.path == "absent" and rule.absent:
        return replace(field, means="such rules are deleted, whoever made them", risk=Risk.MEDIUM)
    if field.path == "permission" and denies:
        return replace(field, means="a denial wins over everything that allows", risk=Risk.MEDIUM)
    everything = WILDCARD in field.after.split(", ") and WILDCARD not in field.before.split(", ")
    if everything and field.path not in ("hosts", "clusters") and not (denies or rule.absent):
        return replace(field, means="all there are and will be", risk=Risk.MEDIUM)
    return field


def _of_user(field: FieldChange, user: ScramUser) -> FieldChange:
    if field.path == "absent" and user.absent:
        return replace(field, means="nobody can log in as this user any more", risk=Risk.HIGH, irreversible=True)
    if field.path == "version" and field.before and user.version != AS_FOUND:
        means = "a new password is set; who logs in with the old one is refused from then on"
        return replace(field, means=means, risk=Risk.MEDIUM)
    return field


def _place(where: Where) -> str:
    return f"{where.file}:{where.line}" if where.line else ""
