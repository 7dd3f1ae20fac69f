"""One connection to one broker: TLS and SASL, version negotiation, pipelined requests, answers in order.

Runs on an asyncio loop over a non-blocking socket, without streams or transports: a response is received straight into
the memory in which its batches are patched, and a request is gathered from where its batches lie.
"""

import asyncio
import contextlib
import itertools
import math
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from reconciler.kafka.client.auth.settings import ConnectionSettings
from reconciler.kafka.client.buffers import BufferPool
from reconciler.kafka.client.errors import ConnectionLostError, MalformedResponseError, UnsupportedBrokerError, lost
from reconciler.kafka.client.frames import SIZE, Frame, Frames

T = TypeVar("T")
Chunk = bytes | bytearray | memoryview
WATCH_EVERY = 1.0
"""Seconds between looks for requests that are overdue."""
LEAST_RATE = 1 << 10
"""Bytes a second that keep a request alive. A line that carries less answers nothing in a useful time (a batch of 1 MiB
in 17 minutes), while 64 lanes that share a line of 1 Mbit/s get twice as much each."""
LONGEST_THROTTLE_S = 60.0
"""A broker may ask for more (KIP-219); a connection that waits longer would look hung."""
READ_AT_ONCE = 8 << 20
"""Bytes to read from one connection before others of the loop get their turn."""
VECTORS = 512
"""Parts of one system call; Linux takes 1024 (IOV_MAX)."""
_HEAD = struct.Struct(">ihhih")


class _Asked(NamedTuple):
    """A request without a response yet."""

    correlation: int
    """The id by which the response is recognised."""
    answer: asyncio.Future[Frame]
    patience: float
    """Seconds until it fails, from ``at`` on."""
    at: float
    """Monotonic time of sending."""
    end: int
    """Bytes that the connection has sent once the request is written."""


class Connection:
    """Made by ``connect``. All methods belong to the loop's thread. ``round_trip``: of the quickest answer so far, in
    seconds, 0 before the first."""

    def __init__(self, sock: socket.socket, settings: ConnectionSettings, pool: BufferPool, where: str) -> None:
        self.where = where
        self.settings = settings
        self.closed: Exception | None = None
        """Why it is closed; None while it is open."""
        self.versions: dict[int, tuple[int, int]] = {}
        """Lowest and highest version by API key, from the broker's ApiVersions; the dial sets it, as ``features``."""
        self.features: dict[str, int] = {}
        """Finalized level of the cluster's features (KIP-584), as ``transaction.version``."""
        self.throttled_until = 0.0
        """Monotonic time, like ``expires_at``: until when the broker has muted this connection (KIP-219)."""
        self.expires_at = float("inf")
        """When another connection should take over, before the broker ends the SASL session (KIP-368)."""
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._client_id = settings.client_id.encode()
        # Requests by correlation id, in order: a broker answers requests of one connection in the order of sending, so
        # the next frame belongs to the first waiting request.
        self._correlation = itertools.count(1)
        self.round_trip = 0.0
        self._waiting: deque[_Asked] = deque()
        # Bytes that the socket has not taken yet. ``_enqueued`` and ``_sent`` count bytes since the beginning, which
        # shows when a request has left completely: its round trip is measured from then.
        self._unsent: deque[memoryview] = deque()
        self._enqueued = self._sent = 0
        self._moved = 0.0
        self._writing = False
        self._frames = Frames(pool, where)
        # One timer for all requests, not one each: thousands of them are under way at times.
        self._watch: asyncio.TimerHandle | None = None

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    @property
    def expired(self) -> bool:
        """Its session ends soon, so another connection should take over (KIP-368)."""
        return time.monotonic() >= self.expires_at

    def start(self) -> None:
        self._loop.add_reader(self._sock.fileno(), self._readable)

    # requests

    def send(
        self, api: tuple[int, int, bool], parts: Sequence[Chunk], patience: float | None = None
    ) -> asyncio.Future[Frame]:
        """Sends one hand-packed request. ``api``: key, version, whether the header is flexible. ``patience``: seconds
        until the connection counts as dead, from the request or from the answer before it; default the request
        timeout. Bytes of the oldest request that leave, and of its answer, put that off, each by what it takes at
        ``LEAST_RATE``: a slow line is not dead, one that drips is.

        The parts must stay unchanged until the answer is there. The future fails with ConnectionLostError.
        """
        key, version, flexible = api
        correlation = next(self._correlation) & 0x7FFFFFFF
        tail = self._client_id + (b"\0" if flexible else b"")
        size = 10 + len(tail) + sum(map(len, parts))
        head = _HEAD.pack(size, key, version, correlation, len(self._client_id)) + tail
        return self._enqueue(correlation, [memoryview(head), *(memoryview(part) for part in parts)], patience)

    async def ask(self, api: tuple[int, int, bool], body: bytes, read: Callable[[memoryview], tuple[int, T]]) -> T:
        """The answer to one hand-packed request; ``read`` gives the broker's throttle in ms before it. See ``send``.
        Respects a throttle of the broker, as ``call``."""
        if (wait := self.throttled_until - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        frame = await self.send(api, [body])
        try:
            throttle, answer = read(frame.body)
        finally:
            frame.drop()
        self.throttle(throttle)
        return answer

    @contextlib.contextmanager
    def read(self, frame: Frame) -> Iterator[None]:
        """Gives the memory of a response back after it was read. One that breaks the protocol costs the connection:
        raises ConnectionLostError."""
        try:
            yield
        except MalformedResponseError as error:
            self.close(error)
            raise ConnectionLostError(str(error)) from error
        finally:
            frame.drop()

    async def call(self, request: Any, patience: float | None = None) -> Any:
        """Sends a request of the generated codec and waits for its answer. Respects a throttle of the broker."""
        from reconciler.kafka.protocol import (
            generated as protocol,  # with kafka-python: hand-coded requests do not wait for its import
        )

        wait = self.throttled_until - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        correlation = next(self._correlation) & 0x7FFFFFFF
        data = protocol.encode(request, correlation, self.settings.client_id)
        frame = await self._enqueue(correlation, [memoryview(data)], patience)
        try:
            answer = protocol.decode(request, frame.body)
        finally:
            frame.drop()
        self.throttle(getattr(answer, "throttle_time_ms", 0) or 0)
        return answer

    def throttle(self, milliseconds: int) -> None:
        """The broker asks for silence (KIP-219). It does not read from this connection meanwhile anyway, so nothing is
        lost by asking too early; a flipped bit in an answer would make it hours."""
        if milliseconds > 0:
            seconds = min(milliseconds / 1000, LONGEST_THROTTLE_S)
            self.throttled_until = max(self.throttled_until, time.monotonic() + seconds)

    def version(self, request: Any, cap: int = 99) -> int:
        """The newest version both sides and this package know. Raises UnsupportedBrokerError."""
        from reconciler.kafka.protocol import generated as protocol

        return self.negotiated(request.API_KEY, 0, min(protocol.NEWEST[request], cap), request.__name__)

    def negotiated(self, key: int, lowest: int, newest: int, subject: str) -> int:
        """The newest version that both sides have, of ``newest`` at most. Raises UnsupportedBrokerError where that is
        below ``lowest``."""
        low, high = self.versions.get(key, (0, -1))
        version = min(high, newest)
        if version < max(low, lowest):
            offered = f"{subject} {low} to {high}" if high >= low else f"no {subject}"
            raise UnsupportedBrokerError(
                f"broker {self.where} offers {offered}; {subject} {lowest} to {newest} is needed. "
                "It is older than that, or its cluster does not offer it"
            )
        return version

    def close(self, error: Exception | None = None) -> None:
        """Fails all requests without an answer with ``error``, by default a ConnectionLostError; whether a broker has
        carried them out is unknown. A second call changes nothing: the first reason counts."""
        if self.closed is not None:
            return
        self.closed = error or ConnectionLostError(f"connection to {self.where} closed")
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        if self._watch is not None:
            self._watch.cancel()
        self._sock.close()
        self._unsent.clear()
        self._frames.close()
        waiting, self._waiting = self._waiting, deque()
        for asked in waiting:
            if not asked.answer.done():
                asked.answer.set_exception(self.closed)
                asked.answer.exception()  # an abandoned request is no warning

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """Requests sent meanwhile, without awaiting anything, go to the socket together."""
        before, self._writing = self._writing, True
        try:
            yield
        finally:
            self._writing = before
            if not before and self.closed is None:
                self._writable()

    # socket

    def _enqueue(self, correlation: int, parts: list[memoryview], patience: float | None) -> asyncio.Future[Frame]:
        """A future for the response. An error of a closed connection is marked as retrieved, because asyncio would log
        it if the caller never awaits it. TLS gets one part, since each write becomes a separate TLS record."""
        future: asyncio.Future[Frame] = self._loop.create_future()
        if self.closed is not None:
            future.set_exception(self.closed)
            future.exception()
            return future
        patience = patience or self.settings.request_timeout
        self._enqueued += sum(map(len, parts))
        self._waiting.append(_Asked(correlation, future, patience, time.monotonic(), self._enqueued))
        if self._watch is None:
            self._watch = self._loop.call_later(WATCH_EVERY, self._check_timeout)
        if isinstance(self._sock, ssl.SSLSocket):
            parts = [memoryview(b"".join(parts))]
        self._unsent.extend(parts)
        if not self._writing:
            self._writable()
        return future

    def _writable(self) -> None:
        """Writes until the socket is full, then waits for it to become writable; called directly by ``_enqueue``, since
        most requests fit and a turn of the loop would only delay them. Plain sockets take several parts in one system
        call."""
        unsent = self._unsent
        try:
            while unsent:
                if isinstance(self._sock, ssl.SSLSocket):
                    sent = self._sock.send(unsent[0])
                else:
                    sent = self._sock.sendmsg(list(itertools.islice(unsent, VECTORS)))
                # A broker that still takes bytes of the oldest request, at ``LEAST_RATE`` or faster, is not silent.
                if self._waiting and self._sent < self._waiting[0].end:
                    self._progressed(sent, time.monotonic())
                self._sent += sent
                if self._sent == self._enqueued:
                    unsent.clear()
                    break
                # The call may end anywhere: in the middle of one part, or after several.
                while sent >= len(unsent[0]):
                    sent -= len(unsent.popleft())
                if sent:
                    unsent[0] = unsent[0][sent:]
        except (BlockingIOError, InterruptedError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._sock.fileno(), self._writable)
            return
        except OSError as error:
            self.close(lost(f"connection to {self.where} lost", self._alert() or error))
            return
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._sock.fileno())

    def _alert(self) -> OSError | None:
        """Why the broker hung up: its alert may wait to be read while a write already fails."""
        try:
            self._sock.recv(1)
        except ssl.SSLError as alert:
            return alert
        except OSError:
            pass
        return None

    def _readable(self) -> None:
        """Short answers are read several at a time; the rest of a long one goes straight to its final place."""
        budget, frames = READ_AT_ONCE, self._frames
        secure = isinstance(self._sock, ssl.SSLSocket)
        try:
            while budget > 0 and self.closed is None:
                room = frames.room()
                got = self._sock.recv_into(room)
                if got == 0:
                    raise ConnectionLostError(f"connection to {self.where} closed by the broker")
                budget -= got
                now = time.monotonic()
                self._progressed(got, now)
                short = not frames.within
                for frame in frames.received(got, now):
                    # Brokers answer in the order of the requests: another number means that both sides have lost step.
                    (correlation,) = SIZE.unpack_from(frame.body)
                    if not self._waiting or self._waiting[0].correlation != correlation:
                        frame.drop()
                        raise MalformedResponseError(
                            f"broker {self.where} answered request {correlation}, which is not the next one"
                        )
                    asked = self._waiting.popleft()
                    self._moved = time.monotonic()  # the next one is waited for from now on
                    self.round_trip = min(frame.began - asked.at, self.round_trip or math.inf)
                    if not asked.answer.done():
                        asked.answer.set_result(frame)
                    else:
                        frame.drop()
                if short and got < len(room) and not frames.within and not secure:
                    return  # nothing more to read; the selector says when
            if self.closed is None and isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
                self._loop.call_soon(self._readable)  # decrypted bytes do not wake the selector
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except (ConnectionLostError, MalformedResponseError) as error:
            self.close(error)
        except OSError as error:
            self.close(lost(f"connection to {self.where} lost", error))

    def _progressed(self, count: int, now: float) -> None:
        if self._waiting:
            self._moved = min(now, max(self._waiting[0].at, self._moved) + count / LEAST_RATE)

    def _check_timeout(self) -> None:
        """Only while an answer is awaited: a quiet connection wakes no task."""
        self._watch = None
        oldest = self._waiting[0] if self._waiting else None
        if oldest is not None and time.monotonic() > max(oldest.at, self._moved) + oldest.patience:
            self.close(ConnectionLostError(f"broker {self.where} did not answer in time"))
        elif oldest is not None:
            self._watch = self._loop.call_later(WATCH_EVERY, self._check_timeout)
