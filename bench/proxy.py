"""A long line to one broker, on loopback: so many milliseconds each way at so many bits a second.

``python -m bench.proxy LISTEN_PORT BROKER_PORT DELAY_MS MEGABITS`` runs until its standard input ends. Clients meet the
broker only through it: in answers that name brokers (Metadata, FindCoordinator, DescribeCluster) the broker's port is
replaced by the proxy's. Each connection has its own line, as a long path has for one TCP flow with ample windows.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from bench.figures import BenchError
from bench.tether import ROOT
from sandbox.ports import answers

HOST = "127.0.0.1"
CHUNK = 256 * 1024
NAMING_BROKERS = frozenset({3, 10, 60})
_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class Line:
    listen: int
    broker: int
    delay_s: float
    bytes_per_s: float


class Pipe:
    """One direction: what is put in comes out after the delay, no faster than the line."""

    def __init__(self, line: Line, out: asyncio.StreamWriter) -> None:
        self.line = line
        self.out = out
        self.free_at = 0.0
        # Twice what fits on the line; more makes the sender wait, as a full window does.
        self.window = max(1 << 20, int(2 * line.delay_s * line.bytes_per_s))
        self.held = 0
        self.room = asyncio.Event()
        self.queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def put(self, data: bytes) -> None:
        while self.held > self.window:
            self.room.clear()
            await self.room.wait()
        self.held += len(data)
        now = asyncio.get_running_loop().time()
        self.free_at = max(self.free_at, now) + len(data) / self.line.bytes_per_s
        self.queue.put_nowait((self.free_at + self.line.delay_s, data))

    async def deliver(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, data = await self.queue.get()
            if (wait := due - loop.time()) > 0:
                await asyncio.sleep(wait)
            self.out.write(data)
            await self.out.drain()
            self.held -= len(data)
            self.room.set()


async def _forward(reader: asyncio.StreamReader, pipe: Pipe, length: int) -> None:
    while length:
        data = await reader.read(min(CHUNK, length))
        if not data:
            raise asyncio.IncompleteReadError(b"", length)
        await pipe.put(data)
        length -= len(data)


async def _requests(reader: asyncio.StreamReader, pipe: Pipe, asked: collections.deque[int]) -> None:
    while True:
        head = await reader.readexactly(6)
        asked.append(_REQUEST.unpack_from(head, 4)[0])
        await pipe.put(head)
        await _forward(reader, pipe, _LENGTH.unpack_from(head)[0] - 2)


async def _answers(reader: asyncio.StreamReader, pipe: Pipe, asked: collections.deque[int], line: Line) -> None:
    """Kafka answers in order, so the oldest unanswered request tells what an answer is. Produce with acks 0 has no
    answer; nobody here uses it."""
    there, here = (HOST.encode() + _LENGTH.pack(port) for port in (line.broker, line.listen))
    while True:
        head = await reader.readexactly(4)
        length = _LENGTH.unpack(head)[0]
        if asked.popleft() in NAMING_BROKERS:
            await pipe.put(head + (await reader.readexactly(length)).replace(there, here))
        else:
            await pipe.put(head)
            await _forward(reader, pipe, length)


async def _serve(line: Line, near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
    far, far_out = await asyncio.open_connection(HOST, line.broker, limit=4 * CHUNK)
    asked: collections.deque[int] = collections.deque()
    up, down = Pipe(line, far_out), Pipe(line, near_out)
    work = [_requests(near, up, asked), _answers(far, down, asked, line), up.deliver(), down.deliver()]
    tasks = [asyncio.create_task(one) for one in work]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)  # a closed connection is the normal end
    for writer in (near_out, far_out):
        writer.close()


async def serve(line: Line) -> None:
    server = await asyncio.start_server(lambda r, w: _serve(line, r, w), HOST, line.listen, limit=4 * CHUNK)
    threading.Thread(target=_leave_with_owner, daemon=True).start()
    async with server:
        await server.serve_forever()


def _leave_with_owner() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


@contextlib.contextmanager
def far_away(line: Line) -> Iterator[str]:
    """The bootstrap address of the broker at the other end of the line. Raises BenchError."""
    words = [line.listen, line.broker, line.delay_s * 1000, line.bytes_per_s * 8 / 1e6]
    proxy = subprocess.Popen(
        [sys.executable, "-m", "bench.proxy", *map(str, words)], stdin=subprocess.PIPE, cwd=ROOT, start_new_session=True
    )
    assert proxy.stdin is not None
    try:
        for _ in range(100):
            if answers(line.listen):
                break
            if proxy.poll() is not None:
                raise BenchError(f"the delaying proxy could not listen on port {line.listen}")
            threading.Event().wait(0.1)
        yield f"{HOST}:{line.listen}"
    finally:
        proxy.stdin.close()
        proxy.wait(10)


if __name__ == "__main__":
    listen, broker, delay_ms, megabits = sys.argv[1:]
    asyncio.run(serve(Line(int(listen), int(broker), float(delay_ms) / 1000, float(megabits) * 1e6 / 8)))
