"""Text on a terminal: lines broken between words at its width, and one line that moves while something long runs.

Only for terminals: in files and pipes each line stays whole, so that grep finds all of it.
"""

from __future__ import annotations

import os
import re
import threading
import time
import unicodedata
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO

from reconciler.text import columns

NARROWEST = 40
"""Below so many columns lines stay whole, and the terminal breaks them."""
_LAST_COLUMN = 24
"""Text goes on below the last column of a row when that has so much room, else below the row's beginning."""
_CODE = re.compile(r"\x1b\[[0-9;]*m")
_ROW = re.compile(r"\S(?: \S|\S)*")


def wrapped(text: str, width: int | None) -> str:
    """``text`` in lines of at most ``width`` columns; None: as it is. A word that is longer stays whole, so that names
    and commands can be copied."""
    if width is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in _parts(line, width))


def table_lines(
    rows: Sequence[Sequence[str]], width: int | None, right: Container[int] = (), indent: str = ""
) -> list[str]:
    """A table whose first row is its titles, each line behind ``indent``. Where it is wider than ``width`` columns,
    each row is its first cell, and its other cells with their titles below. ``right``: columns of numbers."""
    lines = [f"{indent}{line}" for line in columns(rows, right)]
    if width is None or max(map(_cells, lines), default=0) <= width:
        return lines
    titles = [title.strip() for title in rows[0]]
    return [line for row in rows[1:] for line in _stacked(titles, row, indent)]


def _stacked(titles: Sequence[str], row: Sequence[str], indent: str) -> Iterator[str]:
    yield f"{indent}{row[0]}"
    begin = " " * (len(row[0]) - len(row[0].lstrip()) + 2)
    cells = zip(titles[1:], row[1:], strict=True)
    yield f"{indent}{begin}" + ", ".join(f"{title} {cell.strip()}".lstrip() for title, cell in cells if cell.strip())


def _parts(line: str, width: int) -> Iterator[str]:
    if _cells(line) <= width:
        yield line
        return
    current, words = "", re.findall(r" *[^ ]+", line)
    begin = _hanging(line, width)
    for word in words:
        if current.strip() and _cells(current + word) > width:
            yield current
            current = " " * begin + word.lstrip(" ")
        else:
            current += word
    yield current


def _hanging(line: str, width: int) -> int:
    """Where the line goes on: below its last column, where its words have room, or two behind where it begins."""
    plain = _CODE.sub("", line)
    indent = len(plain) - len(plain.lstrip(" "))
    places = [match.start() for match in _ROW.finditer(plain)]
    if len(places) > 1:
        last = _cells(plain[: places[-1]])
        longest = max(map(_cells, plain[places[-1] :].split(" ")))
        if last + max(_LAST_COLUMN, longest) <= width:
            return last
    return min(indent + 2, width // 2)


def _cells(text: str) -> int:
    plain = _CODE.sub("", text)
    return len(plain) if plain.isascii() else sum(map(_cell, plain))


def _cell(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


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
