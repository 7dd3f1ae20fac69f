"""Threads that work beside a soak until it is over."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Beside:
    """Begins its works when it is entered. ``stop`` is set when it is left, and each then has ``patience_s``."""

    def __init__(self, *works: Callable[[], None], patience_s: float) -> None:
        self.stop = threading.Event()
        self._patience_s = patience_s
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join(self._patience_s)
