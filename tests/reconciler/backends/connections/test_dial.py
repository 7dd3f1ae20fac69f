"""The reason for refusing a certificate is reported: librdkafka has one word for all reasons, doctor and plan must
not."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from reconciler.backends.connections.dial import dial, unexpected_tls
from reconciler.backends.connections.requests import Requests
from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Cluster, Principal

DAY = datetime.timedelta(days=1)


def pem(key: ec.EllipticCurvePrivateKey, password: bytes = b"") -> bytes:
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)


class Files:
    """Certificates of two authorities, ``ca`` and ``other``, below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("ca", "other")}
        for name in self.keys:
            self.issue(name, name, name, days=9)

    def issue(self, file: str, name: str, by: str, days: int) -> str:
        """A certificate that ends ``days`` from now, with its key in the same file."""
        now = datetime.datetime.now(datetime.UTC)
        key = self.keys.get(file) or ec.generate_private_key(ec.SECP256R1())
        made = x509.CertificateBuilder().public_key(key.public_key()).serial_number(x509.random_serial_number())
        made = made.subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        made = made.issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, by)]))
        made = made.not_valid_before(now - 10 * DAY).not_valid_after(now + days * DAY)
        made = made.add_extension(x509.BasicConstraints(ca=file in self.keys, path_length=None), critical=True)
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        found = made.sign(self.keys[by], hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        (self.folder / f"{file}.pem").write_bytes(found if file in self.keys else found + pem(key))
        return str(self.folder / f"{file}.pem")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


@contextmanager
def listening(
    certificate: str, latest: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED, clients: str = ""
) -> Iterator[str]:
    """A server that shakes hands and says nothing; its address. ``clients``: the authority of theirs, where they have
    to show a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.maximum_version = latest
    if clients:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    plain = server.accept()[0]
                except OSError:
                    return
                try:
                    held.append(context.wrap_socket(plain, server_side=True))
                except OSError:
                    plain.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"localhost:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)
    for one in held:
        one.close()


CASES = [
    ("elsewhere", "ca", 9, "the broker's certificate is for elsewhere, and not for localhost"),
    ("localhost", "ca", -1, "has expired"),
    ("localhost", "other", 9, "of an authority that is not trusted here"),
]


@pytest.mark.parametrize(("name", "by", "days", "why"), CASES)
def test_what_is_wrong_with_a_certificate_is_reported_by_doctor_and_by_plan(
    files: Files, name: str, by: str, days: int, why: str
) -> None:
    settings = {"security.protocol": "SSL", "ssl.ca.location": str(files.folder / "ca.pem")}
    with listening(files.issue("broker", name, by, days)) as server:
        assert why in dial(server, settings, settings).error
        with (
            pytest.raises(ClusterError) as caught,
            Requests(Cluster("east", (server,), client=settings), Principal.PLAN),
        ):
            pass
    assert caught.value.kind == "authentication"
    assert f"{server}: TLS failed: " in caught.value.why
    assert why in caught.value.why


@pytest.mark.parametrize(("protocol", "right"), [("PLAINTEXT", "SSL"), ("sasl_plaintext", "SASL_SSL")])
def test_a_port_that_speaks_tls_is_named_to_who_does_not(files: Files, protocol: str, right: str) -> None:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"} if "sasl" in protocol else {}
    settings = {"security.protocol": protocol, **login}
    with listening(files.issue("broker", "localhost", "ca", 9)) as server:
        why = unreachable_because(server, settings)
    assert f"{server} speaks TLS, and security.protocol is {protocol.upper()}, which does not: {right} does" in why


def test_a_port_that_only_closes_is_not_said_to_speak_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=closing_all, args=(server,), daemon=True).start()
        address = f"localhost:{server.getsockname()[1]}"
        assert not unexpected_tls([address], {})
        assert not unexpected_tls([address], {"security.protocol": "sasl_ssl"}), "who speaks TLS need not be told"
        server.shutdown(socket.SHUT_RDWR)


def closing_all(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            server.accept()[0].close()


def unreachable_because(server: str, settings: dict[str, str]) -> str:
    with pytest.raises(ClusterError) as caught, Requests(Cluster("east", (server,), client=settings), Principal.PLAN):
        pass
    assert caught.value.kind == "unreachable"
    return caught.value.why


@pytest.mark.parametrize("latest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_certificate_that_the_broker_refuses_is_a_login_that_failed(
    files: Files, latest: ssl.TLSVersion
) -> None:
    """From TLS 1.3 on brokers say so after the handshake, which could pass for a connection that broke."""
    settings = {"security.protocol": "SSL", "ssl.ca.location": str(files.folder / "ca.pem")}
    with (
        listening(files.issue("broker", "localhost", "ca", 9), latest, str(files.folder / "ca.pem")) as server,
        pytest.raises(ClusterError) as caught,
        Requests(Cluster("east", (server,), client=settings), Principal.PLAN),
    ):
        pass
    assert caught.value.kind == "authentication", caught.value.why


def test_a_good_certificate_is_reported_with_its_names(files: Files) -> None:
    settings = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(files.folder / "ca.pem")}
    with listening(files.issue("broker", "localhost", "ca", 9)) as server:
        found = dial(server, settings, settings)
    assert not found.error
    assert found.certificate is not None
    assert found.certificate.names == ("localhost",)


def test_authorities_in_a_folder_and_in_the_settings_are_read(files: Files, tmp_path: Path) -> None:
    """As librdkafka reads them; doctor called both no connection."""
    text = (files.folder / "ca.pem").read_text()
    for settings in ({"ssl.ca.pem": text}, {"enable.ssl.certificate.verification": "false"}):
        with listening(files.issue("broker", "localhost", "ca", 9)) as server:
            assert not dial(server, {"security.protocol": "ssl", **settings}, settings).error


@pytest.mark.timeout(60)
def test_a_key_that_is_locked_or_of_another_certificate_is_reported_and_asked_of_no_one(files: Files) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    (files.folder / "other.key").write_bytes(pem(key))
    (files.folder / "locked.key").write_bytes(pem(key, b"hunter2"))
    mine = files.issue("mine", "me", "ca", 9)
    for name, why in (("other.key", "mismatch"), ("locked.key", "TLS settings cannot be used")):
        place = str(files.folder / name)
        settings = {"security.protocol": "SSL", "ssl.certificate.location": mine, "ssl.key.location": place}
        assert why in dial("localhost:1", settings, settings).error.replace("MISMATCH", "mismatch")
