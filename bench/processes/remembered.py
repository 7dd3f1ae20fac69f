"""Brokers as though each had a machine of its own: what they answer to a reader is remembered, and given again after
the time they took for it, without their work.

``python -m bench.processes.remembered LISTEN_PORT:BROKER_PORT ...`` stands before brokers on loopback until its
standard input ends. Until the first line there it passes all on and remembers the answers to ``READING``, each with
the shortest time in which the broker gave it; from then on it gives these itself. All else it passes on always.
Clients meet the brokers only through it, as with ``bench.processes.proxy``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from reconciler_sandbox.brokers.ports import answers

from bench.copy.figures import BenchError
from bench.processes.proxy import HOST, NAMING_BROKERS
from bench.processes.tether import ROOT

READING = frozenset({3, 32})
"""Metadata and DescribeConfigs: all but a few bytes of what a plan reads."""
_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">hhi")
_CORRELATION = slice(4, 8)


@dataclass(slots=True)
class Memory:
    """Of one broker. ``answers``: by the request without its correlation id, the answer without its own and the
    shortest time it took, in seconds."""

    listen: int
    broker: int
    learning: bool = True
    answers: dict[bytes, tuple[bytes, float]] = field(default_factory=dict)

    def learn(self, request: bytes, answer: bytes, seconds: float) -> None:
        _, before = self.answers.get(request, (b"", seconds))
        self.answers[request] = answer, min(before, seconds)

    def known(self, request: bytes) -> tuple[bytes, float] | None:
        return None if self.learning else self.answers.get(request)


async def _frame(source: socket.socket) -> bytes:
    """The next request or answer without its length; ends with EOFError when the sender is gone."""
    (size,) = _LENGTH.unpack(await _exactly(source, _LENGTH.size))
    return await _exactly(source, size)


async def _exactly(source: socket.socket, size: int) -> bytes:
    held, done = memoryview(bytearray(size)), 0
    while done < size:
        got = await asyncio.get_running_loop().sock_recv_into(source, held[done:])
        if not got:
            raise EOFError
        done += got
    return bytes(held)


async def _converse(near: socket.socket, far: socket.socket, memory: Memory) -> None:
    """Request by request, as a broker itself takes them from one connection. Produce with acks 0 has no answer; nobody
    here uses it."""
    loop = asyncio.get_running_loop()
    there, here = (HOST.encode() + _LENGTH.pack(port) for port in (memory.broker, memory.listen))
    while True:
        request = await _frame(near)
        began = loop.time()
        key, _, correlation = _HEAD.unpack_from(request)
        asked = request[: _CORRELATION.start] + request[_CORRELATION.stop :]
        known = memory.known(asked)
        if known is None:
            await loop.sock_sendall(far, _LENGTH.pack(len(request)) + request)
            answer = (await _frame(far))[_LENGTH.size :]
            if key in NAMING_BROKERS:
                answer = answer.replace(there, here)
            if key in READING and memory.learning:
                memory.learn(asked, answer, loop.time() - began)
        else:
            answer, seconds = known
            await asyncio.sleep(began + seconds - loop.time())
        await loop.sock_sendall(near, _LENGTH.pack(len(answer) + _LENGTH.size) + _LENGTH.pack(correlation))
        await loop.sock_sendall(near, answer)


async def _serve(near: socket.socket, memory: Memory) -> None:
    far = socket.socket()
    for sock in (near, far):
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with near, far, contextlib.suppress(OSError, EOFError):  # a closed connection is the normal end
        await asyncio.get_running_loop().sock_connect(far, (HOST, memory.broker))
        await _converse(near, far, memory)


async def _listen(memory: Memory) -> None:
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()
    with socket.create_server((HOST, memory.listen), backlog=128) as server:
        server.setblocking(False)
        while True:
            near, _ = await loop.sock_accept(server)
            task = loop.create_task(_serve(near, memory))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


def _obey(memories: list[Memory]) -> None:
    for _ in sys.stdin:
        for memory in memories:
            memory.learning = False
        print(sum(len(memory.answers) for memory in memories), flush=True)
    os._exit(0)


@contextlib.contextmanager
def standing_before(ports: Iterable[tuple[int, int]]) -> Iterator[Callable[[], int]]:
    """``ports``: where to listen, and the broker's own. What is given ends the learning and tells how many answers are
    known. Raises BenchError."""
    pairs = list(ports)
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.processes.remembered", *(f"{listen}:{broker}" for listen, broker in pairs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    asked, told = process.stdin, process.stdout
    assert asked is not None
    assert told is not None

    def learned() -> int:
        asked.write("\n")
        asked.flush()
        known = int(told.readline() or 0)
        if not known:
            raise BenchError("nothing was asked while the brokers' answers were to be remembered")
        return known

    try:
        deadline = time.monotonic() + 10
        while not all(answers(listen) for listen, _ in pairs):
            if process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(f"nobody listens before the brokers on ports {[listen for listen, _ in pairs]}")
            time.sleep(0.1)
        yield learned
    finally:
        asked.close()
        process.wait(10)


async def _all(memories: list[Memory]) -> None:
    await asyncio.gather(*map(_listen, memories))


if __name__ == "__main__":
    pairs = [word.split(":") for word in sys.argv[1:]]
    brokers = [Memory(int(listen), int(broker)) for listen, broker in pairs]
    threading.Thread(target=_obey, args=(brokers,), daemon=True).start()
    asyncio.run(_all(brokers))
