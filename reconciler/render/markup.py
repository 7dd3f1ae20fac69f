"""What all reports write with: styles and wrapped lines for terminals, escapes for HTML and Markdown, JSON documents.

Names of topics obey Kafka's rules, but errors, reasons and labels hold whatever their authors wrote, so they are
escaped for each output. Colour only repeats what a sign or word already says. Only terminals get wrapped lines: in
files and pipes each line stays whole, so that grep finds all of it.
"""

import html
import re
import unicodedata
from collections.abc import Container, Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from reconciler.text import LONGEST_TEXT, columns, first_of, printable_json, shortened

SHOWN = 8
_COLOURS = {"+": "32", "~": "33", "!": "35", "-": "31", "bold": "1", "alarm": "1;31", "faint": "2"}
CODES = frozenset({"\x1b[0m", *(f"\x1b[{colour}m" for colour in _COLOURS.values())})


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class Style:
    colour: bool = False
    full: bool = False
    """Lists every name that the concise form folds."""
    width: int | None = None
    """Columns of the terminal; None: lines stay whole."""

    def paint(self, kind: str, text: str) -> str:
        return f"\x1b[{_COLOURS[kind]}m{text}\x1b[0m" if self.colour else text

    def listed(self, names: Sequence[str]) -> str:
        return first_of(names, len(names) if self.full else SHOWN)

    def cut(self, lines: Sequence[str], shown: int = SHOWN) -> Sequence[str]:
        """The first ones and how many more, indented as the first."""
        if self.full or len(lines) <= shown:
            return lines
        indent = " " * (len(lines[0]) - len(lines[0].lstrip()))
        return [*lines[:shown], f"{indent}and {len(lines) - shown} more"]


PLAIN = Style()


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


# Anything that could start a construct of GitHub's Markdown, as an entity: entities are text and never structure.
_MARKDOWN = re.compile(r"[\\`*_\[\]<&|~$]")
# GitHub and GitLab search for these in the rendered page, after decoding entities; a zero-width space stops that.
# GitLab also adds a note to each mentioned issue, merge request, epic or snippet.
_LINKED = re.compile(
    r"@(?=\w)|#(?=\d)|[!&$](?=\d)|\[(?=\w+:)|://|(?<=\bwww)\.|(?<=\bG[HL])-(?=\d)|:(?=[a-z0-9_+-]+:)", re.IGNORECASE
)
_SGR = re.compile(r"(\x1b\[[0-9;]*m)")
# Runners of Azure DevOps and TeamCity, and GitHub's first syntax, obey these anywhere in a line.
_COMMAND = re.compile(r"#(?=#(?:\[|vso\[|teamcity\[))")
# GitHub's today, at the beginning of a line.
_ORDER = re.compile(r"^(\s*):(?=:)")
_ZERO_WIDTH = "\u200b"
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str, longest: int | None = LONGEST_TEXT) -> str:
    """One line in which no character hides: control, format and bidirectional characters become their escapes, as do
    commands that some CI obeys anywhere in a line. A text that is too long is shortened (``shortened``)."""
    text = shortened(text, longest)
    if not text.isprintable():  # most text is printable: no category below, and no white space but the space
        chars = []
        for char in text:
            if char in "\r\n\t":
                chars.append(" ")
            elif unicodedata.category(char) not in _HIDDEN:
                chars.append(char)
            else:
                chars.append(f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}")
        text = "".join(chars)
    return no_command(text)


def no_command(text: str) -> str:
    """A line of text, or a document in JSON, for which the escape means the same."""
    return _COMMAND.sub(r"\\u0023", text)


def lines_of(lines: Iterable[str], style: Style = PLAIN) -> str:
    """Text output in which no value can begin a line, which a CI runner might obey, or control a terminal. Colour codes
    of ``style`` stay; with ``full``, lists keep any length."""
    longest, shown = None if style.full else LONGEST_TEXT, []
    for line in lines:
        parts = _SGR.split(line) if style.colour else [line]
        escaped = "".join(part if part in CODES else visible(part, longest) for part in parts)
        shown.append(_ORDER.sub(r"\1\\u003a", escaped) + "\n")
    return "".join(shown)


def markdown(text: str) -> str:
    """Plain text within a line of GitHub's Markdown, a table cell or a summary: no markup, mention or link."""
    apart = _LINKED.sub(
        lambda match: f":{_ZERO_WIDTH}//" if match.group() == "://" else match.group() + _ZERO_WIDTH, visible(text)
    )
    return _MARKDOWN.sub(lambda match: f"&#{ord(match.group())};", apart)


def code(text: str) -> str:
    """A code span, also in a table cell. HTML instead of backticks: a span of backticks cannot hold every text."""
    return f"<code>{markdown(text)}</code>"


def fence(text: str, language: str = "") -> str:
    """A fenced block that ``text`` cannot end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{text}\n{ticks}"


def page(text: str, longest: int | None = LONGEST_TEXT) -> str:
    """Text or an attribute's value of an HTML page."""
    return html.escape(visible(text, longest), quote=True)


def findable(texts: Iterable[str]) -> str:
    """An attribute's value, by which the filter of a page finds the elements that show one of ``texts``."""
    return page(" ".join(map(shortened, texts)).lower(), None)


FORMAT_VERSION = 1


def report_json(kind: str, environment: str, **fields: Any) -> str:
    """``fields`` in their order, after the head; a dataclass among them is an object of all its fields. ``kind``: the
    word of the report's schema."""
    document = {"format_version": FORMAT_VERSION, "kind": kind, "environment": environment, **fields}
    return printable_json(document, indent=2, default=asdict) + "\n"
