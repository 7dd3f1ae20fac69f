"""Client settings under librdkafka's names as options of our own connections, and the files that hold secrets.

What ``supported_settings`` refuses is an error here too; settings that only tune librdkafka are left aside.
"""

import errno
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.kafka.client.auth.login_file import content_of
from reconciler.kafka.client.auth.oauth import oauth_settings
from reconciler.kafka.client.auth.supported_settings import refusals
from reconciler.kafka.client.auth.tls import Renewed
from reconciler.kafka.client.errors import SettingError

MOST_BYTES = 1 << 20
_FAMILIES = {"any": socket.AF_UNSPEC, "v4": socket.AF_INET, "v6": socket.AF_INET6}


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """A login by Kerberos tickets."""

    service: str = "kafka"
    """First part of the brokers' principals."""
    principal: str = ""
    """Empty: the ticket cache's, or the first of the keytab."""
    keytab: str = ""
    """Empty: tickets of the ticket cache."""


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """A login by SASL, with its secrets resolved."""

    mechanism: str
    """As brokers name it; ``supported_settings.MECHANISMS``."""
    username: str = ""
    password: str = field(default="", repr=False)
    """Never shown; ``repr`` leaves it out."""
    oauth: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of the token's source, by librdkafka's names."""
    kerberos: KerberosLogin = KerberosLogin()
    """Keytab or ticket cache; only for GSSAPI."""


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How to reach and log in to the brokers of one cluster. Times in seconds."""

    client_id: str = "mirror"
    """Shown in brokers' logs and metrics, and named by their quotas."""
    rack: str = ""
    """For KIP-392: followers in the same rack answer reads."""
    tls: Renewed | None = None
    """None: plain text."""
    sasl: SaslSettings | None = None
    connect_timeout: float = 10.0
    """From the lookup of the name to the end of the login."""
    request_timeout: float = 30.0
    """For each request that does not name another patience."""
    send_buffer: int = 0
    """Bytes of the socket's buffer; 0: the system's choice."""
    receive_buffer: int = 0
    """Likewise."""
    family: socket.AddressFamily = socket.AF_UNSPEC
    """IPv4, IPv6, or whichever answers."""


def connection_settings(client: Mapping[str, str]) -> ConnectionSettings:
    """``client``: librdkafka settings, secrets resolved. Raises SettingError; its text holds no secret."""
    # Nothing is ignored silently: a setting that is not known could be one that was to protect something.
    if this_refusals := refusals(client):
        raise SettingError("; ".join(map(str, this_refusals)))
    protocol = client.get("security.protocol", "plaintext").lower()
    sasl: SaslSettings | None = None
    if protocol.startswith("sasl"):
        mechanism = client.get("sasl.mechanisms", client.get("sasl.mechanism", "")).upper()
        if mechanism == "OAUTHBEARER":
            sasl = SaslSettings(mechanism, oauth=oauth_settings(client))
        elif mechanism == "GSSAPI":
            sasl = SaslSettings(mechanism, kerberos=kerberos_login(client))
        elif missing := [name for name in ("sasl.username", "sasl.password") if not client.get(name)]:
            raise SettingError(f"sasl.mechanism {mechanism} needs {' and '.join(missing)}")
        else:
            sasl = SaslSettings(mechanism, client["sasl.username"], client["sasl.password"])
    return ConnectionSettings(
        client_id=client.get("client.id", "mirror"),
        rack=client.get("client.rack", ""),
        tls=Renewed(client) if protocol.endswith("ssl") else None,
        sasl=sasl,
        connect_timeout=_milliseconds(client, "socket.connection.setup.timeout.ms", 10_000),
        request_timeout=_milliseconds(client, "socket.timeout.ms", 30_000),
        send_buffer=_number(client, "socket.send.buffer.bytes", 0),
        receive_buffer=_number(client, "socket.receive.buffer.bytes", 0),
        family=_FAMILIES[client.get("broker.address.family", "any").lower()],
    )


def kerberos_login(client: Mapping[str, str]) -> KerberosLogin:
    service, principal, keytab = (
        client.get(f"sasl.kerberos.{name}", "") for name in ("service.name", "principal", "keytab")
    )
    return KerberosLogin(service or "kafka", principal, keytab)


def _number(client: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(client.get(name, default))
    except ValueError:
        raise SettingError(f"{name} must be a whole number, not {client[name]!r}") from None


def _milliseconds(client: Mapping[str, str], name: str, default: int) -> float:
    value = _number(client, name, default)
    if value <= 0:
        raise SettingError(f"{name} must be above 0, not {value}")
    return value / 1000


def read_secret(path: str) -> str:
    """Raises OSError for what cannot be read, is no regular file, is longer than ``MOST_BYTES``, or is not UTF-8."""
    content = content_of(path, MOST_BYTES)
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise OSError(errno.EINVAL, "not a text file", path) from None
