"""What no output may hold, whatever an environment or a cluster says: what a terminal, a browser or CI obeys."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser

from markdown_it import MarkdownIt
from markdown_it.token import Token

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_COMMANDS = ("::", "##[", "##vso[", "##teamcity[", "section_start:", "section_end:")
"""Of GitHub, Azure, TeamCity and GitLab, which look at the beginning of a line."""
_ANYWHERE = re.compile(r"##(?:\[|vso\[|teamcity\[)")
"""GitHub's old syntax, and those of Azure and TeamCity, may stand anywhere in it."""
_TRACEBACK = ("Traceback (most recent call last)", "\nTypeError:", "\nKeyError:", "\nValueError:", "\nRecursionError:")
_MARKDOWN = MarkdownIt("gfm-like", {"linkify": False, "html": True})
_TAGS = re.compile(r"</?([A-Za-z][A-Za-z0-9-]*)((?:\s[^<>]*)?)/?>|<!--.*?-->", re.DOTALL)
_SAFE_TAGS = frozenset(
    {"code", "details", "summary", "br", "sub", "b", "i", "strong", "kbd", "pre", "p", "table", "tr", "td", "th"}
)
_LINKED = re.compile(r"(?<![\w`/.])@\w|(?<![\w&])[#!$&][0-9]|\bGH-[0-9]|[a-z]://\w|\bwww\.\w", re.IGNORECASE)
"""Which GitHub or GitLab makes links of, wherever they stand in a text."""


def in_terminal(text: str, *, invisible: str = "", document: bool = False) -> Iterator[str]:
    """``invisible``: characters of ours among these. ``document``: JSON that no command has printed yet."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith(_COMMANDS) or (not document and _ANYWHERE.search(line)):
            yield f"line {number} is a command of CI: {line[:120]!r}"
        for char in line:
            if unicodedata.category(char) in _HIDDEN and char not in invisible:
                yield f"line {number} holds {char!r}: {line[:120]!r}"
                break
    for words in _TRACEBACK:
        if words in text:
            yield f"a traceback: {text[text.index(words) :][:2000]}"


class Page(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(f"{tag} {name}")
            loads = (value or "").strip().lower().startswith(("javascript:", "data:text", "http:", "https:", "//"))
            if name.startswith("on") or (loads and name != "xmlns"):
                self.faults.append(f"<{tag} {name}={(value or '')[:80]!r}>")

    def handle_comment(self, data: str) -> None:
        self.faults.append(f"a comment: {data[:80]!r}")


def page_of(html: str) -> Page:
    page = Page()
    page.feed(html)
    page.close()
    return page


def in_browser(html: str, usual: Page) -> Iterator[str]:
    """``usual``: a page of a friendly environment, which has all that pages have."""
    page = page_of(html)
    yield from page.faults
    if more := sorted(page.tags - usual.tags):
        yield f"tags that no page has: {more}"
    if more := sorted(page.attributes - usual.attributes):
        yield f"attributes that no page has: {more}"


def in_comment(markdown: str) -> Iterator[str]:
    """As GitHub reads it: no link, picture, mention or tag but those of ours."""
    for token in _tokens(_MARKDOWN.parse(markdown)):
        match token.type:
            case "link_open" | "image":
                yield f"a link: {token.attrs}"
            case "html_block" | "html_inline":
                yield from _tags(token.content)
            case "text" if found := _LINKED.search(token.content):
                yield f"a mention or link: {token.content[max(0, found.start() - 20) :][:80]!r}"


def _tags(content: str) -> Iterator[str]:
    for tag in _TAGS.finditer(content):
        if tag.group().startswith("<!--"):
            continue
        if tag.group(1).lower() not in _SAFE_TAGS or tag.group(2).strip() not in ("", "open", "/"):
            yield f"a tag: {tag.group()[:120]!r}"


def _tokens(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _tokens(token.children or [])
