"""HTML pages and comments taken apart."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from reconciler.render.page import CSS, SCRIPT

NASTY = "a|b `x` ``` <img src=x onerror=alert(1)> @octocat #12 </details> --> **b** https://e.vil\n# h\u202e"


def undressed(text: str) -> str:
    """Without style and script, which are files of their own."""
    return text.replace(CSS, "/* style */").replace(SCRIPT, "/* script */")


FOREIGN = {"img", "iframe", "object", "embed", "link", "form", "svg", "video", "audio", "base", "b"}


class Elements(HTMLParser):
    """Tags with attributes, and the text between them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def elements(text: str) -> Elements:
    found = Elements()
    found.feed(text)
    found.close()
    assert found.open == []
    return found


def words(text: str) -> str:
    return "".join(elements(text).text)


def unescaped(text: str) -> str:
    return re.sub(r"&#(\d+);", lambda found: chr(int(found[1])), text).replace("\u200b", "")
