"""Pages in a real browser: ``make test-pages``. Not among the other tests, since few machines have a Chromium."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconciler.model.options import MapFormat
from reconciler.operations.serve.connections import Access
from reconciler.operations.serve.run import LiveApp, Renderer, answering
from reconciler.render.live.pages import TITLES
from reconciler.render.live.view import JobsSeen, LiveReading, LiveView, PageKind
from reconciler.render.map.formats import map_in
from reconciler.render.plan.html import plan_html
from reconciler.render.plan.sections import AboutPlan
from reconciler.render.reports.checkups import checkup_html
from reconciler.render.reports.failover import failover_html
from reconciler.render.reports.verify import verify_html
from requirements.axe import fetch
from tests.support.documents.live import large_view, seen_view, standings
from tests.support.documents.maps import changed_plan, copying, drawn, running
from tests.support.documents.plans import PLANS
from tests.support.documents.reports import CHECKUP, REPORT, VERIFICATION
from tests.support.fakes.chromium import Chromium
from tests.support.paths import ROOT

AXE = fetch(ROOT / "build" / "axe")
PICTURES = Path(os.environ["PICTURES"]) if "PICTURES" in os.environ else None
"""Where screenshots are kept, for people to look at."""


class Site:
    def __init__(self, port: int, views: list[LiveView]) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.views = views

    def lag(self, records: int) -> None:
        jobs = self.views[-1].jobs.value
        assert jobs is not None
        job = running("east", copying("west-to-east", records_lag=records))
        self.views.append(seen_view(now_ms(), jobs=LiveReading(JobsSeen({**jobs.mirrors, "east": job}), now_ms())))


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture
def site() -> Iterator[Site]:
    views, stop = [seen_view(now_ms())], threading.Event()
    app = LiveApp(Renderer(lambda: views[-1], standings, now_ms), stop).application(Access())
    with socket.create_server(("127.0.0.1", 0)) as listener, answering(app, listener):
        yield Site(listener.getsockname()[1], views)
        stop.set()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    with Chromium(tmp_path / "profile") as opened:
        yield opened


def kept(browser: Chromium, name: str) -> None:
    if PICTURES is not None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        browser.picture(PICTURES / f"{name}.png")


def test_figures_move_by_themselves_and_what_is_open_stays_open(browser: Chromium, site: Site) -> None:
    browser.show(f"{site.address}/flows/west-to-east")
    browser.until("document.getElementById('connection').textContent === 'live'")
    browser.run("document.querySelector('#head a').focus()")
    began = time.monotonic()
    site.lag(4_321)
    browser.until("document.getElementById('figures').innerText.includes('4,321')")
    assert time.monotonic() - began < 10, "a second on a machine with nothing else to do"
    assert browser.run("document.activeElement.getAttribute('href')") == "/groups?flow=west-to-east"
    browser.until("/[0-9]+ s ago/.test(document.getElementById('ages').innerText)")
    assert browser.problems == []


def test_a_plan_that_others_reads_is_not_replaced(browser: Chromium, site: Site) -> None:
    browser.show(f"{site.address}/plan")
    browser.until("document.getElementById('connection').textContent === 'live'")
    assert browser.run("document.getElementById('changed').hidden")
    before = browser.run("document.getElementById('plan').innerHTML")
    site.views.append(large_view(2, 2))
    browser.until("!document.getElementById('changed').hidden")
    assert browser.run("document.getElementById('plan').innerHTML") == before
    assert browser.problems == []


def test_a_server_that_is_gone_is_reported(browser: Chromium) -> None:
    view, stop = seen_view(now_ms()), threading.Event()
    app = LiveApp(Renderer(lambda: view, standings, now_ms), stop).application(Access())
    with socket.create_server(("127.0.0.1", 0)) as listener, answering(app, listener):
        browser.show(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        browser.until("document.getElementById('connection').textContent === 'live'")
        stop.set()
    browser.until("document.body.classList.contains('cut')")
    assert "not connected" in browser.run("document.getElementById('connection').textContent")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("kind", PageKind, ids=[title.split()[0].lower() for title in TITLES.values()])
def test_no_page_is_wider_than_the_window(
    browser: Chromium, site: Site, kind: PageKind, width: int, dark: bool
) -> None:
    query = "?flow=east-to-west" if kind is PageKind.GROUPS else ""
    browser.show(f"{site.address}/{kind.value}{query}", width, dark=dark)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.problems == []
    kept(browser, f"{kind.value or 'overview'}-{width}-{'dark' if dark else 'light'}")


def violations(browser: Chromium) -> list[str]:
    """What axe-core finds on the page that is open: rule, and the first element that breaks it."""
    browser.run(f"{AXE.read_text('utf-8')};0")
    browser.run("window.judged = null; axe.run(document).then(found => { window.judged = found.violations }); 0")
    browser.until("window.judged !== null")
    return list(browser.run("judged.map(each => each.id + ': ' + each.nodes[0].html.slice(0, 200))"))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("kind", PageKind, ids=[title.split()[0].lower() for title in TITLES.values()])
def test_axe_finds_nothing_on_the_live_page(browser: Chromium, site: Site, kind: PageKind, dark: bool) -> None:
    query = "?flow=east-to-west" if kind is PageKind.GROUPS else ""
    browser.show(f"{site.address}/{kind.value}{query}", dark=dark)
    assert violations(browser) == []


FILES: dict[str, Callable[[], str]] = {
    "plan": lambda: plan_html(PLANS["edited"](), about=AboutPlan()),
    "map": lambda: map_in(drawn(changed_plan()), MapFormat.HTML),
    "doctor": lambda: checkup_html(CHECKUP),
    "verify": lambda: verify_html(VERIFICATION),
    "failover": lambda: failover_html(REPORT),
}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", FILES)
def test_axe_finds_nothing_on_pages_that_are_files(browser: Chromium, tmp_path: Path, name: str, dark: bool) -> None:
    page = tmp_path / f"{name}.html"
    page.write_text(FILES[name]())
    browser.show(f"file://{page}", dark=dark)
    assert violations(browser) == []


def test_axe_itself_finds_what_is_wrong(browser: Chromium, tmp_path: Path) -> None:
    page = tmp_path / "wrong.html"
    page.write_text("<html><body><img src='x.png'><p style='color:#aaa;background:#bbb'>faint</p></body></html>")
    browser.show(f"file://{page}")
    assert {line.partition(":")[0] for line in violations(browser)} >= {"image-alt", "color-contrast", "html-has-lang"}


def test_the_essentials_are_there_without_scripts(browser: Chromium, site: Site) -> None:
    browser.show(f"{site.address}/", scripts=False)
    assert "1,234" in browser.run("document.getElementById('flows').innerText")
    site.lag(777)
    browser.until("document.getElementById('flows')?.innerText.includes('777')")


@pytest.mark.parametrize("width", [1400, 390])
def test_the_tables_of_a_plan_can_be_filtered_and_linked_to(browser: Chromium, tmp_path: Path, width: int) -> None:
    page = tmp_path / "plan.html"
    page.write_text(plan_html(PLANS["edited"](), about=AboutPlan()))
    browser.show(f"file://{page}", width)
    assert browser.run("document.documentElement.scrollWidth") <= width
    kept(browser, f"plan-file-{width}")
    shown = "[...document.querySelectorAll('tr[data-find]')].filter(each => !each.hidden).length"
    all_lines = browser.run(shown)
    browser.run("document.querySelector('input').value = 'partitions high'")
    browser.run("document.querySelector('input').dispatchEvent(new Event('input'))")
    assert 0 < browser.run(shown) < all_lines
    browser.run("document.querySelectorAll('details').forEach(each => each.open = false)")
    browser.run("location.hash = document.querySelector('a.sign').getAttribute('href')")
    browser.until("document.querySelector('a.sign').closest('details').open")
    assert browser.problems == []
