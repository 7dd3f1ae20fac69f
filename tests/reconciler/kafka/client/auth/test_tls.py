"""TLS settings do what librdkafka says they do: proved by handshakes in memory, with certificates made here."""

from __future__ import annotations

import contextlib
import datetime
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from reconciler.kafka.client.auth.settings import connection_settings
from reconciler.kafka.client.errors import SettingError

HOST = "broker.example.net"
NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def _pem(key: ec.EllipticCurvePrivateKey, password: str = "") -> bytes:
    how = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


@dataclass(frozen=True)
class Authority:
    """Of one folder: ``ca.pem``, and what it signs."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def sign(self, common: str) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        key = ec.generate_private_key(ec.SECP256R1())
        return _signed(common, key, self.certificate.subject, self.key, ca=False), key

    def revoking(self, *certificates: x509.Certificate) -> str:
        made = x509.CertificateRevocationListBuilder().issuer_name(self.certificate.subject)
        made = made.last_update(NOW - DAY).next_update(NOW + DAY)
        for one in certificates:
            entry = x509.RevokedCertificateBuilder().serial_number(one.serial_number).revocation_date(NOW - DAY)
            made = made.add_revoked_certificate(entry.build())
        path = self.folder / f"revoked-{len(certificates)}.pem"
        path.write_bytes(made.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return str(path)


def _signed(
    common: str, key: ec.EllipticCurvePrivateKey, issuer: x509.Name, by: ec.EllipticCurvePrivateKey, *, ca: bool
) -> x509.Certificate:
    made = x509.CertificateBuilder().subject_name(_name(common)).issuer_name(issuer).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(NOW - DAY).not_valid_after(NOW + DAY)
    made = made.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(common)]), critical=False)
    return made.sign(by, hashes.SHA256())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    folder, key = tmp_path_factory.mktemp("tls"), ec.generate_private_key(ec.SECP256R1())
    certificate = _signed("ca", key, _name("ca"), key, ca=True)
    (folder / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return Authority(folder, key, certificate)


@pytest.fixture(scope="module")
def broker(authority: Authority) -> tuple[x509.Certificate, Callable[[], ssl.SSLContext]]:
    certificate, key = authority.sign(HOST)
    path = authority.folder / "broker.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + _pem(key))

    def listening() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    return certificate, listening


def handshake(server: ssl.SSLContext, host: str = HOST, **client: str) -> ssl.SSLObject:
    """The server's side once both agree. Raises ssl.SSLError. ``client`` with ``_`` for ``.``."""
    settings = {"security.protocol": "SSL", **{name.replace("_", "."): value for name, value in client.items()}}
    made = connection_settings(settings).tls
    assert made is not None
    return agree(server, made.context(), host)


def agree(server: ssl.SSLContext, context: ssl.SSLContext, host: str = HOST) -> ssl.SSLObject:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = context.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return theirs


Broker = tuple[x509.Certificate, Callable[[], ssl.SSLContext]]


def test_a_revoked_broker_is_refused_and_another_is_not(authority: Authority, broker: Broker) -> None:
    certificate, listening = broker
    ca = str(authority.folder / "ca.pem")
    assert handshake(listening(), ssl_ca_location=ca, ssl_crl_location=authority.revoking()).version()
    with pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
        handshake(listening(), ssl_ca_location=ca, ssl_crl_location=authority.revoking(certificate))


def test_an_authority_key_identifier_is_not_asked_for_by_any_python(
    authority: Authority, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ssl.create_default_context

    def as_from_3_13_on(**settings: Any) -> ssl.SSLContext:
        context = made(**settings)
        context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    monkeypatch.setattr(ssl, "create_default_context", as_from_3_13_on)
    assert handshake(broker[1](), ssl_ca_location=str(authority.folder / "ca.pem")).version()


def test_only_the_named_curve_is_offered(authority: Authority, broker: Broker) -> None:
    ca = str(authority.folder / "ca.pem")
    for name, there, agreed in (
        ("P-256", "prime256v1", True), ("X25519", "X25519", True), ("secp384r1", "prime256v1", False)
    ):  # fmt: skip
        server = broker[1]()
        server.set_ecdh_curve(there)
        if agreed:
            assert handshake(server, ssl_ca_location=ca, ssl_curves_list=name).version()
        else:
            with pytest.raises(ssl.SSLError):
                handshake(server, ssl_ca_location=ca, ssl_curves_list=name)


def test_another_name_is_refused_unless_names_do_not_count(authority: Authority, broker: Broker) -> None:
    ca = str(authority.folder / "ca.pem")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(broker[1](), "other.example.net", ssl_ca_location=ca)
    trusting = {"ssl_ca_location": ca, "ssl_endpoint_identification_algorithm": "none"}
    assert handshake(broker[1](), "other.example.net", **trusting).version()


@pytest.mark.parametrize("as_text", [(), ("certificate",), ("key",), ("certificate", "key")])
def test_a_client_certificate_comes_from_files_or_text(
    as_text: tuple[str, ...], authority: Authority, broker: Broker
) -> None:
    certificate, key = authority.sign("client")
    parts = {"certificate": certificate.public_bytes(serialization.Encoding.PEM), "key": _pem(key, "secret word")}
    given = {"ssl_ca_location": str(authority.folder / "ca.pem"), "ssl_key_password": "secret word"}
    for name, pem in parts.items():
        path = authority.folder / f"{name}.pem"
        path.write_bytes(pem)
        given |= {f"ssl_{name}_pem": pem.decode()} if name in as_text else {f"ssl_{name}_location": str(path)}
    server = broker[1]()
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(authority.folder / "ca.pem")
    met = handshake(server, **given).getpeercert()
    assert met is not None
    assert ("DNS", "client") in met["subjectAltName"]


@pytest.mark.parametrize("place", ["/no/such/file", "/" + "x" * 300], ids=["missing", "not even looked at"])
@pytest.mark.parametrize("setting", ["ssl.ca.location", "ssl.crl.location", "ssl.certificate.location"])
def test_a_file_that_is_not_there_is_named_with_its_setting(setting: str, place: str) -> None:
    """The system refuses a long name as it refuses the look into a folder of another user: by an error."""
    with pytest.raises(SettingError, match=f"{setting} names {place}, which cannot be read"):
        connection_settings({"security.protocol": "SSL", setting: place})


def test_a_certificate_that_was_renewed_counts_from_the_next_connection_on(
    authority: Authority, broker: Broker, tmp_path: Path
) -> None:
    server = broker[1]()
    server.load_verify_locations(authority.folder / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    client = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.folder / "ca.pem"),
        "ssl.certificate.location": str(tmp_path / "client.pem"),
        "ssl.key.location": str(tmp_path / "client.key"),
    }

    def renew(name: str, *, key_too: bool = True) -> None:
        certificate, key = authority.sign(name)
        (tmp_path / "client.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        if key_too:
            (tmp_path / "client.key").write_bytes(_pem(key))

    renew("first")
    tls = connection_settings(client).tls
    assert tls is not None
    for name, key_too, shown in (("first", True, "first"), ("second", False, "first"), ("third", True, "third")):
        renew(name, key_too=key_too)
        subject = agree(server, tls.context()).getpeercert() or {}
        assert ((("commonName", shown),),) == subject["subject"], "a certificate without its key is not taken yet"
