"""Pool of receive buffers: fresh memory costs a page fault per 4 KiB, more than the copy itself."""

from __future__ import annotations

import bisect
import itertools
import threading

SMALLEST = 1 << 16
"""Bytes; sizes are rounded up in steps, so that a buffer fits answers of about the same size."""
KEEP = 64 << 20
"""Bytes that a pool keeps."""


class Spares:
    """Free buffers, shared by all lanes of a process and kept between leases, up to ``keep`` bytes; the least recently
    used are freed first."""

    def __init__(self, keep: int = KEEP) -> None:
        self._lock = threading.Lock()
        self._given = itertools.count()
        self._order: list[tuple[int, int]] = []  # (size, when given)
        self._buffers: dict[int, bytearray] = {}  # by when given
        self._keep = keep
        self._kept = 0

    def take(self, size: int) -> bytearray | None:
        """The smallest buffer of at least ``size`` and at most twice that, if there is one; of several the one that
        was used last, which a processor's cache may still hold."""
        with self._lock:
            order = self._order
            at = bisect.bisect_left(order, (size, 0))
            if at == len(order) or order[at][0] > max(2 * size, SMALLEST):
                return None
            fits, when = order.pop(bisect.bisect_left(order, (order[at][0] + 1, 0)) - 1)
            self._kept -= fits
            return self._buffers.pop(when)

    def give(self, data: bytearray) -> None:
        """Keeps it for a later ``take``. The ones that were given longest ago make room."""
        size = len(data)
        if size > self._keep:
            return
        with self._lock:
            while self._kept + size > self._keep:
                when, oldest = next(iter(self._buffers.items()))
                del self._buffers[when]
                del self._order[bisect.bisect_left(self._order, (len(oldest), when))]
                self._kept -= len(oldest)
            when = next(self._given)
            bisect.insort(self._order, (size, when))
            self._buffers[when] = data
            self._kept += size


class Buffer:
    """Bytes of one response frame, reference-counted: the last ``release`` returns it to the pool.

    A part of the program that keeps a view of it calls ``hold``; each hold is released exactly once. Not thread-safe:
    all holders belong to one event loop.
    """

    __slots__ = ("_holds", "_pool", "data")

    def __init__(self, pool: BufferPool, data: bytearray) -> None:
        self.data = data
        self._pool = pool
        self._holds = 1

    def hold(self) -> None:
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        # A buffer that is released too often would be filled with another response under a reader of this one.
        if self._holds == 0:
            self._pool.give_back(self.data)
        elif self._holds < 0:
            raise AssertionError("a receive buffer was released twice")


class BufferPool:
    """Buffers in use by one cluster's connections. ``held``: bytes in use."""

    def __init__(self, spares: Spares | None = None) -> None:
        self._spares = spares or _SPARES
        self.held = 0

    def take(self, size: int) -> Buffer:
        """A buffer of at least ``size`` bytes, held once."""
        data = self._spares.take(size)
        # Rounded up in steps of a quarter of the power of two below, so that the next answer of that size fits.
        if data is None:
            step = max(SMALLEST, 1 << max(0, size.bit_length() - 3))
            data = bytearray(-(-size // step) * step)
        self.held += len(data)
        return Buffer(self, data)

    def give_back(self, data: bytearray) -> None:
        self.held -= len(data)
        self._spares.give(data)


_SPARES = Spares()
