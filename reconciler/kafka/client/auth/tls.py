"""TLS context from librdkafka's ``ssl.*`` settings: certificates, host names, revocation, ciphers."""

import contextlib
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path

from reconciler.kafka.client.auth.login_file import content_of
from reconciler.kafka.client.auth.supported_settings import FILES
from reconciler.kafka.client.errors import SettingError

_FILES = tuple(name for name in FILES if name.startswith("ssl."))
_OPENSSL_NAMES = {"P-256": "prime256v1", "P-384": "secp384r1", "P-521": "secp521r1"}


class Renewed:
    """A TLS context that reloads its files, so that the next connection uses a renewed certificate.

    Automatically renewed certificates live for days, a lane for weeks. Raises SettingError at creation; later, unusable
    files (perhaps half-written) leave the context unchanged.
    """

    def __init__(self, client: Mapping[str, str]) -> None:
        self._client = client
        self._seen = _stamps(client)
        self._context = context_of(client)

    def context(self) -> ssl.SSLContext:
        stamps = _stamps(self._client)
        if stamps != self._seen:
            with contextlib.suppress(SettingError):
                self._context = context_of(self._client)
                self._seen = stamps
        return self._context


def _stamps(client: Mapping[str, str]) -> tuple[tuple[int, int, int] | None, ...]:
    """(mtime, size, inode) of each file; None for one that cannot be read. By these a rotated certificate is noticed:
    tools that renew replace the file or a link, so the time alone would not do."""
    stamps: list[tuple[int, int, int] | None] = []
    for name in _FILES:
        try:
            stat = Path(client.get(name, "")).stat()
            stamps.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
        except OSError:
            stamps.append(None)
    return tuple(stamps)


def context_of(client: Mapping[str, str]) -> ssl.SSLContext:
    """``client``: settings that ``supported_settings`` has nothing against. Raises SettingError, without secrets."""
    verify = client.get("enable.ssl.certificate.verification", "true").lower() == "true"
    identify = client.get("ssl.endpoint.identification.algorithm", "https").lower() == "https"
    if unreadable := unreadable_file(client, client):
        raise SettingError(unreadable)
    try:
        # Host names are only compared where the certificate is verified at all, as with librdkafka.
        context = trusting(client, "ssl.ca")
        context.check_hostname = verify and identify
        context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
        if client.get("ssl.crl.location"):  # as librdkafka: of the broker's own certificate
            context.load_verify_locations(cafile=client["ssl.crl.location"])
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        if client.get("ssl.cipher.suites"):
            context.set_ciphers(client["ssl.cipher.suites"])
        if client.get("ssl.curves.list"):
            curve = client["ssl.curves.list"].strip(":, ")
            context.set_ecdh_curve(_OPENSSL_NAMES.get(curve, curve))
        with contextlib.ExitStack() as stack:
            certificate, key = (_key_material(stack, client, kind) for kind in ("ssl.certificate", "ssl.key"))
            if certificate is not None:
                password = client.get("ssl.key.password", "")  # None would ask on the terminal
                context.load_cert_chain(certificate, key, password)
            elif key is not None:
                raise SettingError("a TLS key is set without ssl.certificate.location or ssl.certificate.pem")
    except (OSError, ValueError) as error:  # of OpenSSL too
        raise SettingError(f"the TLS settings cannot be used: {error}. Check the ssl.* locations and formats") from None
    return context


def unreadable_file(client: Mapping[str, str], written: Mapping[str, str]) -> str:
    """The first setting with an unreadable file, with the path as ``written``, before references were resolved; empty
    if all are readable. OpenSSL's errors name neither file nor setting."""
    for setting in _FILES:
        place = client.get(setting, "")
        try:
            if place not in ("", "probe") and not Path(place).is_dir():  # asking raises, too: a folder of another user
                content_of(place)
        except OSError as error:
            return f"{setting} names {written.get(setting, place)}, which cannot be read: {error.strerror}"
    return ""


def trusting(client: Mapping[str, str], prefix: str) -> ssl.SSLContext:
    """Trusts the certificates under ``<prefix>.location`` (a file or a folder) and ``<prefix>.pem``, else the system's.

    Chains are judged as librdkafka does: Python 3.13 began to refuse certificates without an Authority Key Identifier,
    which many private authorities still issue, and to trust an intermediate for itself. Raises OSError.
    """
    location = client.get(f"{prefix}.location", "")
    folder = bool(location) and Path(location).is_dir()
    if location not in ("", "probe") and not folder:
        content_of(location)  # OpenSSL would wait for the end of a pipe or device
    context = ssl.create_default_context(
        cafile=location if location not in ("", "probe") and not folder else None,
        capath=location if folder else None,
        cadata=client.get(f"{prefix}.pem") or None,
    )
    context.verify_flags &= ~(ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN)
    return context


def _key_material(stack: contextlib.ExitStack, client: Mapping[str, str], kind: str) -> str | None:
    """Key material as files, since OpenSSL reads only files; a temporary one is private, and deleted at once."""
    if client.get(f"{kind}.location"):
        return client[f"{kind}.location"]
    if not client.get(f"{kind}.pem"):
        return None
    pem_file = stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".pem"))  # noqa: SIM115 - the stack closes it
    pem_file.write(client[f"{kind}.pem"])
    pem_file.flush()
    return pem_file.name
