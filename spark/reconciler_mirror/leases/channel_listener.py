"""Where the driver listens for its tasks: address, port out of a range, and TLS wherever it is not loopback."""

from __future__ import annotations

import errno
import ipaddress
import socket
import ssl
from dataclasses import dataclass
from typing import Any

from reconciler.replication.handover import ChannelSettings, HandoverError
from reconciler_mirror.leases.channel_certificate import ServerIdentity, made_by_java


@dataclass(frozen=True, slots=True)
class Listener:
    """``advertised``: the address that tasks are told. ``tls`` None: plain, on loopback. ``pin``: fingerprint of the
    certificate, which tasks are told."""

    socket: socket.socket
    advertised: str
    tls: ssl.SSLContext | None = None
    pin: str = ""


def listen_for_tasks(settings: ChannelSettings | None, host: str, context: Any) -> Listener:
    """``host``: ``spark.driver.host``, or loopback with a local
    master. Raises HandoverError."""
    settings = settings or ChannelSettings()
    advertised = settings.advertised_address or host
    bind = settings.bind_address or (
        advertised if _is_loopback(host) else context.getConf().get("spark.driver.bindAddress") or host
    )
    plain = _is_loopback(bind) and _is_loopback(advertised)
    return open_listener(settings, bind, advertised, None if plain else made_by_java(context._jvm))


def open_listener(settings: ChannelSettings, bind: str, advertised: str, identity: ServerIdentity | None) -> Listener:
    """On the first free port of the range. Raises HandoverError, with the addresses and ports that were tried."""
    listening = _bound(settings, bind, advertised)
    if identity is None:
        return Listener(listening, advertised)
    return Listener(listening, advertised, identity.context(), identity.pin)


def _bound(settings: ChannelSettings, bind: str, advertised: str) -> socket.socket:
    ports = range(settings.first_port, settings.last_port + 1)
    place = f"{bind!r} (tasks are told {advertised!r})"
    for port in ports:
        try:
            family = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((bind, port), family=family)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                continue
            tried = f"the control channel cannot listen on {place}, port {port or 'any'}: {error}"
            if error.errno == errno.EACCES:
                raise HandoverError(f"{tried}. Set channel.ports of the mirror to ports that it may use.") from None
            raise HandoverError(
                f"{tried}. Tasks could not reach the driver. Set channel.bind_address of the mirror to an address of "
                "the driver's machine, or to 0.0.0.0, and channel.advertised_address to what executors reach it by."
            ) from None
    raise HandoverError(
        f"the control channel cannot listen on {place}: each of its ports {ports[0]}-{ports[-1]} is in use. Tasks "
        "could not reach the driver. Set channel.ports of the mirror to a wider range: two for each application on the "
        "machine, since a new one starts beside the old one, and open it in the firewall."
    )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
