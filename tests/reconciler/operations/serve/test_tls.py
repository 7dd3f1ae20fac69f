"""TLS of the live page: what a client sees on a real socket, and files that cannot be used."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_der_private_key,
)

from reconciler.errors import ReconcilerError
from reconciler.operations.serve.app import LiveApp, Renderer
from reconciler.operations.serve.run import ServeOptions, answering
from reconciler.operations.serve.tls import CertificateFiles, PageCertificate, certificate_files
from tests.support.access.certificates import self_signed
from tests.support.documents.live import seen_view, standings


def written(folder: Path, name: str = "page", times: int = 0) -> tuple[CertificateFiles, str]:
    """The files, and the certificate's digest. ``times`` sets their time of writing apart from earlier ones."""
    key, certificate = self_signed(name)
    files = CertificateFiles(folder / "page.crt", folder / "page.key")
    files.key.write_text(ssl.DER_cert_to_PEM_cert(key).replace("CERTIFICATE", "PRIVATE KEY"))
    files.certificate.write_text(ssl.DER_cert_to_PEM_cert(certificate))
    for path in (files.key, files.certificate):
        os.utime(path, ns=(times + 1, times + 1))
    return files, sha256(certificate).hexdigest()


def shown(port: int, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> str:
    """The digest of the certificate that a client gets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = version
    with socket.create_connection(("127.0.0.1", port), 30) as plain, context.wrap_socket(plain) as connection:
        connection.sendall(b"GET /status.json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
        certificate = connection.getpeercert(binary_form=True)
        assert certificate is not None
        return sha256(certificate).hexdigest()


def without_tls(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 30) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        try:
            return plain.recv(100)
        except ConnectionError:
            return b""


def test_it_is_answered_over_tls_and_a_renewed_certificate_is_shown_to_the_next_one(tmp_path: Path) -> None:
    files, first = written(tmp_path)
    told: list[str] = []
    certificate = PageCertificate(files, told.append)
    view = seen_view(1)
    app = LiveApp(Renderer(lambda: view, standings, lambda: 1), threading.Event())
    application = app.application(ServeOptions(tls=files).access())
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        answering(application, listener, certificate.context),
    ):
        port = listener.getsockname()[1]
        assert shown(port) == first
        assert shown(port, ssl.TLSVersion.TLSv1_2) == first
        assert not without_tls(port).startswith(b"HTTP"), "nothing is answered without TLS"
        _, second = written(tmp_path, "renewed", times=1_000)
        certificate.renew()
        assert shown(port) == second != first
        files.key.write_text("half written")
        certificate.renew()
        certificate.renew()
        assert shown(port) == second
    assert len(told) == 1
    assert "the renewed certificate is not used" in told[0]


def test_files_that_cannot_be_used_are_told_before_anything_is_read(tmp_path: Path) -> None:
    files, _ = written(tmp_path)
    with pytest.raises(ReconcilerError, match=r"missing\.crt"):
        PageCertificate(CertificateFiles(tmp_path / "missing.crt", files.key), print)
    with pytest.raises(ReconcilerError, match="cannot be used"):
        PageCertificate(CertificateFiles(files.key, files.certificate), print)
    files.key.write_bytes(
        load_der_private_key(self_signed()[0], None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"pw")
        )
    )
    with pytest.raises(ReconcilerError, match="not encrypted"):
        PageCertificate(files, print)


def test_a_certificate_and_its_key_come_together(tmp_path: Path) -> None:
    assert certificate_files(None, None) is None
    with pytest.raises(ReconcilerError, match="--tls-key is given alone"):
        certificate_files(None, tmp_path)
    with pytest.raises(ReconcilerError, match="--tls-cert is given alone"):
        certificate_files(tmp_path, None)


def test_beyond_loopback_no_option_leaves_the_token_out(tmp_path: Path) -> None:
    files, _ = written(tmp_path)
    for tls in (None, files):
        assert ServeOptions(bind="0.0.0.0", token=False, tls=tls).access().token
        assert not ServeOptions(tls=tls).access().token
    assert ServeOptions(tls=files).access().encrypted
