"""Escapes text from clusters and files for HTML, Markdown and terminals.

Names of topics obey Kafka's rules, but errors, reasons and labels hold whatever their authors wrote.
"""

import html
import re
import unicodedata
from collections.abc import Iterable

from reconciler.render.style import CODES, PLAIN, Style
from reconciler.text import LONGEST_TEXT, shortened

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
