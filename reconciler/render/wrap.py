"""Lines of text for a terminal: broken between words at its width, and what goes on is indented.

Only for terminals: in files and pipes each line stays whole, so that grep finds all of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterator, Sequence

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
