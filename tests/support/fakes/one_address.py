"""A Kafka proxy: one address for clients, whichever cluster is behind it. For clusters of one broker without security.

It does what gateways do at a cut-over: ``PUT /hold`` keeps requests to produce back, ``PUT /target/NAME`` drops every
connection, so that clients come again, and are led to the other cluster. Brokers' addresses in answers are replaced by
its own; the versions of the requests that have them are limited to those it can read.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PRODUCE, METADATA, FIND_COORDINATOR, API_VERSIONS, DESCRIBE_CLUSTER = 0, 3, 10, 18, 60
_MOST = {METADATA: 8, FIND_COORDINATOR: 2, DESCRIBE_CLUSTER: -1}
"""The newest versions without tagged fields, which this proxy reads. Below the oldest: not offered."""


class OneAddress(threading.Thread):
    """``clusters``: name -> host, port. ``address`` is where clients connect, ``control`` where hooks call. ``held``:
    how many requests to produce were kept back."""

    def __init__(self, clusters: Mapping[str, tuple[str, int]], target: str) -> None:
        super().__init__(name="one address", daemon=True)
        self.target, self.held, self.port = target, 0, 0
        self._clusters, self._loop = clusters, asyncio.new_event_loop()
        self._open, self._ready = asyncio.Event(), threading.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._hooks = ThreadingHTTPServer(("127.0.0.1", 0), _hooks_of(self))
        threading.Thread(target=self._hooks.serve_forever, daemon=True).start()
        self.start()
        assert self._ready.wait(10)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def control(self) -> str:
        return f"http://127.0.0.1:{self._hooks.server_address[1]}"

    def hold(self) -> None:
        self._loop.call_soon_threadsafe(self._open.clear)

    def lead_to(self, target: str) -> None:
        def switch() -> None:
            self.target = target
            for writer in self._writers:
                writer.close()
            self._open.set()

        self._loop.call_soon_threadsafe(switch)

    def end(self) -> None:
        self._hooks.shutdown()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.join(10)

    def run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._client, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()

    async def _client(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            broker, to_broker = await asyncio.open_connection(*self._clusters[self.target])
            mine = {to_client, to_broker}
            self._writers |= mine
            asked: dict[int, tuple[int, int]] = {}
            answers = asyncio.ensure_future(self._answers(broker, to_client, asked))
            try:
                await self._requests(client, to_broker, asked)
            finally:
                answers.cancel()
                self._writers -= mine
                for writer in mine:
                    writer.close()

    async def _requests(
        self, client: asyncio.StreamReader, to_broker: asyncio.StreamWriter, asked: dict[int, tuple[int, int]]
    ) -> None:
        while True:
            request = await _frame(client)
            api, version, correlation = struct.unpack_from(">hhi", request)
            if api == PRODUCE and not self._open.is_set():
                self.held += 1
                await self._open.wait()
                return  # it was never sent: its client sends it again, wherever it is led
            asked[correlation] = api, version
            to_broker.write(struct.pack(">i", len(request)) + request)
            await to_broker.drain()

    async def _answers(
        self, broker: asyncio.StreamReader, to_client: asyncio.StreamWriter, asked: dict[int, tuple[int, int]]
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                answer = await _frame(broker)
                (correlation,) = struct.unpack_from(">i", answer)
                body = self._rewritten(*asked.pop(correlation, (PRODUCE, 0)), answer[4:])
                to_client.write(struct.pack(">ii", len(body) + 4, correlation) + body)
                await to_client.drain()
        to_client.close()

    def _rewritten(self, api: int, version: int, body: bytes) -> bytes:
        if api == API_VERSIONS:
            return _limited(body, version)
        if api == METADATA:
            at = 4 if version >= 3 else 0
            (count,) = struct.unpack_from(">i", body, at)
            head, at = body[: at + 4], at + 4
            for _ in range(count):
                broker, at = self._broker(body, at)
                head += broker
                if version >= 1:
                    (rack,) = struct.unpack_from(">h", body, at)
                    end = at + 2 + max(0, rack)
                    head, at = head + body[at:end], end
            return head + body[at:]
        if api == FIND_COORDINATOR:
            at = 6 if version >= 1 else 2
            if version >= 1:
                (length,) = struct.unpack_from(">h", body, at)
                at += 2 + max(0, length)
            broker, end = self._broker(body, at)
            return body[:at] + broker + body[end:]
        return body

    def _broker(self, body: bytes, at: int) -> tuple[bytes, int]:
        """Id, host and port with our address in its place, and where it ends. An unknown one stays."""
        number, length = struct.unpack_from(">ih", body, at)
        end = at + 6 + length + 4
        if number < 0 or not length:
            return body[at:end], end
        return struct.pack(">ih", number, 9) + b"127.0.0.1" + struct.pack(">i", self.port), end


def _limited(body: bytes, version: int) -> bytes:
    """The answer to ApiVersions with our limits: fixed width, so that it is changed in place."""
    limited, flexible = bytearray(body), version >= 3
    at, count = 2, 0
    if flexible:
        shift = 0
        while True:
            byte = body[at]
            count |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if not byte & 0x80:
                break
        count -= 1
    else:
        (count,) = struct.unpack_from(">i", body, at)
        at += 4
    for _ in range(count):
        (api,) = struct.unpack_from(">h", body, at)
        if api in _MOST:
            struct.pack_into(">h", limited, at + 4, _MOST[api])
        at += 7 if flexible else 6
    return bytes(limited)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(length)


def _hooks_of(proxy: OneAddress) -> type[BaseHTTPRequestHandler]:
    class Hooks(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            _, what, *name = self.path.split("/")
            if what == "hold":
                proxy.hold()
            else:
                proxy.lead_to(name[0])
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    return Hooks
