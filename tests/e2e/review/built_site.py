"""The site as ``make docs`` built it: ``make test-pages``. Links, addresses, headings and blocks of each page, those of
the tutorial, and the search in a Chromium."""

from __future__ import annotations

import functools
import html
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.fakes.chromium import Chromium
from tests.support.paths import ROOT

SITE = ROOT / "site"
PAGES = sorted(path.relative_to(SITE) for path in SITE.rglob("*.html") if path.name != "404.html")
assert len(PAGES) > 60, "make docs"
TUTORIAL = ROOT / "docs" / "begin" / "tutorial.md"


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.addresses: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [value for name in ("href", "src") if (value := given.get(name))]
        self.addresses += [value for name in ("id",) if (value := given.get(name))]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(tag)


@cache
def read(page: Path) -> _Page:
    parsed = _Page()
    parsed.feed((SITE / page).read_text("utf-8"))
    return parsed


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_link_leads_to_a_file_and_an_address_of_the_site(page: Path) -> None:
    lost = []
    for link in read(page).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or link.startswith("//"):
            continue
        target = (SITE / page).parent / unquote(parts.path) if parts.path else SITE / page
        target = (target / "index.html" if target.is_dir() else target).resolve()
        if not target.is_file() or not target.is_relative_to(SITE):
            lost.append(link)
            continue
        addresses = read(target.relative_to(SITE)).addresses if target.suffix == ".html" else ()
        if parts.fragment and addresses and unquote(parts.fragment) not in addresses:
            lost.append(link)
    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_page_has_one_title_addresses_of_their_own_and_no_fence_as_text(page: Path) -> None:
    text = (SITE / page).read_text("utf-8")
    if 'http-equiv="refresh"' in text:
        return
    assert read(page).headings.count("h1") == 1
    assert [address for address, count in Counter(read(page).addresses).items() if count > 1] == []
    assert "```" not in text.partition("<article")[2]


def blocks(page: str) -> list[str]:
    found = re.findall(r"<pre><span></span><code>(.*?)</code></pre>", page, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]*>", "", each)) for each in found]


def test_the_tutorial_has_the_blocks_that_its_test_runs() -> None:
    """What a reader copies from the built page is what ``test_tutorial.py`` types."""
    written = re.findall(r"^```(?:shell)?\n(.*?)^```", TUTORIAL.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks((SITE / "begin" / "tutorial.html").read_text("utf-8")) == written
    assert len(written) > 10


def test_schemas_lie_where_editors_are_sent() -> None:
    for path in (ROOT / "schemas").rglob("*.json"):
        assert json.loads((SITE / "schemas" / path.name).read_text("utf-8")) == json.loads(path.read_text("utf-8"))


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=str(SITE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    with Chromium(tmp_path / "profile") as opened:
        yield opened


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("record_refused", "mirror/conditions.html"),
        ("revoke access", "how-to/revoke-access.html"),
        ("mirror_flow_due_records", "reference/metrics.html"),
        ("webhooks", "mirror/running.html"),
    ],
)
def test_the_search_finds(browser: Chromium, served: str, words: str, page: str) -> None:
    browser.show(f"{served}/index.html")
    results: Any = "[...document.querySelectorAll('.md-search-result__link')].map(link => link.getAttribute('href'))"
    browser.run("document.querySelector('.md-search__input').focus(); 0")
    field = "document.querySelector('.md-search__input')"
    typed = f"{field}.value = {json.dumps(words)}; {field}.dispatchEvent(new KeyboardEvent('keyup', {{bubbles: true}}))"
    browser.run(f"{typed}; {field}.dispatchEvent(new Event('input', {{bubbles: true}})); 0")
    browser.until(f"{results}.some(link => link.includes({json.dumps(page)}))")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize(
    "page", ["index.html", "mirror/conditions.html", "reference/environment.html", "begin/concepts.html"]
)
def test_no_page_of_the_site_is_wider_than_the_window(
    browser: Chromium, served: str, page: str, width: int, dark: bool
) -> None:
    browser.show(f"{served}/{page}", width, dark=dark)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.problems == []
