"""Changes of SCRAM users in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.model.changes import AlterUser, CredentialChange, DeleteUser, UserChange
from reconciler.model.users import user_words
from reconciler.render.plan.kinds.words import SHOWN, FieldValues, Words
from reconciler.text import first_of


def _headline(change: UserChange, why: str) -> str:
    if isinstance(change, DeleteUser):
        return f"{'delete ' + ', '.join(change.mechanisms) if change.left else 'DELETE the user'}{why}"
    return f"{'create with' if change.is_new and change.recorded is None else 'set'} {_password(change)}{why}"


def _password(change: AlterUser) -> str:
    if change.recorded == change.version:
        return f"the password of version {change.version} again"
    before = "" if change.recorded is None else f", before {change.recorded}"
    return f"the password of version {change.version}{before}"


def _signature(change: UserChange) -> object:
    if isinstance(change, DeleteUser):
        return "delete user", change.mechanisms, change.left, change.reason.code
    versions = change.recorded, change.version
    return "user", change.credentials, versions, bool(change.password), change.reason.code


def _lines(changes: Sequence[UserChange]) -> Iterator[str]:
    first = changes[0]
    if isinstance(first, DeleteUser):
        stays = f", {' and '.join(first.left)} stays" if first.left else ""
        yield f"{' and '.join(first.mechanisms)} goes{stays}"
        return
    yield from map(_credential, first.credentials)
    references = list(dict.fromkeys(change.password for change in changes if isinstance(change, AlterUser)))
    yield f"password from {first_of(references, SHOWN)}"


def _credential(change: CredentialChange) -> str:
    if change.before == change.after:
        return f"{change.mechanism}: {change.after} iterations, salted anew"
    return f"{change.mechanism}: {change.before or 'none'} -> {change.after} iterations, salted anew"


def _fields(change: UserChange) -> Iterator[FieldValues]:
    if isinstance(change, DeleteUser):
        yield from (FieldValues(mechanism, "there", "") for mechanism in change.mechanisms)
        return
    yield FieldValues("password", f"version {change.recorded}" if change.recorded else "", f"version {change.version}")
    for each in change.credentials:
        before = "" if each.before is None else f"{each.before} iterations"
        yield FieldValues(str(each.mechanism), before, f"{each.after} iterations, salted anew")


USERS: Words[UserChange] = Words(
    "user", lambda change: f"SCRAM {user_words(change.user)}", _headline, _signature, _lines, _fields
)
