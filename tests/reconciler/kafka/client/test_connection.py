"""A connection against a broker that misbehaves: whatever comes back, it is an error or the right answer."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.metadata import ApiVersionsRequest

from reconciler.kafka.client.auth.settings import ConnectionSettings, SaslSettings
from reconciler.kafka.client.buffers import BufferPool, Spares
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.connections import connect
from reconciler.kafka.client.errors import AuthenticationFailedError, ConnectionLostError, UnsupportedBrokerError
from reconciler.kafka.client.frames import POOLED_FROM
from tests.support.lanes.frames import framed, versions_answer

T = TypeVar("T")
Answer = Callable[[int, bytes], bytes]
PATIENT = ConnectionSettings(connect_timeout=60, request_timeout=60)


async def _with_broker(answer: Answer, use: Callable[[tuple[str, int]], Awaitable[T]]) -> T:
    """``answer`` is given the api key and the frame after ApiVersions, and returns raw bytes."""
    handlers: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                request = await reader.readexactly(size)
                key, _, correlation = struct.unpack_from(">hhi", request)
                writer.write(framed(versions_answer(correlation)) if key == 18 else answer(key, request))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def started(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.add(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(started, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()[:2]
        return await use((host, port))
    finally:
        server.close()
        for handler in handlers:
            handler.cancel()


def talk(answer: Answer, use: Callable[[Connection], Awaitable[T]], settings: ConnectionSettings = PATIENT) -> T:
    async def connected(address: tuple[str, int]) -> T:
        connection = await connect(address, settings, BufferPool())
        try:
            return await use(connection)
        finally:
            connection.close()

    return asyncio.run(_with_broker(answer, connected))


def correlation_of(request: bytes) -> int:
    return int(struct.unpack_from(">i", request, 4)[0])


def echo(_: int, request: bytes) -> bytes:
    return framed(struct.pack(">i", correlation_of(request)) + request)


def test_answers_come_back_in_order_of_pipelined_requests() -> None:
    async def use(connection: Connection) -> list[bytes]:
        sent = [connection.send((0, 8, False), [b"request %d" % i, b"!" * i]) for i in range(50)]
        return [bytes((await future).body) for future in sent]

    bodies = talk(echo, use)
    assert [body.rpartition(b"request ")[2] for body in bodies] == [b"%d" % i + b"!" * i for i in range(50)]


@pytest.mark.parametrize("size", [0, 1, POOLED_FROM, 3_000_000])
def test_big_requests_and_answers_arrive_whole(size: int) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)

    async def use(connection: Connection) -> bytes:
        frame = await connection.send((0, 8, False), [payload[i : i + 70_000] for i in range(0, len(payload), 70_000)])
        return bytes(frame.body)

    assert talk(echo, use).endswith(payload)


def test_a_pooled_buffer_is_given_back_once() -> None:
    async def use(connection: Connection) -> None:
        frame = await connection.send((0, 8, False), [b"x" * POOLED_FROM])
        assert frame.buffer is not None
        frame.buffer.hold()
        frame.buffer.release()
        frame.buffer.release()
        with pytest.raises(AssertionError):
            frame.buffer.release()

    talk(echo, use)


@pytest.mark.parametrize(
    "answer",
    [
        lambda key, request: framed(struct.pack(">i", correlation_of(request) + 1) + b"x"),
        lambda key, request: struct.pack(">i", -5),
        lambda key, request: struct.pack(">i", 2**31 - 1),
        lambda key, request: struct.pack(">i", 3) + b"abc",
        lambda key, request: framed(struct.pack(">i", correlation_of(request))) * 2 + b"",
    ],
    ids=["foreign correlation id", "negative size", "absurd size", "too short", "one answer too many"],
)
def test_a_broken_answer_ends_the_connection(answer: Answer) -> None:
    async def use(connection: Connection) -> Exception | None:
        for _ in range(2):
            try:
                await connection.send((0, 8, False), [b"a"])
            except Exception as error:  # noqa: BLE001 - the test looks at it
                return error
        return None

    error = talk(answer, use)
    assert error is not None
    assert "broker 127.0.0.1" in str(error) or "closed" in str(error)


def test_a_broker_that_hangs_up_in_the_middle_of_an_answer() -> None:
    async def use(address: tuple[str, int]) -> None:
        connection = await connect(address, PATIENT, BufferPool())
        first, second = (connection.send((0, 8, False), [b"a"]) for _ in range(2))
        connection._loop.call_later(0.2, connection._sock.shutdown, 2)
        for future in (first, second):
            with pytest.raises(ConnectionLostError):
                await future
        with pytest.raises(ConnectionLostError):
            await connection.send((0, 8, False), [b"a"])

    asyncio.run(_with_broker(lambda key, request: struct.pack(">i", 100) + b"half", use))


def test_silence_is_not_waited_for_ever() -> None:
    async def use(connection: Connection) -> None:
        with pytest.raises(ConnectionLostError, match="in time"):
            await connection.send((0, 8, False), [b"a"], 0.3)

    talk(lambda key, request: b"", use)


def test_a_throttled_connection_keeps_silent() -> None:
    async def use(connection: Connection) -> float:
        connection.throttle(300)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await connection.call(ApiVersionsRequest(client_software_name="t", client_software_version="1", version=3))
        return loop.time() - began

    assert talk(echo, use) >= 0.29


def test_a_throttle_of_hours_is_a_damaged_answer_and_not_obeyed() -> None:
    """A flipped bit made a lane wait for 67,108 s."""

    async def use(connection: Connection) -> float:
        connection.throttle(1 << 26)
        return connection.throttled_until - time.monotonic()

    assert 30 < talk(echo, use) <= 60


def test_versions_that_do_not_meet_are_reported() -> None:
    async def use(connection: Connection) -> None:
        connection.versions[1] = (0, 9)
        with pytest.raises(UnsupportedBrokerError, match="Fetch 0 to 9"):
            connection.negotiated(1, 11, 13, "Fetch")

    talk(echo, use)


def test_a_mechanism_the_broker_does_not_offer() -> None:
    def answer(key: int, request: bytes) -> bytes:
        assert key == 17
        offered = struct.pack(">ihi", correlation_of(request), 33, 1) + struct.pack(">h", 5) + b"PLAIN"
        return framed(offered)

    async def use(_: Connection) -> None: ...

    settings = ConnectionSettings(sasl=SaslSettings("SCRAM-SHA-512", "u", "p"), connect_timeout=60)
    with pytest.raises(AuthenticationFailedError, match="it offers PLAIN"):
        talk(answer, use, settings)


def test_no_one_listens() -> None:
    async def use() -> None:
        with pytest.raises(ConnectionLostError, match="no connection to"):
            await connect(("127.0.0.1", 1), PATIENT, BufferPool())

    asyncio.run(use())


def test_buffers_are_used_again_and_counted() -> None:
    spares = Spares(keep=1 << 20)
    pool, neighbour = BufferPool(spares), BufferPool(spares)
    first = pool.take(300_000)
    assert len(first.data) >= 300_000
    assert pool.held == len(first.data) < 400_000
    first.release()
    assert (pool.held, neighbour.held) == (0, 0)
    assert neighbour.take(290_000).data is first.data
    assert neighbour.held == len(first.data)


@given(st.lists(st.tuples(st.integers(1, 3_000_000), st.booleans()), max_size=60))
def test_a_buffer_is_never_in_two_hands(steps: list[tuple[int, bool]]) -> None:
    pool, held = BufferPool(Spares(keep=4 << 20)), []
    for size, give_back in steps:
        held.append(pool.take(size))
        assert len(held[-1].data) >= size
        assert len({id(buffer.data) for buffer in held}) == len(held)
        if give_back:
            held.pop(0).release()
    assert pool.held == sum(len(buffer.data) for buffer in held)
