"""Client settings under librdkafka's names, as far as a raw connection honours them.

A setting that decides about security is either honoured or refused, never ignored; settings that only tune librdkafka
are left aside.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wire.errors import SettingError

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_SECURITY = ("ssl.", "sasl.", "security.", "https.", "enable.ssl", "enable.sasl")
_HONOURED = frozenset(
    {
        "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password",
        "sasl.oauthbearer.method", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions",
        "https.ca.location", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem",
        "ssl.key.location", "ssl.key.pem", "ssl.key.password", "ssl.endpoint.identification.algorithm",
        "ssl.cipher.suites", "enable.ssl.certificate.verification",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SaslSettings:
    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    oauth: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Times in seconds. ``tls`` None: plain text. ``rack``: KIP-392 reads from a follower in the same rack."""

    client_id: str = "mirror"
    rack: str = ""
    tls: ssl.SSLContext | None = None
    sasl: SaslSettings | None = None
    connect_timeout: float = 10.0
    request_timeout: float = 30.0
    send_buffer: int = 0
    receive_buffer: int = 0


def connection_settings(client: Mapping[str, str]) -> ConnectionSettings:
    """``client``: librdkafka settings, secrets resolved. Raises SettingError; its text names settings, never values."""
    unknown = sorted(k for k in client if k.startswith(_SECURITY) and k not in _HONOURED)
    if unknown:
        raise SettingError(
            f"the setting {', '.join(unknown)} is not supported by the mirror's connections; ignoring it would weaken "
            f"or break security. Use one of: {', '.join(sorted(_HONOURED))}"
        )
    protocol = client.get("security.protocol", "plaintext").lower()
    if protocol not in ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"):
        raise SettingError(f"security.protocol {protocol!r} is none of plaintext, ssl, sasl_plaintext, sasl_ssl")
    return ConnectionSettings(
        client_id=client.get("client.id", "mirror"),
        rack=client.get("client.rack", ""),
        tls=_tls(client) if protocol.endswith("ssl") else None,
        sasl=_sasl(client) if protocol.startswith("sasl") else None,
        connect_timeout=_milliseconds(client, "socket.connection.setup.timeout.ms", 10_000),
        request_timeout=_milliseconds(client, "socket.timeout.ms", 30_000),
        send_buffer=int(_number(client, "socket.send.buffer.bytes", 0)),
        receive_buffer=int(_number(client, "socket.receive.buffer.bytes", 0)),
    )


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


def _sasl(client: Mapping[str, str]) -> SaslSettings:
    mechanism = client.get("sasl.mechanisms", client.get("sasl.mechanism", "")).upper()
    if mechanism not in MECHANISMS:
        raise SettingError(f"sasl.mechanism {mechanism or 'is missing;'} use one of {', '.join(MECHANISMS)}")
    if mechanism == "OAUTHBEARER":
        if client.get("sasl.oauthbearer.method", "").lower() != "oidc":
            raise SettingError("OAUTHBEARER needs sasl.oauthbearer.method=oidc (client credentials)")
        return SaslSettings(mechanism, oauth={k: v for k, v in client.items() if k.startswith(("sasl.oauth", "https"))})
    missing = [name for name in ("sasl.username", "sasl.password") if not client.get(name)]
    if missing:
        raise SettingError(f"sasl.mechanism {mechanism} needs {' and '.join(missing)}")
    return SaslSettings(mechanism, client["sasl.username"], client["sasl.password"])


def _tls(client: Mapping[str, str]) -> ssl.SSLContext:
    verify = _flag(client, "enable.ssl.certificate.verification", True)
    identify = client.get("ssl.endpoint.identification.algorithm", "https").lower()
    if identify not in ("https", "none", ""):
        raise SettingError(f"ssl.endpoint.identification.algorithm must be https or none, not {identify!r}")
    location = client.get("ssl.ca.location", "")
    try:
        context = ssl.create_default_context(
            cafile=location if location not in ("", "probe") and not Path(location).is_dir() else None,
            capath=location if location and Path(location).is_dir() else None,
            cadata=client.get("ssl.ca.pem") or None,
        )
        context.check_hostname = verify and identify == "https"
        context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
        if client.get("ssl.cipher.suites"):
            context.set_ciphers(client["ssl.cipher.suites"])
        _client_certificate(context, client)
    except (OSError, ssl.SSLError) as error:
        raise SettingError(f"the TLS settings cannot be used: {error}. Check the ssl.* locations and formats") from None
    return context


def _client_certificate(context: ssl.SSLContext, client: Mapping[str, str]) -> None:
    certificate = client.get("ssl.certificate.location")
    password = client.get("ssl.key.password", "")  # None would ask on the terminal
    if certificate:
        context.load_cert_chain(certificate, client.get("ssl.key.location"), password)
    elif client.get("ssl.certificate.pem"):
        # OpenSSL reads key material from files only; the file is private and gone at once.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as both:
            both.write(f"{client['ssl.certificate.pem']}\n{client.get('ssl.key.pem', '')}\n")
            both.flush()
            context.load_cert_chain(both.name, None, password)
    elif client.get("ssl.key.location") or client.get("ssl.key.pem"):
        raise SettingError("a TLS key is set without ssl.certificate.location or ssl.certificate.pem")


def _flag(client: Mapping[str, str], name: str, default: bool) -> bool:
    value = client.get(name, str(default)).lower()
    if value not in ("true", "false"):
        raise SettingError(f"{name} must be true or false, not {value!r}")
    return value == "true"
