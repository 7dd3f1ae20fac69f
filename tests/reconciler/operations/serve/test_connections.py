"""Who only opens connections to the live page, or drips a request, keeps nobody out."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from reconciler.operations.serve import connections
from reconciler.operations.serve.access import Access
from reconciler.operations.serve.app import LiveApp, Renderer
from reconciler.operations.serve.run import answering
from tests.support.documents.live import seen_view, standings
from tests.support.waiting import until

WAIT_S = 30


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 5)
    monkeypatch.setattr(connections, "REQUEST_WITHIN_S", 0.4)


@contextmanager
def listening(tls: ssl.SSLContext | None = None) -> Iterator[int]:
    view = seen_view(1)
    app = LiveApp(Renderer(lambda: view, standings, lambda: 1), threading.Event()).application(Access())
    with socket.create_server(("127.0.0.1", 0)) as listener, answering(app, listener, tls):
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


def status(port: int) -> int:
    """Of a request; 0 where the connection was ended instead."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request("GET", "/status.json")
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


def test_one_that_is_too_many_is_ended_at_once_and_those_before_it_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "REQUEST_WITHIN_S", 3600.0)
    with listening() as port, ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S)) for _ in range(5)]
        assert status(port) == 0
        silent[0].sendall(b"GET /status.json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert silent[0].recv(12) == b"HTTP/1.1 200"
        silent[0].close()


def test_a_stream_goes_on_for_longer_than_a_request_may_take() -> None:
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
