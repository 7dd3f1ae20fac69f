"""The first page: verdict, remedies, the map with live figures, flows, clusters, waves."""

from collections.abc import Iterator

from reconciler.engine.drift.causes import differences
from reconciler.engine.plan.summary import verdict as plan_verdict
from reconciler.engine.topology_map import moved_on
from reconciler.errors import Unknown
from reconciler.model.live import LiveCluster, LiveMirror, LiveState
from reconciler.model.reports.health import Verdict, worst
from reconciler.render.escape import page as safe
from reconciler.render.live import view as views
from reconciler.render.live.flows import flow_table, todo_cards
from reconciler.render.map.formats import framed
from reconciler.render.page import code, mono, table
from reconciler.render.plan.waves import rollout_lines
from reconciler.render.reports import status
from reconciler.render.reports.drift import drift_verdict
from reconciler.render.reports.verdict import brief_words, headline
from reconciler.text import counted

MOST_FLOWS = 40
"""On the first page; the page of flows has all."""


def overview(view: views.LiveView, now_ms: int) -> tuple[views.Region, ...]:
    """The regions of the first page: what to do, the map, and every cluster, job and flow in a line."""
    live = views.live_now(view, now_ms).as_reported()
    affairs = views.affairs_now(view, now_ms)
    health = status.verdict_in(view.topology, live, affairs)

    # Everything that waits for a person.
    cards = []
    if view.folder_problem:
        problem, _, todo = view.folder_problem.partition("\n")
        words = f"<p>{safe(problem)}</p><p><b>{safe(todo or 'What is shown is its last good state.')}</b></p>"
        where = mono("the environment's folder")
        cards.append(f'<article class="card"><header>{where}</header>{words}</article>')
    cards += todo_cards(health, view.topology.rules.docs_url)
    urgent = f'<section class="urgent"><h2>What to do ({len(cards):,})</h2><div class="cards">{"".join(cards)}</div>'

    if (seen := view.clusters.value) is None:
        drawn = f'<p class="unknown">{safe(_not_read(view.clusters))}</p>'
    else:
        drawn = framed(moved_on(seen.drawn, view.topology, live), ' role="region" aria-label="map"')

    count, link = len(view.topology.flows), f'<a href="/{views.PageKind.FLOWS.value}">'
    flows = f"<h2>{link}Flows</a> ({count:,})</h2>{flow_table(view, live, health, MOST_FLOWS)}"
    if count > MOST_FLOWS:
        flows += f"<p>{link}all {count:,} flows</a>; here are those with a problem first</p>"

    rollout = ""
    if view.topology.rollout is not None:
        known = affairs.rollout
        lines = rollout_lines(known, now_ms) if known is not None else ["not read yet"]
        rollout = f"<h2>Rollout</h2><ul>{''.join(f'<li>{safe(line.strip())}</li>' for line in lines)}</ul>"
    return (
        views.Region("head", f"<h1>{safe(headline(health, status.figures(live)))}</h1>"),
        views.Region("ages", views.ages(view, now_ms)),
        views.Region("tiles", "".join(_tiles(view, live, affairs, health, now_ms))),
        views.Region("todo", f"{urgent}</section>" if cards else ""),
        views.Region("map", f"<h2>Map</h2>{drawn}"),
        views.Region("flows", flows),
        views.Region("clusters", _clusters(view, live, health)),
        views.Region("jobs", _jobs(live, health, now_ms) if live.mirrors else ""),
        views.Region("rollout", rollout),
    )


def _tiles(
    view: views.LiveView, live: LiveState, affairs: status.StatusInputs, health: Verdict, now_ms: int
) -> Iterator[str]:
    words = health.health.value + (f": {brief_words(health)}" if health.causes else "")
    yield views.tile("verdict", words, views.STATE_OF[health.health], "#todo" if health.causes else "#flows")
    # Each tile has the colour of the worst verdict of its kind, and counts known subjects.
    answering = sum(isinstance(cluster, LiveCluster) for cluster in live.clusters.values())
    words = f"{answering} of {len(live.clusters)} answer"
    yield views.tile("clusters", words, views.STATE_OF[health.of_each("cluster")], "#clusters")
    mirrors = [mirror for mirror in live.mirrors.values() if isinstance(mirror, LiveMirror)]
    running = sum(mirror.state.value == "running" for mirror in mirrors)
    unknown = len(live.mirrors) - len(mirrors)
    words = f"{running} of {len(live.mirrors)} running" + (f", {unknown} unknown" if unknown else "")
    yield views.tile("mirror jobs", words, views.STATE_OF[health.of_each("mirror")], "#jobs")
    flows = health.of_each("flow")
    amiss = len({cause.subject for cause in health.causes if cause.subject.startswith("flow ")})
    carried = worst((flows, health.of_each("mirror")))
    words = f"{amiss:,} of {len(view.topology.flows):,} {flows.lower()}" if amiss else f"{len(view.topology.flows):,}"
    yield views.tile("flows", words if carried is flows else carried.lower(), views.STATE_OF[carried], "#flows")
    lag = status.lag_of_all(live)
    state = "unknown" if "unknown" in lag else "ok" if lag.startswith("0 ") else views.STATE_OF[flows]
    yield views.tile("lag", lag.removeprefix("lag "), state, "/flows")
    # A job that is unknown may have conditions, so zero is only said where all of them report.
    conditions = sum(sum(flow.counted_conditions.values()) for mirror in mirrors for flow in mirror.flows.values())
    known = "at least " if unknown and conditions else ""
    none = "none known" if unknown else "none"
    words = f"{known}{conditions:,}" if conditions else none
    yield views.tile("conditions", words, "problem" if conditions else "unknown" if unknown else "ok", "#todo")
    if (review := view.review.value) is None:
        yield views.tile("pending plan", _not_read(view.review), "unknown", "/plan")
        yield views.tile("drift", _not_read(view.review), "unknown", "/drift")
    else:
        plan, state = review.plan, "unknown" if review.plan.unknown else ""
        pending = "problem" if plan.refused else state or ("busy" if plan.changes else "ok")
        yield views.tile("pending plan", plan_verdict(plan), pending, "/plan")
        drifted = "problem" if differences(plan) or plan.refused else state or "ok"
        yield views.tile("drift", drift_verdict(plan).removeprefix("Drift: "), drifted, "/drift")
    lock = status.lock_line(affairs.lock, live, now_ms).partition(": ")[2]
    state = "unknown" if lock.startswith("unknown") else "busy" if lock.startswith("held") else "ok"
    yield views.tile("lock", lock, state, "/audit")


def _not_read(reading: views.LiveReading[object]) -> str:
    return "unknown: " + reading.failure.what if reading.failure is not None else "not read yet"


def _clusters(view: views.LiveView, live: LiveState, health: Verdict) -> str:
    rows = []
    for name, cluster in live.clusters.items():
        link = f'<a href="/topics?cluster={safe(name)}">{counted_topics(cluster)}</a>'
        state = views.STATE_OF[health.of(f"cluster {name}")]
        wrong = isinstance(cluster, LiveCluster) and state != "ok"
        words = health.of(f"cluster {name}").lower() if wrong else views.STATES[state]
        region = view.topology.clusters[name].region or "" if name in view.topology.clusters else ""
        rows.append((code(name), safe(region), views.pill(words, state), safe(status.cluster_words(cluster)), link))
    heads = ("cluster", "region", "state", "as it was read", "topics")
    return f"<h2>Clusters ({len(live.clusters):,})</h2>{table(heads, rows)}"


def counted_topics(cluster: LiveCluster | Unknown) -> str:
    if isinstance(cluster, Unknown):
        return "unknown"
    return counted(cluster.topic_count, "topic")


def _jobs(live: LiveState, health: Verdict, now_ms: int) -> str:
    rows = []
    for name, mirror in live.mirrors.items():
        if isinstance(mirror, Unknown):
            rows.append((code(name), views.pill("unknown", "unknown"), safe(status.unknown_words(mirror, live)), ""))
            continue
        state = views.pill(mirror.state.value, views.STATE_OF[health.of(f"mirror {name}")])
        application = (
            f"{mirror.application_id}, {status.since_when(mirror, now_ms)}" if mirror.application_id else "none yet"
        )
        rows.append((code(name), state, safe(application), safe(mirror.detail or mirror.fingerprint or "")))
    heads = ("mirror", "state", "application", "detail")
    return f"<h2>Mirror jobs ({len(live.mirrors):,})</h2>{table(heads, rows)}"
