"""The first page: the verdict, what somebody has to do, the map with figures that move, flows, clusters, waves."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.engine.drift.causes import differences
from reconciler.engine.plan.summary import verdict as plan_verdict
from reconciler.engine.topology_map import moved_on
from reconciler.errors import Unknown
from reconciler.model.live import LiveCluster, LiveMirror, LiveState
from reconciler.model.reports.health import Verdict, worst
from reconciler.render.escape import page as safe
from reconciler.render.live.flows import flow_table, todo_cards
from reconciler.render.live.view import (
    STATE_OF,
    STATES,
    LiveReading,
    LiveView,
    PageKind,
    Region,
    affairs_now,
    ages,
    live_now,
    pill,
    tile,
)
from reconciler.render.map.formats import FIGURE
from reconciler.render.map.svg import map_figure
from reconciler.render.page import code, mono, table
from reconciler.render.reports.drift import drift_verdict
from reconciler.render.reports.status import (
    StatusInputs,
    cluster_words,
    figures,
    lag_of_all,
    lock_line,
    since_when,
    standing_lines,
    unknown_words,
    verdict_in,
)
from reconciler.render.reports.verdict import brief_words, headline
from reconciler.text import counted

MOST_FLOWS = 40
"""On the first page; the page of flows has all."""


def overview(view: LiveView, now_ms: int) -> tuple[Region, ...]:
    live = live_now(view, now_ms).as_reported()
    affairs = affairs_now(view, now_ms)
    health = verdict_in(view.topology, live, affairs)
    return (
        Region("head", f"<h1>{safe(headline(health, figures(live)))}</h1>"),
        Region("ages", ages(view, now_ms)),
        Region("tiles", "".join(_tiles(view, live, affairs, now_ms))),
        Region("todo", "".join(_todo(view, health))),
        Region("map", "".join(_map(view, live))),
        Region("flows", "".join(_flows(view, live, health))),
        Region("clusters", "".join(_clusters(view, live, health))),
        Region("jobs", "".join(_jobs(live, health, now_ms))),
        Region("rollout", "".join(_rollout(view, now_ms))),
    )


def _tiles(view: LiveView, live: LiveState, affairs: StatusInputs, now_ms: int) -> Iterator[str]:
    health = verdict_in(view.topology, live, affairs)
    words = health.health.value + (f": {brief_words(health)}" if health.causes else "")
    yield tile("verdict", words, STATE_OF[health.health], "#todo" if health.causes else "#flows")
    answering = sum(isinstance(cluster, LiveCluster) for cluster in live.clusters.values())
    words = f"{answering} of {len(live.clusters)} answer"
    yield tile("clusters", words, STATE_OF[health.of_each("cluster")], "#clusters")
    mirrors = [mirror for mirror in live.mirrors.values() if isinstance(mirror, LiveMirror)]
    running = sum(mirror.state.value == "running" for mirror in mirrors)
    unknown = len(live.mirrors) - len(mirrors)
    words = f"{running} of {len(live.mirrors)} running" + (f", {unknown} unknown" if unknown else "")
    yield tile("mirror jobs", words, STATE_OF[health.of_each("mirror")], "#jobs")
    flows = health.of_each("flow")
    amiss = len({cause.subject for cause in health.causes if cause.subject.startswith("flow ")})
    carried = worst((flows, health.of_each("mirror")))
    words = f"{amiss:,} of {len(view.topology.flows):,} {flows.lower()}" if amiss else f"{len(view.topology.flows):,}"
    yield tile("flows", words if carried is flows else carried.lower(), STATE_OF[carried], "#flows")
    lag = lag_of_all(live)
    state = "unknown" if "unknown" in lag else "ok" if lag.startswith("0 ") else STATE_OF[flows]
    yield tile("lag", lag.removeprefix("lag "), state, "/flows")
    conditions = sum(sum(flow.counted_conditions.values()) for mirror in mirrors for flow in mirror.flows.values())
    known = "at least " if unknown and conditions else ""
    none = "none known" if unknown else "none"
    words = f"{known}{conditions:,}" if conditions else none
    yield tile("conditions", words, "problem" if conditions else "unknown" if unknown else "ok", "#todo")
    yield _plan_tile(view)
    yield _drift_tile(view)
    lock = lock_line(affairs.lock, live, now_ms).partition(": ")[2]
    state = "unknown" if lock.startswith("unknown") else "busy" if lock.startswith("held") else "ok"
    yield tile("lock", lock, state, "/audit")


def _plan_tile(view: LiveView) -> str:
    if (review := view.review.value) is None:
        return tile("pending plan", _not_read(view.review), "unknown", "/plan")
    plan = review.plan
    state = "problem" if plan.refused else "unknown" if plan.unknown else "busy" if plan.changes else "ok"
    return tile("pending plan", plan_verdict(plan), state, "/plan")


def _drift_tile(view: LiveView) -> str:
    if (review := view.review.value) is None:
        return tile("drift", _not_read(view.review), "unknown", "/drift")
    plan = review.plan
    state = "problem" if differences(plan) or plan.refused else "unknown" if plan.unknown else "ok"
    return tile("drift", drift_verdict(plan).removeprefix("Drift: "), state, "/drift")


def _not_read(reading: LiveReading[object]) -> str:
    return "unknown: " + reading.failure.what if reading.failure is not None else "not read yet"


def _todo(view: LiveView, health: Verdict) -> Iterator[str]:
    """Everything that somebody has to do something about."""
    cards = []
    if view.folder_problem:
        problem, _, todo = view.folder_problem.partition("\n")
        cards.append(_card("the environment's folder", problem, todo or "What is shown is its last good state."))
    cards += todo_cards(health, view.topology.rules.docs_url)
    if cards:
        yield f'<section class="urgent"><h2>What to do ({len(cards):,})</h2><div class="cards">{"".join(cards)}</div>'
        yield "</section>"


def _card(where: str, problem: str, todo: str) -> str:
    words = f"<p>{safe(problem)}</p><p><b>{safe(todo)}</b></p>"
    return f'<article class="card"><header>{mono(where)}</header>{words}</article>'


def _map(view: LiveView, live: LiveState) -> Iterator[str]:
    yield "<h2>Map</h2>"
    if (seen := view.clusters.value) is None:
        yield f'<p class="unknown">{safe(_not_read(view.clusters))}</p>'
        return
    figure = map_figure(moved_on(seen.drawn, view.topology, live))
    wide = " wide" if int(figure.partition(' width="')[2].partition('"')[0]) > FIGURE else ""
    yield f'<div class="scroll map{wide}" tabindex="0" role="region" aria-label="map">{figure}</div>'


def _flows(view: LiveView, live: LiveState, health: Verdict) -> Iterator[str]:
    count = len(view.topology.flows)
    yield f'<h2><a href="/{PageKind.FLOWS.value}">Flows</a> ({count:,})</h2>'
    yield flow_table(view, live, health, MOST_FLOWS)
    if count > MOST_FLOWS:
        yield f'<p><a href="/{PageKind.FLOWS.value}">all {count:,} flows</a>; here are those with a problem first</p>'


def _clusters(view: LiveView, live: LiveState, health: Verdict) -> Iterator[str]:
    yield f"<h2>Clusters ({len(live.clusters):,})</h2>"
    rows = []
    for name, cluster in live.clusters.items():
        link = f'<a href="/topics?cluster={safe(name)}">{counted_topics(cluster)}</a>'
        state = STATE_OF[health.of(f"cluster {name}")]
        words = (
            health.of(f"cluster {name}").lower()
            if isinstance(cluster, LiveCluster) and state != "ok"
            else STATES[state]
        )
        region = view.topology.clusters[name].region or "" if name in view.topology.clusters else ""
        rows.append((code(name), safe(region), pill(words, state), safe(cluster_words(cluster)), link))
    yield table(("cluster", "region", "state", "as it was read", "topics"), rows)


def counted_topics(cluster: LiveCluster | Unknown) -> str:
    if isinstance(cluster, Unknown):
        return "unknown"
    return counted(cluster.topic_count, "topic")


def _jobs(live: LiveState, health: Verdict, now_ms: int) -> Iterator[str]:
    if not live.mirrors:
        return
    yield f"<h2>Mirror jobs ({len(live.mirrors):,})</h2>"
    rows = []
    for name, mirror in live.mirrors.items():
        if isinstance(mirror, Unknown):
            rows.append((code(name), pill("unknown", "unknown"), safe(unknown_words(mirror, live)), ""))
            continue
        state = STATE_OF[health.of(f"mirror {name}")]
        application = f"{mirror.application_id}, {since_when(mirror, now_ms)}" if mirror.application_id else "none yet"
        fingerprint = mirror.fingerprint or ""
        rows.append(
            (code(name), pill(mirror.state.value, state), safe(application), safe(mirror.detail or fingerprint))
        )
    yield table(("mirror", "state", "application", "detail"), rows)


def _rollout(view: LiveView, now_ms: int) -> Iterator[str]:
    if view.topology.rollout is None:
        return
    standing = affairs_now(view, now_ms).standing
    yield "<h2>Rollout</h2>"
    lines = standing_lines(standing, now_ms) if standing is not None else ["not read yet"]
    yield f"<ul>{''.join(f'<li>{safe(line.strip())}</li>' for line in lines)}</ul>"
