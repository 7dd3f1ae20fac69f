"""TLS of the live page: the certificate it shows, loaded again when its files are renewed."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reconciler.errors import ReconcilerError

Stamp = tuple[tuple[int, int], ...]
"""Of each file: when it was written, in ns, and how long it is in bytes."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM: the certificate with those between it and its authority, and its private key."""

    certificate: Path
    key: Path

    def stamp(self) -> Stamp:
        """Raises OSError."""
        return tuple((at.st_mtime_ns, at.st_size) for at in (self.certificate.stat(), self.key.stat()))


def certificate_files(certificate: Path | None, key: Path | None) -> CertificateFiles | None:
    """None where neither is given. Raises ReconcilerError where only one is."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        problem = f"{'--tls-key' if certificate is None else '--tls-cert'} is given alone"
        raise ReconcilerError(problem, "A certificate is shown together with its key.", "Give both, or neither.")
    return CertificateFiles(certificate, key)


class PageCertificate:
    """``context`` is what connections are answered with; those of before a renewal keep what they have."""

    def __init__(self, files: CertificateFiles, say: Callable[[str], None]) -> None:
        """Raises ReconcilerError for files that cannot be used."""
        self._files = files
        self._say = say
        self.context = _context()
        try:
            self._stamp: Stamp = files.stamp()
            _load(self.context, files)
        except (OSError, ValueError) as error:
            raise _unusable(files, error) from None

    def renew(self) -> None:
        """Loads the files when they have changed. An unusable pair is reported once, and the last good pair stays."""
        try:
            stamp = self._files.stamp()
        except OSError:
            return  # they are being replaced
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            _load(_context(), self._files)  # a certificate without its key must not take the place of a good pair
            _load(self.context, self._files)
        except (OSError, ValueError) as error:
            self._say(
                f"the renewed certificate is not used, the one of before is: {_unusable(self._files, error).what}"
            )


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _load(context: ssl.SSLContext, files: CertificateFiles) -> None:
    # Without a password OpenSSL would ask on the terminal for that of an encrypted key.
    context.load_cert_chain(files.certificate, files.key, password="")


def _unusable(files: CertificateFiles, error: OSError | ValueError) -> ReconcilerError:
    both = f"{files.certificate} and {files.key}"
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
    path = getattr(error, "filename", None)
    return ReconcilerError(
        f"the certificate {both} cannot be used: {f'{path}: ' if path else ''}{reason}",
        "TLS needs a certificate and the private key that belongs to it, both in PEM, the key not encrypted.",
        "Check both files with: openssl x509 -noout -text -in CERT; openssl pkey -noout -in KEY.",
    )
