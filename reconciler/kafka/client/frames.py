"""Splits the bytes of a socket into responses: many short ones in one read, a long one into pooled memory.

It knows no sockets: the reader asks where the next bytes go, and says how many came.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.kafka.client.buffers import Buffer, BufferPool
from reconciler.kafka.client.errors import MalformedResponseError

LARGEST_FRAME = 256 << 20
"""Bytes. A larger length means that the other side speaks another protocol, such as TLS or HTTP."""
POOLED_FROM = 1 << 15
"""Bytes; smaller frames are cheaper to allocate than to look up."""
READ_AHEAD = 16 << 10
"""Bytes that are read before a frame's length is known."""
SIZE = struct.Struct(">i")


@dataclass(slots=True)
class Frame:
    """A response: ``body`` begins with the correlation id. ``buffer`` is set when the body lies in pooled memory; the
    receiver then owns one hold on it."""

    body: memoryview
    buffer: Buffer | None
    began: float = 0.0
    """When its first bytes came."""
    seconds: float = 0.0
    """From these to its last."""

    def drop(self) -> None:
        """Gives its memory back."""
        buffer, self.buffer = self.buffer, None
        if buffer is not None:
            buffer.release()


class Frames:
    """Cuts one connection's bytes into frames."""

    def __init__(self, pool: BufferPool, where: str) -> None:
        self._pool = pool
        self._where = where
        self._ahead = memoryview(bytearray(READ_AHEAD))
        self._filled = 0
        self._rest: memoryview | None = None  # of the body of ``_frame``, still to come
        self._frame: Frame | None = None

    @property
    def within(self) -> bool:
        """The rest of a long frame is still to come."""
        return self._rest is not None

    def room(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        return self._rest if self._rest is not None else self._ahead[self._filled :]

    def received(self, count: int, now: float) -> Iterator[Frame]:
        """``count`` bytes lie in ``room()`` since ``now``: the frames that are whole with them. To be exhausted.

        Raises MalformedResponseError for a size that no answer has.
        """
        if self._rest is not None:
            if count < len(self._rest):
                self._rest = self._rest[count:]
            else:
                self._rest = None
                yield self._whole(now)
            return
        # Whole frames out of what was read ahead, and the beginning of a longer one.
        ahead, at, end = self._ahead, 0, self._filled + count
        self._filled = 0
        while end - at >= 4:
            (size,) = SIZE.unpack_from(ahead, at)
            if not 4 <= size <= LARGEST_FRAME:
                raise MalformedResponseError(f"broker {self._where} announced a response of {size} bytes")
            at += 4
            buffer = self._pool.take(size) if size >= POOLED_FROM else None
            body = memoryview(buffer.data)[:size] if buffer is not None else memoryview(bytearray(size))
            there = min(size, end - at)
            body[:there] = ahead[at : at + there]
            at += there
            self._frame = Frame(body, buffer, now)
            if there < size:
                self._rest = body[there:]
                return
            yield self._whole(now)
        if at < end:
            ahead[: end - at] = bytes(ahead[at:end])
        self._filled = end - at

    def close(self) -> None:
        self._rest = None
        if self._frame is not None:
            self._frame.drop()
            self._frame = None

    def _whole(self, now: float) -> Frame:
        frame, self._frame = self._frame, None
        assert frame is not None
        frame.seconds = now - frame.began
        return frame
