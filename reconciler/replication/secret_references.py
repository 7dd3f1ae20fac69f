"""Secret references: ``${env:NAME}`` for environment variables, ``${file:PATH}`` for files."""

import re
from collections.abc import Callable, Mapping

from reconciler.replication.allowed import VARIABLE, allowed, word_for

REFERENCE = re.compile(r"\$\{(env|file):([^}]*)\}")


SET_IT = "Set the variable or the file for this process, or correct the reference in the topology."


class MissingReference(LookupError):  # noqa: N818 - says what happened
    """``reference`` is the text between the braces; never the secret. ``todo``: for who runs this program."""

    def __init__(self, reference: str, why: str, todo: str = SET_IT) -> None:
        super().__init__(f"${{{reference}}}: {why}")
        self.reference = reference
        self.why = why
        self.todo = todo


def is_from_outside(value: str) -> bool:
    """Whether the value consists only of references: text beside one comes from the topology."""
    return value != "" and REFERENCE.sub("", value) == ""


def resolve(settings: Mapping[str, str], environ: Mapping[str, str], read_text: Callable[[str], str]) -> dict[str, str]:
    """``settings`` with every reference replaced. A file's value loses its trailing line break.

    Raises MissingReference for an unset variable, an unreadable file, and what ``RECONCILER_ALLOW`` in ``environ`` does
    not list.
    """
    listed = allowed(environ)

    def report(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if not listed.permits(kind, name):
            word = word_for(kind, name)
            added = f", or add {word} to {VARIABLE} where this program runs" if word else ""
            why = f"{VARIABLE} lists other references here, and not this one"
            raise MissingReference(f"{kind}:{name}", why, f"Correct the reference in the topology{added}.")
        if kind == "env":
            if name not in environ:
                raise MissingReference(f"env:{name}", "the environment variable is not set")
            return environ[name]
        try:
            return read_text(name).rstrip("\r\n")
        except OSError as error:
            raise MissingReference(f"file:{name}", error.strerror or "cannot be read") from None

    return {key: REFERENCE.sub(report, value) for key, value in settings.items()}
