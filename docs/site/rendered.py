"""What a page has lost on its way to the site: fences that became text, headings that a block of code swallowed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

_FENCE = re.compile(r"^ *```[^\n]*\n.*?^ *```[ \t]*$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_HEADING = re.compile(r"^(#{1,6}) +(.+)$", re.MULTILINE)


class _Page(HTMLParser):
    """How many headings and blocks of code a page has, and its text outside of code."""

    def __init__(self) -> None:
        super().__init__()
        self.headings = self.blocks = self._code = 0
        self.prose: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.headings += bool(re.fullmatch("h[1-6]", tag))
        self.blocks += tag == "pre"
        self._code += tag in ("pre", "code")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("pre", "code")

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.prose.append(data)


def faults(markdown: str, html: str) -> Iterator[str]:
    """``html``: the content that was made of ``markdown``. A sentence for each difference."""
    page = _Page()
    page.feed(html)
    text = _COMMENT.sub("", markdown)
    fences, headings = len(_FENCE.findall(text)), len(_HEADING.findall(_FENCE.sub("", text)))
    if "```" in "".join(page.prose) or "```" in html:
        yield "a fence of code is shown as text: write ```language and nothing after it"
    if page.blocks != fences:
        yield f"{fences} fences are written, {page.blocks} blocks of code are shown"
    if page.headings != headings:
        yield f"{headings} headings are written, {page.headings} are shown"
