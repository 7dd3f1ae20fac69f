"""The control channel towards whoever does not know its token."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from reconciler_mirror.leases import channel
from reconciler_mirror.leases.channel import GREETING_BYTES, ChannelServer

from tests.support.waiting import until


@pytest.fixture
def server() -> Iterator[ChannelServer]:
    made = ChannelServer("127.0.0.1", lambda lease: {"lease": lease}, lambda _lease, _message: None)
    yield made
    made.close()


def opened(server: ChannelServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), 10.0)


def answer(server: ChannelServer, line: bytes) -> bytes:
    """Empty: the line was closed."""
    with opened(server) as stranger:
        try:
            stranger.sendall(line)
            return stranger.recv(100)
        except OSError:
            return b""


def greeting(token: str) -> bytes:
    return json.dumps({"lease": "l", "token": token}, ensure_ascii=False).encode() + b"\n"


@pytest.mark.parametrize(
    "line",
    [
        greeting("wrong"),
        greeting("t\u00f6ken"),
        b'{"token": "\\ud800"}\n',
        b"[" * 4000 + b"\n",
        b"x" * (2 * GREETING_BYTES),
    ],
)
def test_a_stranger_is_sent_away(line: bytes, server: ChannelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    assert answer(server, line) == b""
    assert answer(server, greeting(server.token)) != b""
    assert failed == []


def test_only_so_many_strangers_wait_and_they_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "GREETINGS", 3)
    monkeypatch.setattr(channel, "_CONNECT_S", 600.0)
    server = ChannelServer("127.0.0.1", lambda lease: {"lease": lease}, lambda _lease, _message: None)
    with ExitStack() as held:
        held.callback(server.close)
        strangers = [held.enter_context(opened(server)) for _ in range(3)]
        assert answer(server, greeting(server.token)) == b""
        strangers[0].close()
        until(lambda: answer(server, greeting(server.token)).startswith(b'{"lease":"l"}'), 60.0)
