"""Stands before the brokers of one cluster and breaks their answers in the way it is told.

``python -m bench.processes.fault_proxy LISTEN:BROKER ...`` runs until its standard input ends. Each line it reads there
is a way: ``pass``, ``cut``, ``hold``, ``rate BYTES_PER_SECOND``, or ``truncate``, ``reset``, ``flip`` with a
probability for each answer. Answers that name brokers name the proxy instead, so that clients meet the brokers through
it alone.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import random
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.processes.proxy import HOST, NAMING_BROKERS

ROOT = Path(__file__).resolve().parents[2]
READY = "ready"
PASS, CUT, HOLD, RATE, TRUNCATE, RESET, FLIP = "pass", "cut", "hold", "rate", "truncate", "reset", "flip"
_INT = struct.Struct(">i")
_CHUNK = 64 * 1024
_MOST_BYTES = 256 << 20


@dataclass
class Cluster:
    """``ports``: of each broker, where the proxy listens for it. ``way`` and ``figure``: what is done now."""

    ports: Mapping[int, int]
    way: str = PASS
    figure: float = 0.0
    lines: set[asyncio.Task[None]] = field(default_factory=set)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    def turn(self, line: str) -> None:
        words = line.split()
        self.way, self.figure = words[0], float(words[1]) if len(words) > 1 else 0.0
        if self.way == HOLD:
            self.go_on.clear()
        else:
            self.go_on.set()
        if self.way == CUT:
            for task in self.lines:
                task.cancel()

    def strikes(self, way: str) -> bool:
        return self.way == way and random.random() < self.figure

    def renamed(self, body: bytes) -> bytes:
        for broker, listen in self.ports.items():
            body = body.replace(HOST.encode() + _INT.pack(broker), HOST.encode() + _INT.pack(listen))
        return body


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = _INT.unpack(await reader.readexactly(4))[0]
    if not 0 <= size <= _MOST_BYTES:
        raise ConnectionError
    return await reader.readexactly(size)


async def _up(
    cluster: Cluster, near: asyncio.StreamReader, far: asyncio.StreamWriter, asked: collections.deque[int]
) -> None:
    while True:
        body = await _frame(near)
        await cluster.go_on.wait()
        asked.append(int.from_bytes(body[:2], "big"))
        far.write(_INT.pack(len(body)) + body)
        await far.drain()


async def _down(
    cluster: Cluster, far: asyncio.StreamReader, near: asyncio.StreamWriter, asked: collections.deque[int]
) -> None:
    """Kafka answers in order, so the oldest unanswered request tells what an answer is."""
    while True:
        body = await _frame(far)
        await cluster.go_on.wait()
        if asked.popleft() in NAMING_BROKERS:
            body = cluster.renamed(body)
        if cluster.strikes(FLIP) and len(body) > 8:
            at = random.randrange(8, len(body))
            body = body[:at] + bytes([body[at] ^ 1 << random.randrange(8)]) + body[at + 1 :]
        frame = _INT.pack(len(body)) + body
        if cluster.strikes(TRUNCATE):
            near.write(frame[: len(frame) // 2])
            await near.drain()
            return
        if cluster.strikes(RESET):
            return
        await _send(cluster, near, frame)


async def _send(cluster: Cluster, near: asyncio.StreamWriter, frame: bytes) -> None:
    at = 0
    while at < len(frame):
        size = max(1, int(cluster.figure / 10)) if cluster.way == RATE else _CHUNK
        near.write(frame[at : at + size])
        await near.drain()
        at += size
        if cluster.way == RATE:
            await asyncio.sleep(size / cluster.figure)


async def _serve(cluster: Cluster, broker: int, near: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
    writers = [out]
    task = asyncio.current_task()
    assert task is not None
    cluster.lines.add(task)
    ways: list[asyncio.Task[None]] = []
    with contextlib.suppress(OSError, EOFError, IndexError, asyncio.CancelledError):
        if cluster.way != CUT:
            far, far_out = await asyncio.open_connection(HOST, broker)
            writers.append(far_out)
            asked: collections.deque[int] = collections.deque()
            ways = [
                asyncio.create_task(work)
                for work in (_up(cluster, near, far_out, asked), _down(cluster, far, out, asked))
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    await asyncio.gather(*ways, return_exceptions=True)
    cluster.lines.discard(task)
    for writer in writers:
        writer.transport.abort()


async def _run(ports: Mapping[int, int]) -> None:
    cluster, loop = Cluster(ports), asyncio.get_running_loop()
    cluster.go_on.set()

    def serving(broker: int) -> object:
        return lambda near, out: _serve(cluster, broker, near, out)

    for broker, listen in ports.items():
        await asyncio.start_server(serving(broker), HOST, listen)  # type: ignore[arg-type]

    def obey() -> None:
        print(READY, flush=True)
        for line in sys.stdin:
            loop.call_soon_threadsafe(cluster.turn, line)
        os._exit(0)

    threading.Thread(target=obey, daemon=True).start()
    await asyncio.Event().wait()


class FaultProxy:
    """The proxy of one cluster, as a process of its own. Use ``before``."""

    def __init__(self, process: subprocess.Popen[str], servers: tuple[str, ...]) -> None:
        self._process = process
        self.servers = servers
        """Where clients find the brokers."""

    def turn(self, way: str, figure: float = 0.0) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{way} {figure}\n")
        self._process.stdin.flush()


@contextlib.contextmanager
def before(ports: Mapping[int, int]) -> Iterator[FaultProxy]:
    """``ports``: of each broker, where to listen for it."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "bench.processes.fault_proxy"),
            *(f"{listen}:{broker}" for broker, listen in ports.items()),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != READY:
            raise OSError(f"the proxy did not start on ports {list(ports.values())}")
        yield FaultProxy(process, tuple(f"{HOST}:{listen}" for listen in ports.values()))
    finally:
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()


if __name__ == "__main__":
    pairs = (word.split(":") for word in sys.argv[1:])
    asyncio.run(_run({int(broker): int(listen) for listen, broker in pairs}))
