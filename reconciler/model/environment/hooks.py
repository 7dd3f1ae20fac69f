"""Hooks of a cut-over, as git declares them: a program, an HTTP call, or a file to write at one of its steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from reconciler.errors import NOWHERE, Where
from reconciler.text import in_shell, time_words

HOOKS = ("before", "switch", "after")
"""Steps that may have one."""


class HookKind(StrEnum):
    COMMAND = "command"
    HTTP = "http"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class CutoverHook:
    """A program, request or file for one step of a cut-over. ``arguments``, values of ``headers``, and ``text`` (a
    body, or the file's content) may contain references to secrets."""

    kind: HookKind
    target: str
    """A program's path, a URL, or a file's path, without references."""
    arguments: tuple[str, ...] = ()
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    text: str = ""
    status: int = 200
    """Required HTTP status."""
    ca: str = ""
    """File of trusted authorities, empty for the system's."""
    timeout_ms: int = 60_000
    where: Where = field(default=NOWHERE, compare=False)

    @property
    def words(self) -> str:
        """The exact call, with references as they are written."""
        within = f"within {time_words(self.timeout_ms / 1000)}"
        match self.kind:
            case HookKind.COMMAND:
                return f"runs {' '.join(map(in_shell, (self.target, *self.arguments)))}, {within}"
            case HookKind.HTTP:
                headers = "".join(f", {name}: {value}" for name, value in self.headers.items())
                body = f", body {self.text}" if self.text else ""
                trusts = f", trusts {self.ca}" if self.ca else ""
                return f"calls {self.method} {self.target}{headers}{body}{trusts}, expects {self.status}, {within}"
            case HookKind.FILE:
                return f"writes {self.target}: {self.text}"
