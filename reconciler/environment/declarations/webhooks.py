"""``webhooks``: who gets notices. An address is a reference, and no message ever holds it."""

from reconciler.environment.declarations.entry import Reading
from reconciler.environment.declarations.values import Wrong, is_reference
from reconciler.environment.yaml.nodes import Node, Scalar
from reconciler.model.environment.webhooks import NoticeEvent, Webhook, WebhookFormat


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
