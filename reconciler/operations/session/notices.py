"""Sends notices to the webhooks of an environment; their URLs are references to secrets on this machine.

A failed webhook is reported in one line, and has no other effect.
"""

import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from http.client import HTTPException
from urllib.parse import urlsplit

from reconciler.kafka.client.auth.settings import read_secret
from reconciler.kafka.client.auth.tokens.web import NoRedirect
from reconciler.model.environment.hooks import Notice
from reconciler.model.environment.topology import Topology
from reconciler.render.notices import body
from reconciler.replication.secret_references import MissingReference, resolve

TIMEOUT_S = 10.0
_OPENER = urllib.request.build_opener(NoRedirect)


def notify(topology: Topology, notices: Iterable[Notice], say: Callable[[str], None]) -> None:
    """Sends each notice to each webhook that subscribes to its event; ``say`` gets a line for each failure."""
    for notice in notices:
        for webhook in topology.rules.webhooks:
            if notice.event in webhook.events and (why := post(webhook.url, body(notice, webhook.form))):
                say(f"the notice of {notice.event} did not reach the webhook {webhook.url}: {why}")


def post(reference: str, data: bytes) -> str:
    """Posts ``data``, a JSON text; returns the error, or empty. The error contains neither the URL, which is a secret,
    nor the server's response, which may repeat it."""
    try:
        url = resolve({"url": reference}, os.environ, read_secret)["url"].strip()
    except MissingReference as error:
        return f"{error.why}. {error.todo}"
    try:
        parts = urlsplit(url)
        plain = parts.scheme in ("https", "http") and parts.hostname and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        plain = False
    if not plain or not url.isascii() or any(char <= " " for char in url):
        return "its value is no address such as https://HOST/PATH. Correct the variable or the file."
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 - of this machine's secrets
    try:
        with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
            status = answer.status
    except urllib.error.HTTPError as error:
        with error:
            status = error.code
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        words = getattr(reason, "strerror", None) or type(reason).__name__
        return f"no answer ({words}). Check the address, and the way to it from this machine."
    return "" if status // 100 == 2 else f"it answered {status}. Check the address, and whether the channel exists."
