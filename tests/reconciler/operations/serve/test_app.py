"""The application: pages by address, the status as `status` prints it, and parts that are sent when they change."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest
from starlette.types import ASGIApp

from reconciler.errors import Unknown
from reconciler.operations.serve import run as serving
from reconciler.operations.serve.connections import Access
from reconciler.operations.serve.run import LiveApp, Renderer
from reconciler.render.live.flows import Standings
from reconciler.render.live.view import JobsSeen, LiveReading, LiveView, PageKind
from reconciler.render.reports.status import StatusInputs, status_json
from tests.support.documents.live import NOW_MS, seen_view, standings
from tests.support.documents.maps import copying, observed, regions, running
from tests.support.fakes.browser import ask


class Site:
    """A view that the test advances, and the requests for offsets of groups."""

    def __init__(self) -> None:
        self.view: LiveView = seen_view()
        self.now_ms = NOW_MS
        self.asked: list[str] = []
        self.stop = threading.Event()

    def standings(self, flow: str) -> Standings | Unknown:
        self.asked.append(flow)
        return standings(flow)

    @property
    def app(self) -> ASGIApp:
        renderer = Renderer(lambda: self.view, self.standings, lambda: self.now_ms)
        return LiveApp(renderer, self.stop).application(Access())


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.mark.parametrize("path", ["/", *(f"/{kind.value}" for kind in PageKind if kind.value), "/flows/west-to-east"])
def test_each_page_has_its_address(site: Site, path: str) -> None:
    answer = ask(site.app, path)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert f'data-events="/events{path}"' in answer.body
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/nothing", "/events/nothing", "/flows/a/b", "/../etc/passwd"])
def test_another_address_is_nowhere(site: Site, path: str) -> None:
    assert ask(site.app, path).status == 404


def test_a_page_number_that_is_none_is_the_first(site: Site) -> None:
    for number in ("x", "-1", "0", "99999999999999", "\u0663", "1.5"):
        assert ask(site.app, f"/topics?page={number.encode().decode('latin-1')}").status == 200


def test_the_status_is_that_of_the_command(site: Site) -> None:
    told = json.loads(ask(site.app, "/status.json").body)
    declared = site.view.topology
    said = json.loads(status_json(declared, observed(regions()), NOW_MS, StatusInputs(None)))
    assert told == said


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in text.split("\n") if line.startswith("data: ")]


def test_a_change_is_sent_by_itself_and_what_stays_is_not_sent_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    async def pause(_seconds: float) -> None:
        nonlocal looks
        looks += 1
        site.now_ms += 1_000
        if looks == 1:
            job = running("east", copying("west-to-east", records_lag=777))
            assert site.view.jobs.value is not None
            mirrors = {**site.view.jobs.value.mirrors, "east": job}
            site.view = replace(site.view, jobs=LiveReading(JobsSeen(mirrors), site.now_ms))
        if looks == 20:
            site.stop.set()

    monkeypatch.setattr("reconciler.operations.serve.run.asyncio.sleep", pause)
    answer = ask(site.app, "/events/")
    assert answer.headers["content-type"].startswith("text/event-stream")
    first, second, *rest = events(answer.body)
    names = [part["name"] for part in first["parts"]]
    assert names == ["head", "ages", "tiles", "todo", "map", "flows", "clusters", "jobs", "rollout"]
    changed = {part["name"]: part.get("html", "") for part in second["parts"]}
    assert "777" in changed["flows"]
    assert "clusters" not in changed
    assert all(not event["parts"] or event["now"] > first["now"] for event in rest)
    assert any(not event["parts"] for event in rest), "a browser notices when nothing comes"


def test_a_page_that_is_being_read_only_gets_a_notice_of_the_change(site: Site) -> None:
    first, *_ = events(ask(site.app, "/events/plan", pieces=2).body)
    [plan] = [part for part in first["parts"] if part["name"] == "plan"]
    assert "html" not in plan
    assert plan["digest"] in ask(site.app, "/plan").body


def test_groups_are_asked_by_who_opens_the_page_and_not_by_those_who_keep_it_open(site: Site) -> None:
    assert "billing" in ask(site.app, "/groups?flow=east-to-west").body
    ask(site.app, "/events/groups?flow=east-to-west", pieces=2)
    ask(site.app, "/groups")
    assert site.asked == ["east-to-west"]


def test_the_streams_are_counted_and_end_with_their_browsers(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MOST_STREAMS", 1)
    app = site.app
    for _ in range(3):
        assert ask(app, "/events/", pieces=2).status == 200


def test_many_browsers_cost_one_rendering_a_second(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[object] = []

    def counted(*asked: Any) -> Any:
        rendered.append(asked)
        return ()

    monkeypatch.setattr(serving, "regions", counted)
    app = site.app
    for _ in range(5):
        ask(app, "/flows")
    assert len(rendered) == 1
    site.now_ms += 1_000
    ask(app, "/flows")
    assert len(rendered) == 2
