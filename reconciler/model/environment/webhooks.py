"""Webhooks of an environment, as git declares them, and the notices that they get."""

from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.errors import NOWHERE, Where


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
