"""A proxy before brokers that cuts connections at a chosen request: after the broker has done it, or in its midst.
It also hides requests, and changes what they ask for, as services that speak Kafka's protocol do.

Answers that name a broker name the proxy instead, so that a client meets the brokers through it alone.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bench.processes.proxy import HOST, NAMING_BROKERS

_INT = struct.Struct(">i")


API_VERSIONS = 18


class Cut(StrEnum):
    """UNANSWERED: the broker did it, no answer comes. HALF_ANSWERED: half of the answer comes. HALF_ASKED: half of the
    request arrives, so the broker does nothing."""

    UNANSWERED = "unanswered"
    HALF_ANSWERED = "half answered"
    HALF_ASKED = "half asked"


@dataclass
class Wishes:
    """What to cut next, by API key; ``done`` counts. ``dripping``: answers come byte by byte, five a second.
    ``hidden``: API keys that ApiVersions does not offer; a request of one ends the connection. ``altered``: by API key,
    what becomes of a request, header included."""

    wanted: dict[int, Cut] = field(default_factory=dict)
    done: collections.Counter[tuple[int, Cut]] = field(default_factory=collections.Counter)
    dripping: bool = False
    hidden: frozenset[int] = frozenset()
    altered: Mapping[int, Callable[[bytes], bytes]] = field(default_factory=dict)

    def taken(self, api: int, *cuts: Cut) -> Cut | None:
        cut = self.wanted.get(api)
        if cut not in cuts:
            return None
        del self.wanted[api]
        self.done[api, cut] += 1
        return cut


class _Line:
    """One connection of a client."""

    def __init__(self, wishes: Wishes, broker: int, listen: Mapping[int, int]) -> None:
        """``broker``: its port. ``listen``: ports of brokers to those of the proxy."""
        self._wishes = wishes
        self._broker = broker
        self._named = {_named(port): _named(here) for port, here in listen.items()}
        self._asked: collections.deque[tuple[int, int]] = collections.deque()

    async def run(self, near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        far_out = None
        with contextlib.suppress(OSError):  # the broker is away: so are we
            far, far_out = await asyncio.open_connection(HOST, self._broker)
            ways = [asyncio.create_task(one) for one in (self._up(near, far_out), self._down(far, near_out))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        for writer in (near_out, far_out):
            if writer is not None:
                writer.transport.abort()

    async def _up(self, near: asyncio.StreamReader, far_out: asyncio.StreamWriter) -> None:
        while True:
            body = await near.readexactly(_INT.unpack(await near.readexactly(4))[0])
            api = int.from_bytes(body[:2], "big")
            if api in self._wishes.altered:
                body = self._wishes.altered[api](body)
            frame = _INT.pack(len(body)) + body
            if self._wishes.taken(api, Cut.HALF_ASKED):
                far_out.write(frame[: len(frame) // 2])
                await far_out.drain()
                return
            if api in self._wishes.hidden:
                return
            self._asked.append((api, int.from_bytes(body[2:4], "big")))
            far_out.write(frame)
            await far_out.drain()

    async def _down(self, far: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        """Kafka answers in order, so the oldest unanswered request tells what an answer is."""
        while True:
            body = await far.readexactly(_INT.unpack(await far.readexactly(4))[0])
            api, version = self._asked.popleft()
            cut = self._wishes.taken(api, Cut.UNANSWERED, Cut.HALF_ANSWERED)
            if api in NAMING_BROKERS:
                for there, here in self._named.items():
                    body = body.replace(there, here)
            if api == API_VERSIONS and self._wishes.hidden:
                body = _without(body, version, self._wishes.hidden)
            frame = _INT.pack(len(body)) + body
            while self._wishes.dripping and len(frame) > 1:
                near_out.write(frame[:1])
                frame = frame[1:]
                await near_out.drain()
                await asyncio.sleep(0.2)
            if cut is not Cut.UNANSWERED:
                near_out.write(frame if cut is None else frame[: len(frame) // 2])
                await near_out.drain()
            if cut is not None:
                return


def _named(port: int) -> bytes:
    return HOST.encode() + _INT.pack(port)


def _without(body: bytes, version: int, hidden: frozenset[int]) -> bytes:
    """An ApiVersions answer without the keys that are hidden. One that says an error stays."""
    if int.from_bytes(body[4:6], "big"):
        return body
    width, at = (6, 10) if version < 3 else (7, 7)  # flexible: tags of each key, and a count of one byte
    count = int.from_bytes(body[6:10], "big") if version < 3 else body[6] - 1
    assert count < 127, "the count takes another byte"
    entries = [body[at + width * n : at + width * (n + 1)] for n in range(count)]
    kept = [entry for entry in entries if int.from_bytes(entry[:2], "big") not in hidden]
    counted = _INT.pack(len(kept)) if version < 3 else bytes([len(kept) + 1])
    return body[:6] + counted + b"".join(kept) + body[at + width * count :]


@contextlib.contextmanager
def cutting(*brokers: int) -> Iterator[tuple[str, Wishes]]:
    """``brokers``: their ports. The bootstrap addresses of the proxy, and what it shall cut."""
    wishes, loop, listening = Wishes(), asyncio.new_event_loop(), threading.Event()
    listen: dict[int, int] = {}

    async def serve() -> None:
        def accepts(broker: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
            return lambda near, near_out: _Line(wishes, broker, listen).run(near, near_out)

        for broker in brokers:
            server = await asyncio.start_server(accepts(broker), HOST, 0)
            listen[broker] = server.sockets[0].getsockname()[1]
        listening.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    task = loop.create_task(serve())
    thread = threading.Thread(target=lambda: loop.run_until_complete(task))
    thread.start()
    try:
        assert listening.wait(10)
        yield ",".join(f"{HOST}:{port}" for port in listen.values()), wishes
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(10)
        loop.close()
