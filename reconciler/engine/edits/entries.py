"""Compares sections of unnamed entries in an edit: access rules, quotas, SCRAM users.

Two different entries with the same subject are one edited entry. Rules of a role on each cluster, and gains and losses
of access, are left to the live plan.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from reconciler.engine.edits.fields import NOT_SET, changed_fields, whole
from reconciler.model.changes import Risk
from reconciler.model.environment.topology import Topology
from reconciler.model.principals import AS_FOUND, WILDCARD, AccessRule, Permission, Quota, ScramUser, limit_words
from reconciler.model.reports.edit import FieldChange, ItemChange, Sign
from reconciler.text import grouped

Entry = TypeVar("Entry", AccessRule, Quota, ScramUser)
NOT_COMPARED = "what exists stays and is no longer compared"
_NO_PART = "an absent user has none"
_IN_TITLE = {"principal", "role", "entity.parts", "name", "number"}


@dataclass(frozen=True, slots=True)
class EditedSection(Generic[Entry]):
    """``gone``, ``absent_gone``: meaning of the removal of an entry, and of one with ``absent``."""

    name: str
    noun: str
    of: Callable[[Topology], tuple[bool, Sequence[Entry]]]
    """Whether the section exists, and its entries."""
    title: Callable[[Entry], str]
    gone: str
    absent_gone: str
    meaning: Callable[[FieldChange, Entry], FieldChange]
    """Meaning of a changed field."""

    def items(self, base: Topology, now: Topology) -> Iterator[ItemChange]:
        """Edited entries. An empty section counts, too: it makes plans read and compare its kind."""
        (was_declared, before), (is_declared, after) = self.of(base), self.of(now)
        if is_declared and not was_declared:
            yield ItemChange(Sign.ADDED, "section", self.name, means="read on every cluster from now on, and compared")
        elif was_declared and not is_declared:
            yield ItemChange(Sign.REMOVED, "section", self.name, means=NOT_COMPARED)
        old, new = (grouped((self.title(entry), entry) for entry in entries) for entries in (before, after))
        for title in sorted(old.keys() | new.keys()):
            # Entries with the same title have no other key, so differing ones are paired in their order.
            gone = [entry for entry in old.get(title, []) if not _among(entry, new.get(title, []))]
            come = [entry for entry in new.get(title, []) if not _among(entry, old.get(title, []))]
            for one, other in zip(gone, come, strict=False):
                changed = (self.meaning(_plain(field), other) for field in _changed(one, other))
                fields = tuple(field for field in changed if field.means != _NO_PART)
                yield ItemChange(Sign.CHANGED, self.noun, title, other.where.line_words, fields=fields)
            for entry in gone[len(come) :]:
                means = (self.absent_gone if entry.absent else self.gone) if is_declared else NOT_COMPARED
                yield ItemChange(Sign.REMOVED, self.noun, title, entry.where.line_words, means)
            for entry in come[len(gone) :]:
                own = (field for field in whole(replace(entry, number=0)) if field.path not in _IN_TITLE)
                fields = tuple(self.meaning(_plain(field), entry) for field in own)
                yield ItemChange(Sign.ADDED, self.noun, title, entry.where.line_words, fields=fields)


def _among(entry: Entry, others: Iterable[Entry]) -> bool:
    """Whether an equal entry is among others, ignoring its number in the file and the order of its lists."""
    return any(next(_changed(entry, other), None) is None for other in others)


def _changed(was: Entry, now: Entry) -> Iterator[FieldChange]:
    fields = changed_fields(replace(was, number=0), replace(now, number=0))
    return (field for field in fields if not field.means)


def _plain(field: FieldChange) -> FieldChange:
    """The field under its YAML name: fields of an exact rule and limits of a quota are on the entry itself."""
    section, _, key = field.path.partition(".")
    if section == "exact":
        return replace(field, path=key)
    if section == "limits":
        return replace(field, path=key, before=_limit(key, field.before), after=_limit(key, field.after))
    return field


def _limit(key: str, value: str) -> str:
    return value if value in ("", NOT_SET) else limit_words(key, float(value))


def _title(rule: AccessRule) -> str:
    if rule.exact is None:
        return f"{rule.principal}: {rule.role}"
    return f"{rule.principal}: {rule.exact.permission.name.lower()} on {rule.exact.resource.name.lower()}"


def _of_rule(field: FieldChange, rule: AccessRule) -> FieldChange:
    """The field with risk and words if it is dangerous: deletion of rules of any origin, denials, wildcards."""
    denies = rule.exact is not None and rule.exact.permission is Permission.DENY
    if field.path == "absent" and rule.absent:
        return replace(field, means="such rules are deleted, no matter who made them", risk=Risk.MEDIUM)
    if field.path == "permission" and denies:
        return replace(field, means="a deny rule wins over everything that allows", risk=Risk.MEDIUM)
    everything = WILDCARD in field.after.split(", ") and WILDCARD not in field.before.split(", ")
    if everything and field.path not in ("hosts", "clusters") and not (denies or rule.absent):
        return replace(field, means="all there are and will be", risk=Risk.MEDIUM)
    return field


def _of_quota(field: FieldChange, quota: Quota) -> FieldChange:
    if field.after != NOT_SET or field.path == "clusters":
        return field
    taken = quota.absent or field.path in quota.remove
    return replace(field, means="" if taken else "the limit stays: only remove deletes it")


def _of_user(field: FieldChange, user: ScramUser) -> FieldChange:
    if field.path == "absent" and user.absent:
        return replace(field, means="no client can log in as this user any more", risk=Risk.HIGH, irreversible=True)
    if user.absent:  # other fields have no part in it
        return replace(field, means=_NO_PART)
    if field.path == "version" and field.before.isdecimal() and user.version < int(field.before):
        return replace(field, means="refused where that version is set: an older password would come back")
    if field.path == "version" and field.before and user.version != AS_FOUND:
        means = "a new password is set; clients that log in with the old one are refused from then on"
        return replace(field, means=means, risk=Risk.MEDIUM)
    if field.path == "iterations" and field.before:
        return replace(field, means="the password of the same version is set again", risk=Risk.MEDIUM)
    if field.path == "mechanisms" and (gone := set(field.before.split(", ")) - {"", *user.mechanisms}):
        means = f"no client can log in by {', '.join(sorted(gone))} any more, where an apply from here set it"
        return replace(field, means=means, risk=Risk.HIGH, irreversible=True)
    return field


SECTIONS: tuple[EditedSection[Any], ...] = (
    EditedSection(
        name="access",
        noun="access rule",
        of=lambda topology: (topology.access_declared, topology.access),
        title=_title,
        gone="rules that an apply from here made or found declared are deleted, unless another entry asks for them;"
        " others stay",
        absent_gone="nothing ensures any more that there are no such rules",
        meaning=_of_rule,
    ),
    EditedSection(
        name="quotas",
        noun="quota",
        of=lambda topology: (topology.quotas_declared, topology.quotas),
        title=lambda quota: str(quota.entity),
        gone="an entry that is gone takes no limit away; prune takes those of earlier runs",
        absent_gone="nothing ensures any more that there is no limit",
        meaning=_of_quota,
    ),
    EditedSection(
        name="users",
        noun="user",
        of=lambda topology: (topology.users_declared, topology.users),
        title=lambda user: user.name,
        gone="the user stays on its clusters; prune deletes whom an earlier run made",
        absent_gone="nothing ensures any more that there is no such user",
        meaning=_of_user,
    ),
)
