"""Words on a terminal that tell how far something is, each in place of the last; in a log a line every few seconds."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from reconciler.render.wrap import NARROWEST, wrapped

EVERY_S = 5.0
"""Between two lines of a log."""
_ERASE = "\r\x1b[K"
_ERASE_ABOVE = "\x1b[A\x1b[K"


def terminal_width(out: TextIO | None, environ: Mapping[str, str] = os.environ) -> int | None:
    """Columns of the terminal that ``out`` is, or as COLUMNS says; None when it is none, or too narrow to break lines
    for."""
    if out is None or not out.isatty():
        return None
    given = environ.get("COLUMNS", "")
    try:
        width = int(given) if given.isdecimal() and len(given) < 6 else os.get_terminal_size(out.fileno()).columns
    except (OSError, ValueError):
        return None
    return width if width >= NARROWEST else None


class MovingLine:
    """Whoever writes to the same terminal calls ``erase`` first. The first words, and those after a pause, are told at
    once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, environ: Mapping[str, str] = os.environ) -> None:
        self._clock, self._environ = clock, environ
        self._rows = 0
        self._next = float("-inf")

    def tell(self, text: str, out: TextIO) -> None:
        """Raises OSError."""
        width = terminal_width(out, self._environ)
        if width is None or self._environ.get("TERM") == "dumb":
            if self._clock() >= self._next:
                self._next = self._clock() + EVERY_S
                out.write(f"{text}\n")
                out.flush()
            return
        shown = wrapped(" ".join(text.split("\n")), width - 1)
        out.write(f"{self._erased()}{shown}")
        out.flush()
        self._rows = shown.count("\n") + 1

    def erase(self, out: TextIO) -> None:
        """Raises OSError."""
        if self._rows:
            out.write(self._erased())
            self._rows = 0

    def _erased(self) -> str:
        return _ERASE + _ERASE_ABOVE * (self._rows - 1) if self._rows else ""


@contextmanager
def counting_seconds(text: str, tell: Callable[[str], None]) -> Iterator[None]:
    """``text`` with the seconds it has taken, told each second while the body runs."""
    ended, began = threading.Event(), time.monotonic()

    def count() -> None:
        tell(text)
        while not ended.wait(1.0):
            tell(f"{text}: {time.monotonic() - began:.0f} s")

    thread = threading.Thread(target=count, name="seconds", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


MOVING = MovingLine()
"""The one of this process's standard error."""
