"""Resolves secret references to passwords at the moment they are used; no value or message ever holds one."""

from __future__ import annotations

import os
from collections.abc import Iterable

from reconciler.errors import SecretError
from reconciler.kafka.client.auth.secret_files import read_secret
from reconciler.replication.secret_references import SET_IT, MissingReference, resolve


def secret(reference: str) -> str:
    """What ``${env:NAME}`` or ``${file:PATH}`` refers to now. Raises SecretError."""
    try:
        text = resolve({"": reference}, os.environ, read_secret)[""]
    except MissingReference as error:
        raise SecretError(str(error), todo=error.todo) from None
    if not text:
        raise SecretError(f"{reference}: it is empty", todo=SET_IT)
    return text


def require_secrets(wanted: Iterable[tuple[str, str]]) -> None:
    """``wanted``: whose, and the reference. Raises one SecretError that names all that cannot be had."""
    missing, todo = [], []
    for whose, reference in wanted:
        try:
            secret(reference)
        except SecretError as error:
            missing.append(f"  {whose}: {error.what}")
            todo.append(error.todo)
    if missing:
        why, words = "\n".join(missing), "\n".join(dict.fromkeys(todo))
        raise SecretError("nothing was applied: passwords of users cannot be had", why, words)
