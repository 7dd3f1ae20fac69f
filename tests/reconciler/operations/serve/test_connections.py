"""A client that only opens connections to the live page, or drips a request, keeps no other out."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
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
from reconciler.operations.serve import connections
from reconciler.operations.serve import run as serving
from reconciler.operations.serve.connections import Access, CertificateFiles, PageCertificate, certificate_files
from reconciler.operations.serve.run import LiveApp, Renderer, ServeOptions, answering
from tests.support.access.certificates import self_signed
from tests.support.documents.live import seen_view, standings
from tests.support.waiting import until

WAIT_S = 30


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 5)
    monkeypatch.setattr(connections, "REQUEST_WITHIN_S", 0.4)


@contextmanager
def listening(tls: ssl.SSLContext | None = None, token: str = "", topics: int = 1) -> Iterator[int]:
    view = seen_view(topics)
    site = LiveApp(Renderer(lambda: view, standings, lambda: 1), threading.Event()).application(Access(token=token))
    with socket.create_server(("127.0.0.1", 0)) as listener, answering(site, listener, tls):
        yield listener.getsockname()[1]


def ends(connection: socket.socket) -> bool:
    connection.settimeout(WAIT_S)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def refuses(dripping: socket.socket) -> bool:
    """One more byte."""
    try:
        dripping.sendall(b"a")
    except ConnectionError:
        return True
    return False


def status(port: int, headers: dict[str, str] | None = None) -> int:
    """Of a request; 0 where the connection was ended instead."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request("GET", "/status.json", headers=headers or {})
        return connection.getresponse().status
    except (ConnectionError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def test_silent_connections_give_way() -> None:
    with listening() as port, ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S)) for _ in range(20)]
        assert all(map(ends, silent))
        assert status(port) == 200


def test_a_request_that_drips_is_ended() -> None:
    with listening() as port, socket.create_connection(("127.0.0.1", port), WAIT_S) as dripping:
        dripping.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        until(lambda: refuses(dripping), WAIT_S)
        assert status(port) == 200


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("size", ["Transfer-Encoding: chunked", "Content-Length: 999999999"])
def test_a_body_without_an_end_is_not_read(method: str, size: str) -> None:
    """Each of a few hundred would keep the page busy until it is ended by its age."""
    with listening(token="secret") as port, socket.create_connection(("127.0.0.1", port), WAIT_S) as endless:
        endless.sendall(f"{method} / HTTP/1.1\r\nHost: 127.0.0.1\r\n{size}\r\n\r\n".encode())
        assert endless.recv(10) == b"HTTP/1.1 4"
        piece = b"10000\r\n" + b"a" * 65536 + b"\r\n"
        with suppress(ConnectionError):
            for _ in range(1_000):
                endless.sendall(piece)
            pytest.fail("65 MB were read")
        assert status(port, TOKEN) == 200


TOKEN = {"Authorization": "Bearer secret"}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing ends by its age."""
    monkeypatch.setattr(connections, "REQUEST_WITHIN_S", 3600.0)


def kept(port: int, headers: dict[str, str]) -> http.client.HTTPConnection:
    """A connection that had an answer, and stays."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    connection.request("GET", "/status.json", headers=headers)
    answer = connection.getresponse()
    assert (answer.status, bool(answer.read())) == (200, True)
    return connection


def flood(port: int, stop: threading.Event) -> None:
    """Opens connections, again and again, and sends nothing or the beginning of a request."""
    opened: list[socket.socket] = []
    while not stop.is_set():
        with suppress(OSError):
            opened.append(socket.create_connection(("127.0.0.1", port), WAIT_S))
            opened[-1].sendall(b"GET / HT"[: 8 * (len(opened) % 2)])
        if len(opened) > 420:
            opened.pop(0).close()
    for one in opened:
        one.close()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("token", ["", "secret"])
def test_who_opens_connections_again_and_again_keeps_no_one_out(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 400)
    with listening(token=token) as port, ExitStack() as stack:
        stop = threading.Event()
        crowd = [threading.Thread(target=flood, args=(port, stop)) for _ in range(2)]
        for one in crowd:
            stack.callback(one.join)
            one.start()
        stack.callback(stop.set)
        assert [status(port, TOKEN) for _ in range(40)].count(200) >= 36


@pytest.mark.usefixtures("patient")
def test_the_oldest_that_says_nothing_gives_way_to_the_newest() -> None:
    with listening() as port, ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S)) for _ in range(5)]
        assert ends(silent[0])
        assert status(port) == 200
        silent[-1].sendall(b"GET /status.json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert silent[-1].recv(12) == b"HTTP/1.1 200"


@pytest.mark.usefixtures("patient")
def test_who_had_the_token_stays_anyone_who_else_comes() -> None:
    with listening(token="secret") as port, ExitStack() as stack:
        known = kept(port, TOKEN)
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S)) for _ in range(20)]
        assert all(map(ends, silent[:15]))
        known.request("GET", "/status.json", headers=TOKEN)
        assert known.getresponse().status == 200
        known.close()


@pytest.mark.usefixtures("patient")
def test_a_wrong_token_gives_no_place() -> None:
    with listening(token="secret") as port, ExitStack() as stack:
        refused = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        refused.request("GET", "/status.json", headers={"Authorization": "Bearer guess"})
        answer = refused.getresponse()
        assert (answer.status, bool(answer.read())) == (401, True)
        for _ in range(5):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S))
        assert refused.sock is None or ends(refused.sock)


@pytest.mark.usefixtures("patient")
def test_handshakes_that_do_not_end_have_places_too() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with listening(context) as port, ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S)) for _ in range(12)]
        assert all(map(ends, silent[:8]))


def test_who_does_not_read_an_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "READ_WITHIN_S", 0.4)
    with listening(topics=3000) as port, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(WAIT_S)
        slow.connect(("127.0.0.1", port))
        slow.sendall(b"GET /status.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 400)
        until(lambda: refuses(slow), WAIT_S)
        assert status(port) == 200


def test_the_oldest_stream_gives_way_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 40)
    monkeypatch.setattr(serving, "MOST_STREAMS", 3)
    monkeypatch.setattr(serving, "EVERY_SECONDS", 0.05)
    with listening() as port:
        asked = [http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S) for _ in range(5)]
        streams = []
        for connection in asked:
            connection.request("GET", "/events/")
            streams.append(connection.getresponse())
            assert streams[-1].readline() == b"retry: 2000\n"
        assert all(b"event: parts" in stream.read() for stream in streams[:2])  # to their ends
        assert all(b"event: parts" in stream.readline() + stream.readline() for stream in streams[2:])
        for connection in asked:
            connection.close()


def test_a_stream_continues_for_longer_than_a_request_may_take() -> None:
    with listening() as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        connection.request("GET", "/events/")
        stream = connection.getresponse()
        time.sleep(4 * connections.REQUEST_WITHIN_S)
        assert stream.readline() == b"retry: 2000\n"
        assert stream.readline() == b"\n"
        assert stream.readline() == b"event: parts\n"
        connection.close()


def test_a_handshake_that_does_not_end_is_ended() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with listening(context) as port, socket.create_connection(("127.0.0.1", port), WAIT_S) as silent:
        assert ends(silent)


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


def test_files_that_cannot_be_used_are_reported_before_anything_is_read(tmp_path: Path) -> None:
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
