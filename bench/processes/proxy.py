"""A long line to one broker, on loopback: so many milliseconds each way at so many bits a second.

``python -m bench.processes.proxy LISTEN_PORT BROKER_PORT DELAY_MS MEGABITS`` runs until its standard input ends; for
each line it reads there it prints what every connection has carried so far. Clients meet the broker only through it:
in answers that name brokers (Metadata, FindCoordinator, DescribeCluster) the broker's port is replaced by the proxy's.
Each connection has its own line, as a long path has for one TCP flow with ample windows.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass, field

HOST = "127.0.0.1"
CHUNK = 256 * 1024
SMALL = 16 * 1024
SPARES = 512
EARLY_S = 0.0005  # sleeping for less costs more than it delays
NAMING_BROKERS = frozenset({3, 10, 60})
_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">ih")


@dataclass(frozen=True, slots=True)
class Line:
    listen: int
    broker: int
    delay_s: float
    bytes_per_s: float


@dataclass(slots=True)
class Carried:
    """Requests of one connection by their API key, and how many of a kind were under way to the broker at once."""

    requests: collections.Counter[int] = field(default_factory=collections.Counter)
    together: dict[int, int] = field(default_factory=dict)


class Pipe:
    """One direction: what is put in comes out after the delay, no faster than the line.

    Bytes are received into chunks that are used again and sent from there: fresh memory costs more than the copy.
    """

    _spares: list[bytearray] = []

    def __init__(self, line: Line, source: socket.socket, out: socket.socket) -> None:
        self._line = line
        self._source = source
        self._out = out
        self._loop = asyncio.get_running_loop()
        self._free_at = 0.0
        # Twice what fits on the line; more makes the sender wait, as a full window does.
        self._window = max(1 << 20, int(2 * line.delay_s * line.bytes_per_s))
        self._held = 0
        self._room = asyncio.Event()
        self._queue: asyncio.Queue[tuple[float, memoryview, bytearray | None]] = asyncio.Queue()
        self.carried = 0

    async def read(self, size: int) -> bytes:
        """Exactly ``size`` bytes; ends with EOFError when the sender is gone."""
        held = memoryview(bytearray(size))
        done = 0
        while done < size:
            got = await self._loop.sock_recv_into(self._source, held[done:])
            if not got:
                raise EOFError
            done += got
        return bytes(held)

    async def forward(self, size: int) -> None:
        """The next ``size`` bytes as they are."""
        while size:
            await self._wait_for_room()
            chunk = self._spares.pop() if self._spares else bytearray(CHUNK)
            got = await self._loop.sock_recv_into(self._source, memoryview(chunk)[: min(CHUNK, size)])
            if not got:
                raise EOFError
            size -= got
            if got < SMALL:
                self._put(memoryview(bytes(memoryview(chunk)[:got])), None)
                self._spares.append(chunk)
            else:
                self._put(memoryview(chunk)[:got], chunk)

    async def put(self, data: bytes) -> None:
        await self._wait_for_room()
        self._put(memoryview(data), None)

    async def _wait_for_room(self) -> None:
        while self._held > self._window:
            self._room.clear()
            await self._room.wait()

    def _put(self, data: memoryview, chunk: bytearray | None) -> None:
        self._held += len(data)
        self.carried += len(data)
        self._free_at = max(self._free_at, self._loop.time()) + len(data) / self._line.bytes_per_s
        self._queue.put_nowait((self._free_at + self._line.delay_s, data, chunk))

    async def deliver(self) -> None:
        while True:
            due, data, chunk = await self._queue.get()
            if (wait := due - self._loop.time()) > EARLY_S:
                await asyncio.sleep(wait)
            await self._loop.sock_sendall(self._out, data)
            self._held -= len(data)
            self._room.set()
            if chunk is not None and len(self._spares) < SPARES:
                self._spares.append(chunk)


class Proxy:
    """All connections through one listening port."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._carried: list[Carried] = []
        self._pipes: list[tuple[Pipe, Pipe]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server((HOST, self._line.listen), backlog=128) as server:
            server.setblocking(False)
            threading.Thread(target=self._answer_owner, daemon=True).start()
            while True:
                near, _ = await loop.sock_accept(server)
                task = loop.create_task(self._serve(near))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _answer_owner(self) -> None:
        for _ in sys.stdin:
            found = [
                {
                    "up": up.carried,
                    "down": down.carried,
                    "requests": dict(carried.requests),
                    "together": dict(carried.together),
                }
                for (up, down), carried in zip(list(self._pipes), list(self._carried), strict=False)
            ]
            print(json.dumps({"cpu_s": time.process_time(), "connections": found}), flush=True)
        os._exit(0)

    async def _serve(self, near: socket.socket) -> None:
        far = socket.socket()
        for sock in (near, far):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with near, far, contextlib.suppress(OSError, EOFError):
            await asyncio.get_running_loop().sock_connect(far, (HOST, self._line.broker))
            up, down, carried = Pipe(self._line, near, far), Pipe(self._line, far, near), Carried()
            asked: collections.deque[int] = collections.deque()
            self._carried.append(carried)
            self._pipes.append((up, down))
            work = (_requests(up, asked, carried), _answers(down, asked, self._line), up.deliver(), down.deliver())
            tasks = [asyncio.create_task(one) for one in work]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # a closed connection is the normal end


async def _requests(pipe: Pipe, asked: collections.deque[int], carried: Carried) -> None:
    while True:
        head = await pipe.read(_REQUEST.size)
        length, key = _REQUEST.unpack(head)
        asked.append(key)
        carried.requests[key] += 1
        carried.together[key] = max(carried.together.get(key, 0), asked.count(key))
        await pipe.put(head)
        await pipe.forward(length - 2)


async def _answers(pipe: Pipe, asked: collections.deque[int], line: Line) -> None:
    """Kafka answers in order, so the oldest unanswered request tells what an answer is. Produce with acks 0 has no
    answer; nobody here uses it."""
    there, here = (HOST.encode() + _LENGTH.pack(port) for port in (line.broker, line.listen))
    while True:
        head = await pipe.read(4)
        (length,) = _LENGTH.unpack(head)
        if asked.popleft() in NAMING_BROKERS:
            await pipe.put(head + (await pipe.read(length)).replace(there, here))
        else:
            await pipe.put(head)
            await pipe.forward(length)


if __name__ == "__main__":
    listen, broker, delay_ms, megabits = sys.argv[1:]
    asyncio.run(Proxy(Line(int(listen), int(broker), float(delay_ms) / 1000, float(megabits) * 1e6 / 8)).serve())
