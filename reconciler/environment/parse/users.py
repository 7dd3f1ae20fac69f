"""One entry of ``users`` from YAML to a ``ScramUser``. Border: as ``building``; a password is a reference."""

from __future__ import annotations

import re

from reconciler.reading import Reading
from reconciler.settings import Wrong, is_reference
from reconciler.users import AS_FOUND, Mechanism, ScramUser

_ONLY_WISHED = ("version", "mechanisms", "iterations", "password", "take_over")
_MIXED = re.compile(r"\$\{(env|file):")


def build_user(reading: Reading) -> ScramUser:
    """``reading.name`` is the entry's number, from 1."""
    name = str(reading.value("name", default=""))
    absent = reading.value("absent", default=False)
    version = reading.value("version", default=AS_FOUND)
    password = str(reading.value("password", default=""))
    if name.startswith("User:"):
        what, why = f'name is "{name}"', "A user logs in with the name alone, so this one would be somebody else"
        reading.wrong(("name",), Wrong("user-name", what, why, f"Write {name.removeprefix('User:')}"))
    if absent:
        for field in _ONLY_WISHED:
            if reading.node(field) is not None:
                what, why = f"it is absent and has {field}", "One asks for the user, the other for its end"
                reading.wrong((field,), Wrong("user-field", what, why, "Remove one of the two"))
    else:
        _version(reading)
        _password(reading, password, version)
    return ScramUser(
        number=int(reading.name),
        clusters=reading.texts("clusters"),
        name=name,
        version=version,
        mechanisms=tuple(Mechanism(one) for one in reading.texts("mechanisms", default=(Mechanism.SHA_512,))),
        iterations=reading.value("iterations", default=None),
        password=password,
        take_over=reading.value("take_over", default=False),
        absent=absent,
        where=reading.place.where,
    )


def _version(reading: Reading) -> None:
    if reading.node("version") is None:
        what, why = "it has no version", "Passwords are never compared: only the version tells of a new one"
        todo = "Write version: 1 and raise it with each new password, or absent: true"
        reading.wrong((), Wrong("user-field", what, why, todo))


def _password(reading: Reading, password: str, version: int) -> None:
    """No message ever holds the value, because it may be a secret."""
    if reading.node("password") is None:
        if version > AS_FOUND:
            what, why = f"it has version {version} and no password", "There is nothing to set for this version"
            reading.wrong((), Wrong("user-field", what, why, "Write password: ${env:NAME} or ${file:PATH}"))
        return
    if is_reference(password):
        return
    if _MIXED.search(password):
        what, why = "password mixes a reference with other text", "A part of the secret would stand in git"
        reading.wrong(("password",), Wrong("secret-in-git", what, why, "Let one reference be the whole value"))
        return
    what, why = "password holds a literal value", "Whoever can read the repository could log in as this user"
    todo = "Write ${env:NAME} or ${file:PATH}, and take another password if this one was ever committed"
    reading.wrong(("password",), Wrong("secret-in-git", what, why, todo))
