"""Receive buffers that are used again: fresh memory costs a page fault per 4 KiB, more than the copy itself."""

from __future__ import annotations

SMALLEST = 1 << 16


class Buffer:
    """Bytes of one response frame. Whoever keeps a view of it holds it; the last ``release`` gives it back."""

    __slots__ = ("_holds", "_pool", "data")

    def __init__(self, pool: BufferPool, size: int) -> None:
        self.data = bytearray(size)
        self._pool = pool
        self._holds = 1

    def take(self) -> Buffer:
        self._holds = 1
        return self

    def hold(self) -> None:
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        if self._holds == 0:
            self._pool.give_back(self)
        elif self._holds < 0:
            raise AssertionError("a receive buffer was released twice")


class BufferPool:
    """Buffers in few sizes, four to a doubling. ``held``: bytes given out. ``keep``: most bytes kept idle."""

    def __init__(self, keep: int = 48 << 20) -> None:
        self._idle: dict[int, list[Buffer]] = {}
        self._keep = keep
        self._idle_bytes = 0
        self.held = 0

    def take(self, size: int) -> Buffer:
        """A buffer of at least ``size`` bytes, held once."""
        step = max(SMALLEST, 1 << max(0, size.bit_length() - 3))
        rounded = -(-size // step) * step
        self.held += rounded
        idle = self._idle.get(rounded)
        if idle:
            self._idle_bytes -= rounded
            return idle.pop().take()
        return Buffer(self, rounded)

    def give_back(self, buffer: Buffer) -> None:
        size = len(buffer.data)
        self.held -= size
        if self._idle_bytes + size <= self._keep:
            self._idle_bytes += size
            self._idle.setdefault(size, []).append(buffer)
