"""Certificates of a secure sandbox cluster: a CA, the broker's, one for each client principal, as PEM."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.profiles import HOST

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError as error:
    raise SandboxError(
        "the Python package cryptography is missing",
        "The secure profile makes its certificates with it.",
        "Install the project's extra `sandbox`, or run `make install`.",
    ) from error

_LIFETIME = datetime.timedelta(days=365)
WHOLE_SUBJECT = "whole-subject"
"""Name of the certificate whose principal is its whole subject: brokers map a subject of CN alone to its CN."""
WHOLE_SUBJECT_PRINCIPAL = "User:CN=mirror,OU=data flows,O=Ünder Cover\\, Inc."


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority that lives only in memory: nobody can sign more certificates later."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _whole_subject() -> x509.Name:
    parts = {NameOID.ORGANIZATION_NAME: "Ünder Cover, Inc.", NameOID.ORGANIZATIONAL_UNIT_NAME: "data flows"}
    return x509.Name([x509.NameAttribute(*part) for part in {**parts, NameOID.COMMON_NAME: "mirror"}.items()])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of containers may differ a little.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
    )


def authority(cluster: str) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"sandbox {cluster} authority")
    certificate = (
        _builder(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate, key)


def _issue(signer: Authority, subject: x509.Name) -> tuple[bytes, bytes]:
    """Key and certificate in PEM. Valid as server and as client, since brokers are clients of each other."""
    key = ec.generate_private_key(ec.SECP256R1())
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        _builder(subject, signer.certificate.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .sign(signer.key, hashes.SHA256())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return pem, certificate.public_bytes(serialization.Encoding.PEM)


def _write(path: Path, content: bytes) -> None:
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(content)


def make(folder: Path, cluster: str, principals: Iterable[str]) -> None:
    """Writes ``ca.pem``, ``broker.pem`` (key and certificate) and per principal ``<name>.pem`` and ``<name>.key``;
    so for ``WHOLE_SUBJECT``."""
    folder.mkdir(parents=True, exist_ok=True)
    signer = authority(cluster)
    _write(folder / "ca.pem", signer.certificate.public_bytes(serialization.Encoding.PEM))
    _write(folder / "broker.pem", b"".join(_issue(signer, _name("broker"))))
    for name, subject in {WHOLE_SUBJECT: _whole_subject(), **{each: _name(each) for each in principals}}.items():
        key, certificate = _issue(signer, subject)
        _write(folder / f"{name}.key", key)
        _write(folder / f"{name}.pem", certificate)
