"""``webhooks``: who gets notices. An address is a reference, and no message ever holds it."""

from reconciler.environment.declarations.entry import Reading
from reconciler.environment.declarations.values import Wrong, is_reference
from reconciler.model.environment.webhooks import NoticeEvent, Webhook, WebhookFormat


def build_webhook(reading: Reading) -> Webhook:
    """The address is a secret: anyone who knows it can write to the channel."""
    url = str(reading.value("url", default=""))
    if not is_reference(url):
        problem = "url is not one reference"
        why = "Anyone who knows the address of a webhook can write to its channel"
        todo = "Write ${env:NAME} or ${file:PATH}, and make another address if this one was ever committed"
        reading.wrong(("url",), Wrong("secret-in-git", problem, why, todo))
    return Webhook(
        url,
        WebhookFormat(reading.value("format", default=WebhookFormat.JSON)),
        tuple(NoticeEvent(text) for text in reading.texts("events", default=tuple(NoticeEvent))),
        reading.place.where,
    )
