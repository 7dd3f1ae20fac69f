"""Where the driver of a test listens: any free port of loopback, plain."""

from __future__ import annotations

from reconciler_mirror.leases.channel_listener import Listener, open_listener

from reconciler.replication.handover import ChannelSettings


def loopback_listener() -> Listener:
    return open_listener(ChannelSettings(), "127.0.0.1", "127.0.0.1", None)
