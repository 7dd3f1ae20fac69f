"""Connecting to one of several addresses."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from types import SimpleNamespace

import pytest

from reconciler.kafka.client.auth import oauth
from reconciler.kafka.client.auth.settings import ConnectionSettings, connection_settings
from reconciler.kafka.client.buffers import BufferPool
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.connections import SILENCE_SECONDS, connect_first
from reconciler.kafka.client.errors import ConnectionLostError

PATIENT, HASTY = (connection_settings({"socket.connection.setup.timeout.ms": ms}) for ms in ("60000", "1000"))
Address = tuple[str, int]


@pytest.fixture
def silent() -> Iterator[Address]:
    """Accepts connections, as the kernel does for a frozen broker, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()


@pytest.fixture
def refusing() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address: Address = listening.getsockname()
    return address


def test_the_next_address_is_tried_beside_one_that_is_silent(
    silent: Address, refusing: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def versions(connection: Connection, *_: object) -> SimpleNamespace:
        if f":{silent[1]}" in connection.where:
            await asyncio.sleep(3600)
        return SimpleNamespace(throttle=0, error=0, versions={}, features={})

    monkeypatch.setattr(Connection, "ask", versions)

    async def run() -> float:
        with socket.create_server(("127.0.0.1", 0)) as answering:
            began = time.monotonic()
            connection = await connect_first((silent, refusing, answering.getsockname()), PATIENT, BufferPool())
            took = time.monotonic() - began
            assert f":{answering.getsockname()[1]}" in connection.where
            connection.close()
            assert [task for task in asyncio.all_tasks() if "connect" in repr(task.get_coro())] == []
            return took

    took = asyncio.run(run())
    assert SILENCE_SECONDS <= took < PATIENT.connect_timeout


def test_the_last_that_failed_is_named(refusing: Address, silent: Address) -> None:
    with pytest.raises(ConnectionLostError, match="within 1 s"):
        asyncio.run(connect_first((refusing, silent), HASTY, BufferPool()))
    with pytest.raises(ConnectionLostError, match="Connection refused"):
        asyncio.run(connect_first((refusing,), PATIENT, BufferPool()))


class Endpoint:
    """Of a token provider, silent until it is opened."""

    opened = threading.Event()


def silent_provider(_: Mapping[str, str]) -> tuple[str, float]:
    Endpoint.opened.wait(30)
    return "late", time.time() + 60


def provider(_: Mapping[str, str]) -> tuple[str, float]:
    return "token", time.time() + 60


def test_a_token_endpoint_that_is_silent_stops_no_login_to_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each connection of each lane asks for its token, and waits."""
    monkeypatch.setattr(oauth, "_kept", {})

    async def versions(*_: object) -> SimpleNamespace:
        return SimpleNamespace(throttle=0, error=0, versions={17: 1, 36: 2}, features={})

    async def takes_it(*_: object) -> SimpleNamespace:
        return SimpleNamespace(error_code=0, auth_bytes=b"", session_lifetime_ms=0)

    monkeypatch.setattr(Connection, "ask", versions)
    monkeypatch.setattr(Connection, "call", takes_it)
    monkeypatch.setattr(Connection, "version", lambda *_: 2)

    def by(function: str) -> ConnectionSettings:
        method = {"sasl.oauthbearer.method": f"{__name__}:{function}"}
        return connection_settings({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **method})

    plain = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
    others = (by("provider"), connection_settings({"security.protocol": "SASL_PLAINTEXT", **plain}))

    async def run() -> float:
        with socket.create_server(("127.0.0.1", 0), backlog=50) as answering:
            at = [answering.getsockname()]
            waiting = [asyncio.create_task(connect_first(at, by("silent_provider"), BufferPool())) for _ in range(20)]
            await asyncio.sleep(0.3)
            began = time.monotonic()
            for settings in others:
                (await connect_first(at, settings, BufferPool())).close()
            took = time.monotonic() - began
            assert [task for task in waiting if task.done()] == []
            Endpoint.opened.set()
            for connection in await asyncio.gather(*waiting):
                connection.close()
            return took

    assert asyncio.run(run()) < 3
