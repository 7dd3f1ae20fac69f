"""Lines of text for a terminal: broken between words at its width, and what follows is indented.

Only for terminals: in files and pipes each line stays whole, so that grep finds all of it.
"""

import re
import unicodedata
from collections.abc import Container, Sequence

from reconciler.text import columns

NARROWEST = 40
"""On a terminal of fewer columns lines stay whole, and the terminal breaks them."""
_LAST_COLUMN = 24
"""Text continues below the last column of a row if that column has so much room, else below the row's beginning."""
_CODE = re.compile(r"\x1b\[[0-9;]*m")
_ROW = re.compile(r"\S(?: \S|\S)*")


def wrapped(text: str, width: int | None) -> str:
    """``text`` in lines of at most ``width`` columns; None: as it is. A longer word stays whole, so that names and
    commands can be copied."""
    if width is None:
        return text
    parts: list[str] = []
    for line in text.split("\n"):
        if _cells(line) <= width:
            parts.append(line)
            continue
        # A row of columns continues below its last one, so that the eye still sees the columns; but only if that has
        # room for its longest word: a name that sticks out of the terminal is worse than a lost column.
        plain = _CODE.sub("", line)
        indent = len(plain) - len(plain.lstrip(" "))
        begin = min(indent + 2, width // 2)
        places = [match.start() for match in _ROW.finditer(plain)]
        if len(places) > 1:
            last = _cells(plain[: places[-1]])
            longest = max(map(_cells, plain[places[-1] :].split(" ")))
            begin = last if last + max(_LAST_COLUMN, longest) <= width else begin
        current = ""
        for word in re.findall(r" *[^ ]+", line):
            if current.strip() and _cells(current + word) > width:
                parts.append(current)
                current = " " * begin + word.lstrip(" ")
            else:
                current += word
        parts.append(current)
    return "\n".join(parts)


def table_lines(
    rows: Sequence[Sequence[str]], width: int | None, right: Container[int] = (), indent: str = ""
) -> list[str]:
    """A table whose first row is its titles, each line behind ``indent``. If it is wider than ``width`` columns, each
    row is its first cell, and its other cells with their titles below. ``right``: columns of numbers."""
    lines = [f"{indent}{line}" for line in columns(rows, right)]
    if width is None or max(map(_cells, lines), default=0) <= width:
        return lines
    lines, titles = [], [title.strip() for title in rows[0]]
    for name, *cells in rows[1:]:
        begin = " " * (len(name) - len(name.lstrip()) + 2)
        titled = (
            f"{title} {cell.strip()}".lstrip() for title, cell in zip(titles[1:], cells, strict=True) if cell.strip()
        )
        lines += [f"{indent}{name}", f"{indent}{begin}" + ", ".join(titled)]
    return lines


def _cells(text: str) -> int:
    """Columns that ``text`` takes: none for colours and combining characters, two for wide ones."""
    plain = _CODE.sub("", text)
    if plain.isascii():
        return len(plain)
    wide = sum(unicodedata.east_asian_width(char) in "WF" and not unicodedata.combining(char) for char in plain)
    return len(plain) + wide - sum(unicodedata.combining(char) > 0 for char in plain)
