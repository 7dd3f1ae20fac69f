"""Parses ``users`` entries; a password is a reference."""

from __future__ import annotations

import re

from reconciler.environment.parse.values import Wrong, is_reference
from reconciler.environment.yaml.entry import Reading
from reconciler.model.users import AS_FOUND, Mechanism, ScramUser

_ONLY_DESIRED = ("version", "mechanisms", "iterations", "password", "take_over")
_MIXED = re.compile(r"\$\{(env|file):")


def build_user(reading: Reading) -> ScramUser:
    """``reading.name`` is the entry's number, from 1."""
    name = str(reading.value("name", default=""))
    absent = reading.value("absent", default=False)
    version = reading.value("version", default=AS_FOUND)
    password = str(reading.value("password", default=""))
    if name.startswith("User:"):
        problem, why = f'name is "{name}"', "A user logs in with the name alone, so this one would be somebody else"
        reading.wrong(("name",), Wrong("user-name", problem, why, f"Write {name.removeprefix('User:')}"))
    if absent:
        for field in _ONLY_DESIRED:
            if reading.node(field) is not None:
                problem, why = f"it is absent and has {field}", "One asks for the user, the other for its end"
                reading.wrong((field,), Wrong("user-field", problem, why, "Remove one of the two"))
    else:
        if reading.node("version") is None:
            problem, why = "it has no version", "Passwords are never compared: only the version announces a new one"
            todo = "Write version: 1 and raise it with each new password, or absent: true"
            reading.wrong((), Wrong("user-field", problem, why, todo))
        _password(reading, password, version)
    return ScramUser(
        number=int(reading.name),
        clusters=reading.texts("clusters"),
        name=name,
        version=version,
        mechanisms=tuple(Mechanism(text) for text in reading.texts("mechanisms", default=(Mechanism.SHA_512,))),
        iterations=reading.value("iterations", default=None),
        password=password,
        take_over=reading.value("take_over", default=False),
        absent=absent,
        where=reading.place.where,
    )


def _password(reading: Reading, password: str, version: int) -> None:
    """No message ever holds the value, because it may be a secret."""
    if reading.node("password") is None:
        if version > AS_FOUND:
            problem, why = f"it has version {version} and no password", "There is nothing to set for this version"
            reading.wrong((), Wrong("user-field", problem, why, "Write password: ${env:NAME} or ${file:PATH}"))
        return
    if is_reference(password):
        return
    if _MIXED.search(password):
        problem, why = "password mixes a reference with other text", "Part of the secret would be in git"
        reading.wrong(("password",), Wrong("secret-in-git", problem, why, "Let one reference be the whole value"))
        return
    problem, why = "password holds a literal value", "Anyone who can read the repository could log in as this user"
    todo = "Write ${env:NAME} or ${file:PATH}, and take another password if this one was ever committed"
    reading.wrong(("password",), Wrong("secret-in-git", problem, why, todo))
