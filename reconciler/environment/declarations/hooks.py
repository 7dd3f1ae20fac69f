"""``webhooks``, which get notices, and ``cutover``, the hooks of cut-overs.

An address of a webhook is a reference, and no message ever holds it. Whether a hook may run is decided where it runs
(``RECONCILER_ALLOW``).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from reconciler.environment.declarations.entry import Reading
from reconciler.environment.declarations.values import Wrong, is_reference
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.nodes import Node, Scalar
from reconciler.kafka.address import without_login
from reconciler.model.environment.hooks import HOOKS, CutoverHook, HookKind, NoticeEvent, Webhook, WebhookFormat
from reconciler.replication.secret_references import REFERENCE
from reconciler.text import duration_ms

TIMEOUT_MS = 60_000


def webhook_secret(key: str, node: Node) -> str | Wrong:
    """Checks the secret of a webhook, its ``url``: anyone who knows it can write to the channel."""
    if key != "url" or not isinstance(node, Scalar) or is_reference(node.text):
        return ""
    why = "Anyone who knows the address of a webhook can write to its channel"
    todo = "Write ${env:NAME} or ${file:PATH}, and make another address if this one was ever committed"
    return Wrong("secret-in-git", "url is not one reference", why, todo)


def build_webhook(reading: Reading) -> Webhook:
    reading.mapping(each=webhook_secret)
    return Webhook(
        str(reading.value("url", default="")),
        WebhookFormat(reading.value("format", default=WebhookFormat.JSON)),
        tuple(NoticeEvent(text) for text in reading.texts("events", default=tuple(NoticeEvent))),
        reading.place.where,
    )


def build_hooks(reading: Reading) -> Mapping[str, CutoverHook]:
    """Step of a cut-over -> hook. A hook of two kinds is refused, since one result must decide about the step."""
    hooks: dict[str, CutoverHook] = {}
    for name in HOOKS:
        node = reading.node("hooks", name)
        if not isinstance(node, YamlMapping):
            continue
        path = ("hooks", name)
        kinds = [kind for kind in HookKind if kind in node.entries]
        if len(kinds) != 1:
            names = " and ".join(kinds) or "none of command, http and file"
            why = "One hook does one thing, so that its end decides about the step"
            reading.wrong(path, Wrong("one-of", f"hooks.{name} has {names}", why, "Write one of command, http, file"))
            continue
        hook = CutoverHook(
            kinds[0],
            **_of(reading, path, kinds[0]),
            timeout_ms=reading.quantity(*path, "timeout", default=TIMEOUT_MS, read=duration_ms),
            where=reading.place.document.where(node),
        )
        for problem, todo in _wrong(hook):
            why = "A hook's target is compared with what this machine allows, so it has to be plain and whole"
            reading.wrong((*path, kinds[0].value), Wrong("bad-hook", f"hooks.{name} {problem}", why, todo))
        hooks[name] = hook
    return MappingProxyType(hooks)


def _of(reading: Reading, path: tuple[str, ...], kind: HookKind) -> dict[str, Any]:
    """Fields of a hook by its kind, as ``CutoverHook`` has them."""
    at = (*path, kind.value)
    match kind:
        case HookKind.COMMAND:
            program, *arguments = reading.texts(*at)
            return {"target": program, "arguments": tuple(arguments)}
        case HookKind.HTTP:
            node = reading.node(*at, "headers")
            entries = node.entries if isinstance(node, YamlMapping) else {}
            return {
                "target": reading.value(*at, "url", default=""),
                "method": reading.value(*at, "method", default="POST"),
                "headers": MappingProxyType({key: str(entry.value.data) for key, entry in entries.items()}),
                "text": reading.value(*at, "body", default=""),
                "status": reading.value(*at, "status", default=200),
                "ca": reading.value(*at, "ca", default=""),
            }
        case HookKind.FILE:
            return {
                "target": reading.value(*at, "path", default=""),
                "text": reading.value(*at, "text", default=""),
            }


def _wrong(hook: CutoverHook) -> list[tuple[str, str]]:
    """The problem of its target, and the remedy."""
    problems, shown = [], without_login(hook.target)
    if REFERENCE.search(hook.target):
        problems.append((f"has a reference in {shown}", "Keep references to arguments, headers, body and text"))
    if hook.kind is HookKind.HTTP:
        if not hook.target.startswith(("https://", "http://")) or "@" in hook.target.split("/")[2]:
            problems.append((f"calls {shown}", "Write https://HOST/PATH, with credentials in headers"))
        if hook.ca and (not _plain(hook.ca) or REFERENCE.search(hook.ca)):
            problems.append((f"has ca: {hook.ca}", "Write an absolute path, such as /etc/ssl/api-server.pem"))
        if hook.ca and hook.target.startswith("http://"):
            problems.append((f"has a ca, and calls {shown} without TLS", "Write https://, or leave ca out"))
    elif not _plain(hook.target):
        problems.append((f"names {hook.target}", "Write an absolute path, such as /opt/hooks/switch-dns"))
    return problems


def _plain(path: str) -> bool:
    return path.startswith("/") and ".." not in path.split("/")
