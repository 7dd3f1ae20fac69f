"""Every page of the live page: its parts, and the whole of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import assert_never

from reconciler.errors import Unknown
from reconciler.render.escape import page as safe
from reconciler.render.live.flows import flows_page
from reconciler.render.live.groups import Standings, groups_page
from reconciler.render.live.history import history_page
from reconciler.render.live.overview import overview
from reconciler.render.live.parts import age
from reconciler.render.live.style import LIVE_CSS, LIVE_SCRIPT
from reconciler.render.live.topics import topics_page
from reconciler.render.live.view import LivePage, LiveView, PageKind, Region
from reconciler.render.plan.html import AboutPlan, plan_body, report_body
from reconciler.render.plan.html_style import SCRIPT
from reconciler.render.reports.drift import drift_page
from reconciler.render.style import Format

TITLES = {
    PageKind.OVERVIEW: "Overview",
    PageKind.FLOWS: "Flows",
    PageKind.TOPICS: "Topics",
    PageKind.GROUPS: "Groups",
    PageKind.PLAN: "Plan",
    PageKind.DRIFT: "Drift",
    PageKind.AUDIT: "Lock and history",
}
_AGAIN_SECONDS = 10
"""How often a browser without scripts asks again."""


def regions(view: LiveView, page: LivePage, now_ms: int, standings: Standings | Unknown | None) -> tuple[Region, ...]:
    """``standings``: of the flow of a page of groups; each other page has none."""
    match page.kind:
        case PageKind.OVERVIEW:
            return overview(view, now_ms)
        case PageKind.FLOWS:
            return flows_page(view, page, now_ms)
        case PageKind.TOPICS:
            return topics_page(view, page, now_ms)
        case PageKind.GROUPS:
            return groups_page(view, page, standings)
        case PageKind.PLAN:
            return _plan(view, now_ms)
        case PageKind.DRIFT:
            return _drift(view, now_ms)
        case PageKind.AUDIT:
            return history_page(view, now_ms)
        case _:
            assert_never(page.kind)


def _plan(view: LiveView, now_ms: int) -> tuple[Region, ...]:
    ages = Region("ages", age("plan", view.review, now_ms))
    if (review := view.review.value) is None:
        return (Region("head", "<h1>Pending plan: unknown</h1>"), ages)
    about = AboutPlan(review.drawn, review.owners, review.amounts)
    return ages, Region("plan", "".join(plan_body(review.plan, about=about)), calm=True)


def _drift(view: LiveView, now_ms: int) -> tuple[Region, ...]:
    ages = Region("ages", age("drift", view.review, now_ms))
    if (review := view.review.value) is None:
        return (Region("head", "<h1>Drift: unknown</h1>"), ages)
    report = drift_page(review.plan, Format.HTML, review.history)
    return ages, Region("drift", "".join(report_body(report)), calm=True)


def digest(html: str) -> str:
    """By this a browser knows whether a part is the one it has."""
    return hashlib.sha256(html.encode()).hexdigest()[:16]


def live_html(view: LiveView, page: LivePage, parts: Sequence[Region], query: str, now_ms: int) -> str:
    """A whole page. ``query``: of its address, with ``?``, or empty. Its policy is a header (``live_policy``)."""
    environment = view.topology.environment
    title = f"{environment}: {TITLES[page.kind].lower()}"
    path = f"/{page.kind.value}" + (f"/{page.flow}" if page.flow and page.kind is PageKind.FLOWS else "")
    body = "\n".join(map(_region, parts))
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',
            f'<noscript><meta http-equiv="refresh" content="{_AGAIN_SECONDS}"></noscript>',
            f"<title>{safe(title)}</title>",
            f"<style>{LIVE_CSS}</style>",
            "</head>",
            '<body><a class="skip" href="#main">to the page</a>',
            f'<header class="bar"><strong>{safe(environment)}</strong><nav aria-label="pages">{_nav(page)}</nav>',
            f'<span id="connection" role="status"><noscript>again every {_AGAIN_SECONDS} s</noscript></span></header>',
            '<p id="changed" class="changed" role="status" hidden>This has changed since you opened it.'
            ' <a href="">Show it as it is now</a></p>',
            f'<main id="main" data-events="/events{safe(path + query)}" data-now="{now_ms}">',
            body,
            "</main>",
            f"<script>{SCRIPT}</script>",
            f"<script>{LIVE_SCRIPT}</script>",
            "</body></html>",
        )
    )


def _nav(page: LivePage) -> str:
    links = []
    for kind, title in TITLES.items():
        here = ' aria-current="page"' if kind is page.kind else ""
        links.append(f'<a href="/{kind.value}"{here}>{title}</a>')
    return "".join(links)


def _region(region: Region) -> str:
    calm = ' data-calm=""' if region.calm else ""
    return f'<section id="{region.name}" data-digest="{digest(region.html)}"{calm}>{region.html}</section>'
