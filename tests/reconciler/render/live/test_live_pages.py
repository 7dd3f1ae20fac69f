"""The live page says what `status`, `plan` and `drift` say, and what it does not know is unknown."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from reconciler.errors import Unknown
from reconciler.model.live import LiveMirror
from reconciler.render.live.flows import Standings
from reconciler.render.live.pages import LIVE_CSS, LIVE_SCRIPT, TITLES, live_html, live_policy, regions
from reconciler.render.live.view import (
    TOO_OLD_MS,
    JobsSeen,
    LivePage,
    LiveReading,
    LiveView,
    PageKind,
    affairs_now,
    live_now,
)
from reconciler.render.page import SCRIPT
from reconciler.render.reports.status import status_json
from reconciler.replication.status import PartitionLag
from tests.support.builders import cluster, flow, topic, topology, world
from tests.support.documents.live import NOW_MS, large_view, seen_view, standings, view_of
from tests.support.documents.live_values import condition, pause
from tests.support.documents.maps import copying, running
from tests.support.documents.pages import NASTY, elements, words

LATER = NOW_MS + 1_000
PAGES = [LivePage(kind) for kind in PageKind] + [
    LivePage(PageKind.FLOWS, "west-to-east"),
    LivePage(PageKind.GROUPS, "east-to-west"),
]


def html(view: LiveView, page: LivePage, now_ms: int = LATER, groups: Standings | Unknown | None = None) -> str:
    chosen = groups or (standings() if page.kind is PageKind.GROUPS and page.flow else None)
    return live_html(view, page, regions(view, page, now_ms, chosen), "", now_ms)


def text(view: LiveView, page: LivePage, now_ms: int = LATER) -> str:
    return " ".join(words(html(view, page, now_ms)).split())


def status(view: LiveView, now_ms: int = LATER) -> dict[str, object]:
    return json.loads(status_json(view.topology, live_now(view, now_ms), now_ms, affairs_now(view, now_ms)))


def test_the_first_page_has_the_figures_of_status() -> None:
    view = seen_view()
    told, page = status(view), text(view, LivePage())
    assert f"<h1>{told['verdict']}</h1>" in html(view, LivePage())
    east = told["mirrors"]["east"]["flows"]["west-to-east"]  # type: ignore[index]
    assert f"{east['records_lag']:,}" in page
    assert "12,000" in page
    assert "record-too-large" in page
    for name, of_cluster in told["clusters"].items():  # type: ignore[attr-defined]
        assert f"{of_cluster['topics']} topic" in page
        assert of_cluster["cluster_id"] in page
        assert name in page


def test_a_job_that_no_one_can_see_is_unknown_on_every_page() -> None:
    view = seen_view()
    for page in (LivePage(), LivePage(PageKind.FLOWS)):
        rows = re.findall(r"<tr>(?:(?!</tr>).)*?west-to-hub.*?</tr>", html(view, page))
        assert rows
        assert "unknown" in rows[-1]
        assert ">0<" not in rows[-1]
    assert "its status could not be read" in text(view, LivePage())


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_before_the_first_answer_nothing_is_said_to_be_so(page: LivePage) -> None:
    view = LiveView(seen_view().topology)
    shown = html(view, page)
    assert "unknown" in shown or page.kind is PageKind.GROUPS
    assert not re.search(r"lag 0\b|no drift|Nothing to do", shown)


def test_lag_that_was_read_long_ago_is_no_lag_of_now() -> None:
    view = seen_view()
    assert "1,234" in text(view, LivePage(PageKind.FLOWS), NOW_MS + 5_000)
    old = text(view, LivePage(PageKind.FLOWS), NOW_MS + 15_000)
    assert "unknown; 1,234 when last reported" in old
    assert "12 s" not in old
    assert status(view, NOW_MS + 15_000)["mirrors"]["east"]["flows"]["west-to-east"]["records_lag"] is None  # type: ignore[index]


def test_what_was_read_very_long_ago_is_unknown_as_a_whole() -> None:
    view, now_ms = seen_view(), NOW_MS + TOO_OLD_MS + 1_000
    told = status(view, now_ms)
    assert {each["state"] for each in told["clusters"].values()} == {"unknown"}  # type: ignore[attr-defined]
    assert {each["state"] for each in told["mirrors"].values()} == {"unknown"}  # type: ignore[attr-defined]
    assert told["lock"]["state"] == "unknown"  # type: ignore[index]
    assert "it was last read 91 s ago" in text(view, LivePage(), now_ms)


def test_why_the_newest_reading_failed_is_reported_beside_the_older_one() -> None:
    view = seen_view()
    failed = replace(view, review=replace(view.review, failure=Unknown("plan", "the disk is full", "Make space.")))
    assert "the newest try failed: the disk is full" in text(failed, LivePage())


def test_a_folder_that_cannot_be_read_is_reported_with_what_to_do() -> None:
    page = text(seen_view(folder_problem="3 problems in the topology\nRun validate."), LivePage())
    assert "3 problems in the topology" in page
    assert "Run validate." in page


def test_one_flow_has_what_to_do_and_the_partitions_that_lag() -> None:
    view = seen_view()
    behind = PartitionLag("refunds", 3, 1_200, None)
    jobs = running("east", copying("west-to-east", records_lag=1_234, worst_partitions=(behind,)))
    view = replace(view, jobs=LiveReading(JobsSeen({**view.jobs.value.mirrors, "east": jobs}), NOW_MS))  # type: ignore[union-attr]
    page = text(view, LivePage(PageKind.FLOWS, "west-to-east"))
    assert "refunds31,200unknown" in page
    assert "the oldest record to copy is of unknown age" in page
    assert "unknown: no job reports now" in text(view, LivePage(PageKind.FLOWS, "west-to-hub"))
    assert "No flow nobody is declared" in text(view, LivePage(PageKind.FLOWS, "nobody"))


def test_the_plan_and_the_drift_are_those_of_the_commands() -> None:
    view = seen_view()
    assert "1 change" in text(view, LivePage(PageKind.PLAN))
    assert "new" in text(view, LivePage(PageKind.PLAN))
    assert "Drift: 1 difference" in text(view, LivePage(PageKind.DRIFT))


def test_groups_have_present_and_translated_offsets_on_both_sides() -> None:
    page = text(seen_view(), LivePage(PageKind.GROUPS, "east-to-west"))
    assert "orders-0120east.orders-0100118" in page
    assert "orders-150east.orders-1nowhere yet40not exact: the map has a gap there" in page
    assert "share groups have no offsets of this kind" in page
    denied = Unknown("flow east-to-west", "the login is denied", "Run doctor.")
    assert "unknown: the login is denied" in words(
        html(seen_view(), LivePage(PageKind.GROUPS, "east-to-west"), groups=denied)
    )


def test_who_changed_what_is_reported_with_whether_the_record_is_whole() -> None:
    page = text(seen_view(), LivePage(PageKind.AUDIT))
    assert "apply by ann@laptop: 2 changes ended 1 not done" in page
    assert "not enough brokers" in page
    assert "Lock: no one holds it" in page


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_names_are_text_and_nothing_is_asked_of_others(page: LivePage) -> None:
    nasty = f'<script>alert("1")</script>{NASTY}'
    declared = topology(
        cluster("east", region=nasty), cluster("west"), topic("orders", "east", partitions=1, labels={"owner": nasty}),
        flow("east", "west", "orders", name="f"), environment=nasty,
    )  # fmt: skip
    seen = world("east", "west")
    seen.apply(declared)
    told = condition(nasty, nasty, nasty, topic=nasty, partition=1)
    job = running("west", copying("f", conditions=(told,), worst_partitions=(PartitionLag(nasty, 0, 1, None),)))
    live = seen.look(declared)
    view = view_of(declared, replace(live, mirrors={"west": job}), seen)
    page = replace(page, flow="f" if page.flow else "", search=nasty, cluster=nasty)
    shown = live_html(view, page, regions(view, page, LATER, standings("f", nasty)), f"?q={nasty}", LATER)
    found = elements(shown)
    assert [tag for tag, _ in found.tags].count("script") == 2
    assert {tag for tag, _ in found.tags}.isdisjoint({"img", "iframe", "object", "embed", "base", "b onerror"})
    for tag, attributes in found.tags:
        assert not attributes.keys() & {"src", "srcset", "style"}
        assert not [name for name in attributes if name.startswith("on")]
        if tag == "a":
            assert (attributes["href"] or "#")[0] in "#/"


def test_the_policy_allows_its_own_style_and_scripts_and_nothing_else() -> None:
    policy = live_policy()
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "http" not in policy
    shown = html(seen_view(), LivePage())
    assert f"<style>{LIVE_CSS}</style>" in shown
    assert re.findall(r"<script>(.*?)</script>", shown, re.DOTALL) == [SCRIPT, LIVE_SCRIPT]
    assert "url(" not in LIVE_CSS


def test_the_essentials_need_no_script() -> None:
    shown = html(seen_view(), LivePage())
    assert '<noscript><meta http-equiv="refresh" content="10"></noscript>' in shown
    for kind, title in TITLES.items():
        assert f'<a href="/{kind.value}"' in shown
        assert title in shown


def test_it_can_be_used_by_keys_and_read_aloud() -> None:
    for page in PAGES:
        found = elements(html(seen_view(), page))
        names = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
        assert len(names) == len(set(names))
        assert [tag for tag, _ in found.tags].count("h1") == 1
        assert ("a", {"class": "skip", "href": "#main"}) in found.tags
        current = [attributes["href"] for tag, attributes in found.tags if tag == "a" and "aria-current" in attributes]
        assert f"/{page.kind.value}" in current


def test_of_many_topics_a_page_is_sent_and_all_can_be_found() -> None:
    view = large_view(400, 4)
    page = html(view, LivePage(PageKind.TOPICS))
    assert page.count("<tr>") == 101
    assert "1,200 topics" in page
    assert 'href="/topics?cluster=&amp;q=&amp;page=12"' in page
    last = text(view, LivePage(PageKind.TOPICS, number=99))
    assert "topic-00399" in last
    assert "topic-00299" not in last
    chosen = text(view, LivePage(PageKind.TOPICS, cluster="hub", search="TOPIC-0039 declared"))
    assert "10 topics" in chosen
    assert "no topic matches" in text(view, LivePage(PageKind.TOPICS, search="nothing"))


def test_of_many_flows_the_first_page_has_those_with_a_problem() -> None:
    view = large_view(2, 60)
    assert view.jobs.value is not None
    mirrors = dict(view.jobs.value.mirrors)
    for name, job in mirrors.items():
        if isinstance(job, LiveMirror) and "flow-059" in job.flows:
            mirrors[name] = replace(
                job, flows={**job.flows, "flow-059": replace(job.flows["flow-059"], state="degraded")}
            )
    view = replace(view, jobs=LiveReading(JobsSeen(mirrors), NOW_MS))
    [flows] = [part.html for part in regions(view, LivePage(), LATER, None) if part.name == "flows"]
    assert flows.count("<tr>") == 41
    assert flows.index("flow-059") < flows.index("flow-001")
    [listed] = [part.html for part in regions(view, LivePage(PageKind.FLOWS), LATER, None) if part.name == "flows"]
    assert words(listed).count("flow-0") == 60


def test_runbooks_are_links_where_the_environment_says_where_the_pages_are() -> None:
    view = seen_view()
    refused = condition("record_refused")
    jobs = running("east", copying("west-to-east", conditions=(refused,)))
    view = replace(view, jobs=LiveReading(JobsSeen({**view.jobs.value.mirrors, "east": jobs}), NOW_MS))  # type: ignore[union-attr]
    assert '<a href="docs' not in html(view, LivePage())
    for docs_url, link in (
        ("https://docs.example.net/r/", "https://docs.example.net/r/mirror/conditions.html#record_refused"),
        (
            "https://git.example/o/r/blob/main/docs",
            "https://git.example/o/r/blob/main/docs/mirror/conditions.md#record_refused",
        ),
    ):
        rules = replace(view.topology.rules, docs_url=docs_url)
        linked = replace(view, topology=replace(view.topology, rules=rules))
        assert f'<a href="{link}"' in html(linked, LivePage())
        assert link in str(status(linked))


def test_after_a_failover_no_page_says_that_all_is_fine() -> None:
    """Clusters answer, the job runs, and nothing is copied: a lag that grows is seen, with who paused and why."""
    view = seen_view()
    failed_over = pause(6, 6, "failover to west")
    paused = copying("east-to-west", state="paused", records_lag=1_161, pauses=(failed_over,))
    jobs = {
        name: running(name, *(copying(each) for each in mirror.flows)) for name, mirror in view.topology.mirrors.items()
    }
    jobs["west"] = running("west", paused)
    view = replace(view, jobs=LiveReading(JobsSeen(jobs), NOW_MS))
    page = html(view, LivePage())
    assert "<h1>PAUSED: flow east-to-west is failed over to west; " in page
    for title in ("verdict", "flows", "lag"):
        assert re.search(rf'class="tile idle"[^>]*><small>{title}</small>', page), title
    assert "What to do (1)" in page
    assert "reconciler failback ENV east-to-west" in page
    assert "failed over to west" in next(
        part.html for part in regions(view, LivePage(), LATER, None) if part.name == "map"
    )


def test_a_source_that_is_stopped_is_no_copying_that_continues() -> None:
    view = seen_view()
    cut = condition("source_unreachable", stops=False)
    silent = copying("east-to-west", records_lag=None, seconds_lag=None, lag_unknown_partitions=6, conditions=(cut,))
    jobs = {
        name: running(name, *(copying(each) for each in mirror.flows)) for name, mirror in view.topology.mirrors.items()
    }
    jobs["west"] = running("west", silent)
    page = html(replace(view, jobs=LiveReading(JobsSeen(jobs), NOW_MS)), LivePage())
    assert "<h1>STOPPED: flow east-to-west: source_unreachable; " in page
    assert "copying continues" not in page
    assert "waits, and resumes by itself" in page
    assert 'class="tile unknown" href="/flows"><small>lag</small>' in page
    assert '<span class="pill problem">waiting</span>' in page
