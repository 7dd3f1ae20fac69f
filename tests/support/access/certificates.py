"""Certificates that are made for a test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class ShortLived:
    """An authority whose certificates end soon. ``ca``: where its own is, in PEM."""

    def __init__(self, folder: Path) -> None:
        self.ca = folder / "authority.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        made = self._builder(self._name, self._key, 86_400).add_extension(constraints, critical=True)
        self.ca.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def issue(self, path: Path, name: str, seconds: float) -> None:
        """Key and certificate that ends ``seconds`` from now, in one file, which is replaced at once."""
        key = ec.generate_private_key(ec.SECP256R1())
        host = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = self._builder(subject, key, seconds).add_extension(host, critical=False).sign(self._key, hashes.SHA256())
        draft = path.with_suffix(".draft")
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + made.public_bytes(Encoding.PEM)
        draft.write_bytes(text)
        draft.replace(path)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, seconds: float) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(seconds=seconds))
        )


def self_signed(name: str = "driver") -> tuple[bytes, bytes]:
    """Key (PKCS #8) and certificate, in DER."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()), certificate.public_bytes(Encoding.DER)
