"""The control channel towards whoever does not know its token; where it listens; TLS with the driver's certificate."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from reconciler_mirror.leases import channel, channel_listener
from reconciler_mirror.leases.channel import GREETING_BYTES, ChannelClient, ChannelServer
from reconciler_mirror.leases.channel_listener import ServerIdentity, listen_for_tasks, open_listener

from reconciler.replication.handover import ChannelSettings, HandoverError
from tests.support.access.certificates import self_signed
from tests.support.jobs.loopback import loopback_listener
from tests.support.waiting import until

ANY = ChannelSettings()


@pytest.fixture(scope="module")
def identity() -> ServerIdentity:
    return ServerIdentity(*self_signed())


@pytest.fixture
def server() -> Iterator[ChannelServer]:
    server = ChannelServer(loopback_listener(), lambda lease: {"lease": lease}, lambda _lease, _message: None)
    yield server
    server.close()


def opened(server: ChannelServer) -> socket.socket:
    return socket.create_connection(server.address, 60.0)


def answer(server: ChannelServer, line: bytes) -> bytes:
    """Empty: the line was closed."""
    with opened(server) as stranger:
        try:
            stranger.sendall(line)
            return stranger.recv(100)
        except OSError:
            return b""


def greeting(token: str) -> bytes:
    return f"{token} l\n".encode()


@pytest.mark.parametrize(
    "line",
    [
        greeting("wrong"),
        greeting("t\u00f6ken"),
        b"\n",
        json.dumps({"lease": "l", "token": "guessed"}).encode() + b"\n",
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


def test_nothing_is_parsed_before_the_token(server: ChannelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def parsed(_: Any) -> None:
        pytest.fail("a stranger's line was parsed")

    monkeypatch.setattr(json, "loads", parsed)
    assert answer(server, json.dumps({"token": server.token}).encode() + b"\n") == b""


def test_only_so_many_strangers_wait_and_they_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "GREETINGS", 3)
    monkeypatch.setattr(channel, "_CONNECT_S", 600.0)
    server = ChannelServer(loopback_listener(), lambda lease: {"lease": lease}, lambda _lease, _message: None)
    with ExitStack() as held:
        held.callback(server.close)
        strangers = [held.enter_context(opened(server)) for _ in range(3)]
        assert answer(server, greeting(server.token)) == b""
        strangers[0].close()
        until(lambda: answer(server, greeting(server.token)).startswith(b'{"lease":"l"}'), 60.0)


def test_a_stranger_who_sends_byte_after_byte_is_closed_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit for each read alone would let 256 of them keep every task out for hours."""
    monkeypatch.setattr(channel, "_CONNECT_S", 0.3)
    server = ChannelServer(loopback_listener(), lambda _: None, lambda _lease, _message: None)
    with ExitStack() as held:
        held.callback(server.close)
        stranger = held.enter_context(opened(server))
        stranger.settimeout(0.05)

        def closed() -> bool:
            try:
                stranger.sendall(b"x")
                return stranger.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        until(closed, 60.0)


# TLS


def encrypted(identity: ServerIdentity, heard: list[Any]) -> ChannelServer:
    listener = open_listener(ANY, "127.0.0.1", "127.0.0.1", identity)
    return ChannelServer(listener, lambda lease: {"lease": lease}, lambda lease, message: heard.append(message))


def test_beyond_loopback_lines_travel_in_tls_with_the_certificate_that_tasks_get(identity: ServerIdentity) -> None:
    heard: list[Any] = []
    orders: list[Any] = []
    server = encrypted(identity, heard)
    client = ChannelClient(server.address, server.token, "0.1", orders.append)
    large = {"progress": "x" * 300_000}
    try:
        until(lambda: orders == [{"lease": "0.1"}], 60.0)
        senders = [threading.Thread(target=client.send, args=(large,)) for _ in range(4)]
        for sender in senders:
            sender.start()
        for _ in range(20):
            server.send("0.1", large)
        until(lambda: len(heard) == 4 and len(orders) == 21, 60.0)
        assert heard == [large] * 4
        assert orders[1:] == [large] * 20
    finally:
        client.close()
        server.close()


def test_a_task_says_nothing_to_a_driver_with_another_certificate(identity: ServerIdentity) -> None:
    heard: list[Any] = []
    orders: list[Any] = []
    impostor = encrypted(ServerIdentity(*self_signed()), heard)
    client = ChannelClient(impostor.address, f"{identity.pin}:{impostor.token}", "0.1", orders.append)
    client.send({"alive": []})
    client.close()
    impostor.close()
    assert (heard, orders) == ([], [])


def test_a_task_says_nothing_to_a_driver_without_tls(identity: ServerIdentity) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        said: list[bytes] = []

        def plain_driver() -> None:
            connection, _ = listening.accept()
            with connection:
                said.append(connection.recv(4096))
                connection.sendall(b'{"over":true}\n')

        thread = threading.Thread(target=plain_driver)
        thread.start()
        ChannelClient(listening.getsockname(), f"{identity.pin}:c0ffee", "0.1", lambda _: None)
        thread.join(60.0)
    assert said
    assert b"c0ffee" not in said[0]


def test_the_token_in_clear_is_no_way_in(identity: ServerIdentity) -> None:
    server = encrypted(identity, [])
    secret = server.token.rpartition(":")[2]
    assert answer(server, greeting(secret)).find(b"lease") == -1
    older = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    older.check_hostname, older.verify_mode = False, ssl.CERT_NONE
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    with opened(server) as stranger, pytest.raises(OSError, match=r"(?i)ssl|reset|closed|eof"):
        older.wrap_socket(stranger)
    server.close()


# where it listens


class Spark:
    """The context of a driver on a cluster."""

    _jvm = None

    def __init__(self, **conf: str) -> None:
        self._conf = conf

    def getConf(self) -> Any:  # noqa: N802 - Spark's name
        return SimpleNamespace(get=self._conf.get)


@pytest.mark.parametrize(
    ("settings", "conf", "bound", "told"),
    [
        (ChannelSettings(), {"spark.driver.bindAddress": "0.0.0.0"}, "0.0.0.0", "driver.example.net"),
        (ChannelSettings(bind_address="127.0.0.1"), {}, "127.0.0.1", "driver.example.net"),
        (ChannelSettings("127.0.0.1", "203.0.113.7"), {"spark.driver.bindAddress": "0"}, "127.0.0.1", "203.0.113.7"),
    ],
)
def test_what_is_bound_is_apart_from_what_tasks_get(
    settings: ChannelSettings, conf: dict[str, str], bound: str, told: str,
    identity: ServerIdentity, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Behind NAT or a service name no address of the machine is the one that executors know."""
    monkeypatch.setattr(channel_listener, "made_by_java", lambda _: identity)
    listener = listen_for_tasks(settings, "driver.example.net", Spark(**conf))
    with listener.socket:
        assert (listener.socket.getsockname()[0], listener.advertised) == (bound, told)
        assert listener.pin == identity.pin, "a cluster has TLS"


def test_with_a_local_master_it_is_plain_and_on_loopback() -> None:
    listener = listen_for_tasks(None, "127.0.0.1", None)
    with listener.socket:
        assert (listener.socket.getsockname()[0], listener.advertised, listener.tls) == ("127.0.0.1", "127.0.0.1", None)


def test_an_address_of_another_machine_is_named_with_what_tasks_get() -> None:
    with pytest.raises(HandoverError) as caught:
        open_listener(ANY, "203.0.113.7", "driver.example.net", None)
    assert "'203.0.113.7' (tasks get 'driver.example.net')" in str(caught.value)
    assert "channel.bind_address" in str(caught.value)


def test_the_first_free_port_of_the_range_is_taken_and_a_full_range_is_named() -> None:
    with ExitStack() as held:
        first, second = _neighbours()
        settings = ChannelSettings("127.0.0.1", "driver.example.net", first, second)
        held.enter_context(socket.create_server(("127.0.0.1", first)))
        listener = open_listener(settings, "127.0.0.1", "driver.example.net", None)
        held.enter_context(listener.socket)
        assert listener.socket.getsockname()[1] == second
        with pytest.raises(HandoverError) as caught:
            open_listener(settings, "127.0.0.1", "driver.example.net", None)
    for value in ("'127.0.0.1'", "'driver.example.net'", f"{first}-{second}", "channel.ports"):
        assert value in str(caught.value)


def _neighbours() -> tuple[int, int]:
    """Two ports in a row that are free."""
    for _ in range(100):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            first = int(probe.getsockname()[1])
            try:
                socket.create_server(("127.0.0.1", first + 1)).close()
            except OSError:
                continue
        return first, first + 1
    pytest.fail("this machine has no two free ports in a row")
