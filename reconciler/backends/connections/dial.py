"""Connects to one bootstrap server, with TLS handshake, to find out why connecting fails.

Also used after a failure of librdkafka, which has the same message for every refused certificate, and blames
ssl.ca.location even for a wrong host name or an expired date.
"""

import contextlib
import socket
import ssl
from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.kafka.address import host_port
from reconciler.kafka.client.auth.supported_settings import refusals
from reconciler.kafka.client.auth.tls import context_of, unreadable_file
from reconciler.kafka.client.errors import SettingError
from reconciler.model.reports.doctor import Address, Certificate

DIAL_SECONDS = 5.0
HELLO_SECONDS = 1.5
_ASKED_AT_MOST = 2
_TLS = "TLS failed: "
# X509_V_ERR_* of OpenSSL
_NOT_YET, _EXPIRED = 9, 10
_UNKNOWN_AUTHORITY = (18, 19, 20, 21)
_OTHER_NAME = (62, 64)


def dial(server: str, settings: Mapping[str, str], written: Mapping[str, str]) -> Address:
    """``settings``: librdkafka's, with secrets; ``written``: the same before references were resolved."""
    if unreadable := unreadable_file(settings, written):
        return Address(server, unreadable)
    unknown = (
        [refusal for refusal in refusals(settings) if refusal.setting.startswith("ssl.")] if _secure(settings) else []
    )
    if unknown:
        return Address(server, str(unknown[0]))
    try:
        context = context_of(settings) if _secure(settings) else None
    except SettingError as error:
        return Address(server, str(error))
    place = host_port(server)
    try:
        with socket.create_connection((place.host, place.port), DIAL_SECONDS) as plain:
            if context is None:
                return Address(server)
            with context.wrap_socket(plain, server_hostname=place.host) as secured:
                return Address(server, "", _certificate(secured.getpeercert() or {}))
    except ssl.SSLCertVerificationError as error:
        return Address(server, _TLS + _why_refused(error, (place.host, place.port), context))
    except ssl.SSLError as error:
        return Address(server, f"{_TLS}{error.reason or error}")
    except OSError as error:
        return Address(server, f"no connection: {error.strerror or error}")


def tls_refusal(servers: Iterable[str], settings: Mapping[str, str], written: Mapping[str, str]) -> str:
    """Why a server's certificate is not trusted; empty if all are."""
    if not _secure(settings):
        return ""
    for server in tuple(servers)[:_ASKED_AT_MOST]:
        address = dial(server, settings, written)
        if address.error.startswith(_TLS):
            return f"{server}: {address.error}"
    return ""


def unexpected_tls(servers: Iterable[str], settings: Mapping[str, str]) -> str:
    """Words if a server speaks TLS and the settings say plaintext, else empty. A TLS listener only closes such a
    connection. A plaintext listener logs the TLS greeting as an error, so ask only if no response came."""
    if _secure(settings):
        return ""
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    # Only the handshake matters, so the certificate is not verified.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for server in tuple(servers)[:_ASKED_AT_MOST]:
        place = host_port(server)
        try:
            with (
                socket.create_connection((place.host, place.port), HELLO_SECONDS) as plain,
                context.wrap_socket(plain),
            ):
                speaks_tls = True
        except ssl.SSLError as error:  # a server that demands a client certificate speaks TLS, too
            speaks_tls = "ALERT" in (error.reason or "")
        except (OSError, ValueError):
            speaks_tls = False
        if speaks_tls:
            secured = "SASL_SSL" if protocol.startswith("SASL") else "SSL"
            return f"{server} speaks TLS, and security.protocol is {protocol}, which does not: {secured} does"
    return ""


def _secure(settings: Mapping[str, str]) -> bool:
    return settings.get("security.protocol", "").upper().endswith("SSL")


def _why_refused(error: ssl.SSLCertVerificationError, place: tuple[str, int], context: ssl.SSLContext | None) -> str:
    """Why a certificate was refused, in words that name the remedy."""
    if error.verify_code == _EXPIRED:
        return "the broker's certificate, or one of an authority above it, has expired. Renew it there"
    if error.verify_code == _NOT_YET:
        return "the broker's certificate is not valid yet. Compare the clocks of this machine and of the broker"
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return (
            "the broker's certificate is of an authority that is not trusted here. Name that authority's certificate "
            f"in ssl.ca.location, or check whether this is the right broker ({error.verify_message})"
        )
    if error.verify_code in _OTHER_NAME and context is not None:
        # A second handshake for the names: Python does not show a certificate that it has refused.
        context.check_hostname = False
        certificate = None
        with (
            contextlib.suppress(OSError),
            socket.create_connection(place, DIAL_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=place[0]) as secured,
        ):
            certificate = _certificate(secured.getpeercert() or {})
        names = ", ".join(certificate.names) if certificate is not None and certificate.names else "another name"
        return (
            f"the broker's certificate is for {names}, and not for {place[0]}. Write "
            "bootstrap_servers as the certificate does, or have it issued for this name, too"
        )
    return error.verify_message


def _certificate(fields: Mapping[str, Any]) -> Certificate | None:
    """None if the certificate was not verified: Python then shows no fields."""
    if "notAfter" not in fields:
        return None
    names = tuple(str(value) for _, value in fields.get("subjectAltName", ()))
    return Certificate(
        int(ssl.cert_time_to_seconds(str(fields["notBefore"]))),
        int(ssl.cert_time_to_seconds(str(fields["notAfter"]))),
        names,
    )
