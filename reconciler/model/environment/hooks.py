"""Hooks as git declares them: of a cut-over (a program, an HTTP call, a file to write at one of its steps), and
webhooks.
"""

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


# Webhooks of an environment, as git declares them, and the notices that they get.


class WebhookFormat(StrEnum):
    JSON = "json"
    SLACK = "slack"
    TEAMS = "teams"


class NoticeEvent(StrEnum):
    """APPLY: changes were carried out, or failed. DRIFT: clusters differ from git. VERDICT: the state of the
    environment changed, as when a condition stops a partition, and when it ends."""

    APPLY = "apply"
    DRIFT = "drift"
    VERDICT = "verdict"


@dataclass(frozen=True, slots=True)
class Webhook:
    """``url``: a reference, and nothing else: the address is a secret, and machines decide where notices go."""

    url: str
    form: WebhookFormat = WebhookFormat.JSON
    events: tuple[NoticeEvent, ...] = tuple(NoticeEvent)
    where: Where = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Notice:
    """News for webhooks, before it takes the form that each of them wants."""

    event: NoticeEvent
    environment: str
    state: str
    """One word, of the verdict or of how a command ended."""
    title: str
    details: tuple[str, ...] = ()
    """Lines, the worst first."""
