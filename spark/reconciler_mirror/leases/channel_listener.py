"""The driver's listening socket for its tasks: address, a port of a range, and TLS everywhere but on loopback.

The application makes a certificate when it starts. Key and signature come from the driver's Java, so nothing else has
to be installed. Tasks get the fingerprint with their lease and compare only that: never a name, date or issuer
(docs/decisions/spark/0120).
"""

import base64
import errno
import socket
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reconciler.kafka.address import is_loopback
from reconciler.replication.handover import ChannelSettings, HandoverError
from reconciler_mirror.leases.channel_line import fingerprint

_SEQUENCE, _SET, _INTEGER, _BITS, _OID, _UTF8, _TIME = 0x30, 0x31, 0x02, 0x03, 0x06, 0x0C, 0x18
_ECDSA_WITH_SHA256 = bytes.fromhex("2a8648ce3d040302")
_COMMON_NAME = bytes.fromhex("550403")
_EVER = (b"20000101000000Z", b"99991231235959Z")
"""RFC 5280, 4.1.2.5: no well-defined expiration date. The certificate lives as long as its application."""


@dataclass(frozen=True, slots=True, repr=False)
class ServerIdentity:
    """``key`` and ``certificate`` in DER (PKCS #8, X.509)."""

    key: bytes
    certificate: bytes

    @property
    def pin(self) -> str:
        return fingerprint(self.certificate)

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # Python's ssl reads keys from files only: 0600
            file.write(_pem("PRIVATE KEY", self.key) + _pem("CERTIFICATE", self.certificate))
            file.flush()
            context.load_cert_chain(file.name)
        return context


def made_by_java(jvm: Any) -> ServerIdentity:
    """A P-256 key and its self-signed certificate. ``jvm``: Py4J's view of the driver's Java."""
    generator = jvm.java.security.KeyPairGenerator.getInstance("EC")
    generator.initialize(256)
    pair = generator.generateKeyPair()
    encoded = _encoder(jvm)
    content = _content(encoded(pair.getPublic(), "X509EncodedKeySpec"))
    signature = jvm.java.security.Signature.getInstance("SHA256withECDSA")
    signature.initSign(pair.getPrivate())
    signature.update(content)
    signed = _der(_SEQUENCE, content, _ALGORITHM, _der(_BITS, b"\0", bytes(signature.sign())))
    return ServerIdentity(encoded(pair.getPrivate(), "PKCS8EncodedKeySpec"), signed)


def _encoder(jvm: Any) -> Callable[[Any, str], bytes]:
    """Encodes keys as DER by a KeyFactory, because Java's modules do not export the key classes themselves."""
    factory = jvm.java.security.KeyFactory.getInstance("EC")

    def encoded(key: Any, form: str) -> bytes:
        return bytes(factory.getKeySpec(key, jvm.java.lang.Class.forName(f"java.security.spec.{form}")).getEncoded())

    return encoded


def _content(public_key: bytes) -> bytes:
    """The signed part (RFC 5280, TBSCertificate), in version 1, which has no extensions."""
    name = _der(_SEQUENCE, _der(_SET, _der(_SEQUENCE, _der(_OID, _COMMON_NAME), _der(_UTF8, b"control channel"))))
    validity = _der(_SEQUENCE, *(_der(_TIME, day) for day in _EVER))
    return _der(_SEQUENCE, _der(_INTEGER, b"\1"), _ALGORITHM, name, validity, name, public_key)


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(digits)]) + digits + content


_ALGORITHM = _der(_SEQUENCE, _der(_OID, _ECDSA_WITH_SHA256))


def _pem(label: str, der: bytes) -> str:
    return f"-----BEGIN {label}-----\n{base64.encodebytes(der).decode()}-----END {label}-----\n"


@dataclass(frozen=True, slots=True)
class Listener:
    """``advertised``: the address for tasks. ``tls`` None: plain, on loopback. ``pin``: the certificate's fingerprint,
    also for tasks."""

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
        advertised if is_loopback(host) else context.getConf().get("spark.driver.bindAddress") or host
    )
    plain = is_loopback(bind) and is_loopback(advertised)
    return open_listener(settings, bind, advertised, None if plain else made_by_java(context._jvm))


def open_listener(settings: ChannelSettings, bind: str, advertised: str, identity: ServerIdentity | None) -> Listener:
    """Listens on the first free port of the range. Raises HandoverError with the addresses and ports that it tried, and
    the setting to change: without the channel tasks would run to their deadline unheard."""
    tls, pin = (None, "") if identity is None else (identity.context(), identity.pin)
    ports = range(settings.first_port, settings.last_port + 1)
    place = f"{bind!r} (tasks get {advertised!r})"
    for port in ports:
        try:
            family = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM)[0][0]
            return Listener(socket.create_server((bind, port), family=family), advertised, tls, pin)
        except OSError as error:
            # The predecessor may still listen during a takeover. Any other error is the same for each port of the
            # range.
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
