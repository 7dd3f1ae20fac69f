"""Sends notices to the webhooks of an environment. One that fails is reported in a line and changes nothing else."""

from collections.abc import Callable, Iterable

from reconciler.backends.webhooks import post
from reconciler.model.environment.topology import Topology
from reconciler.model.environment.webhooks import Notice
from reconciler.render.notices import body


def notify(topology: Topology, notices: Iterable[Notice], say: Callable[[str], None]) -> None:
    """Each notice to each webhook that takes its event; ``say`` gets a line for each that did not arrive."""
    for notice in notices:
        for webhook in topology.rules.webhooks:
            if notice.event in webhook.events and (why := post(webhook.url, body(notice, webhook.form))):
                say(f"the notice of {notice.event} did not reach the webhook {webhook.url}: {why}")
