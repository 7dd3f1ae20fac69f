"""Escapes text from clusters and files for HTML, Markdown and terminals.

Names of topics obey Kafka's rules, but errors, reasons and labels hold whatever somebody wrote.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable

from reconciler.render.style import CODES, PLAIN, Style

# Anything that could start a construct of GitHub's Markdown, as an entity: entities are text and never structure.
_MARKDOWN = re.compile(r"[\\`*_\[\]<&|~$]")
# GitHub looks for these in the finished page, after entities are text again; an empty space between stops it.
_LINKED = re.compile(r"@(?=\w)|#(?=\d)|://|(?<=\bwww)\.|(?<=\bGH)-(?=\d)|:(?=[a-z0-9_+-]+:)", re.IGNORECASE)
_SGR = re.compile(r"(\x1b\[[0-9;]*m)")
_ZERO_WIDTH = "\u200b"
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str) -> str:
    """One line in which no character hides: control, format and bidirectional characters become their escapes."""
    if text.isprintable():  # nearly all is: none of the categories below, and no white space but the space
        return text
    return "".join(
        " " if char in "\r\n\t" else char if unicodedata.category(char) not in _HIDDEN else _escape(char)
        for char in text
    )


def lines_of(lines: Iterable[str], style: Style = PLAIN) -> str:
    """Text output. What a value holds begins no line of its own, which a log of CI might obey, and steers no terminal.
    ``style``: with colour its codes stay."""
    return "".join(f"{_shown(line) if style.colour else visible(line)}\n" for line in lines)


def _shown(line: str) -> str:
    return "".join(part if part in CODES else visible(part) for part in _SGR.split(line))


def markdown(text: str) -> str:
    """Plain text within a line of GitHub's Markdown, a table cell or a summary: no markup, mention or link."""
    apart = _LINKED.sub(lambda match: _parted(match.group()), visible(text))
    return _MARKDOWN.sub(lambda match: f"&#{ord(match.group())};", apart)


def code(text: str) -> str:
    """A code span, also in a table cell. HTML instead of backticks: a span of backticks cannot hold every text."""
    return f"<code>{markdown(text)}</code>"


def fence(text: str, language: str = "") -> str:
    """A fenced block that ``text`` cannot end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{text}\n{ticks}"


def page(text: str) -> str:
    """Text or an attribute's value of an HTML page."""
    return html.escape(visible(text), quote=True)


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"


def _parted(text: str) -> str:
    return text + _ZERO_WIDTH if text != "://" else f":{_ZERO_WIDTH}//"
