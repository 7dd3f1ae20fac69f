"""Secret references: ``${env:NAME}`` for environment variables, ``${file:PATH}`` for files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from reconciler.replication.allowed import VARIABLE, allowed

REFERENCE = re.compile(r"\$\{(env|file):([^}]*)\}")


class MissingReference(LookupError):  # noqa: N818 - says what happened
    """``reference`` is the text between the braces; never the secret."""

    def __init__(self, reference: str, why: str) -> None:
        super().__init__(f"${{{reference}}}: {why}")
        self.reference = reference
        self.why = why


def resolve(settings: Mapping[str, str], environ: Mapping[str, str], read_text: Callable[[str], str]) -> dict[str, str]:
    """``settings`` with every reference replaced. A file's value loses its trailing line break.

    Raises MissingReference for an unset variable, an unreadable file, and what ``RECONCILER_ALLOW`` in ``environ`` does
    not list.
    """
    listed = allowed(environ)

    def report(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if not listed.permits(kind, name):
            raise MissingReference(f"{kind}:{name}", f"{VARIABLE} lists other references here, and not this one")
        if kind == "env":
            if name not in environ:
                raise MissingReference(f"env:{name}", "the environment variable is not set")
            return environ[name]
        try:
            return read_text(name).rstrip("\r\n")
        except OSError as error:
            raise MissingReference(f"file:{name}", error.strerror or "cannot be read") from None

    return {key: REFERENCE.sub(report, value) for key, value in settings.items()}
