"""Contents of the live page: the overview, all flows, one flow with its lagging partitions, and positions of groups."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from reconciler.engine.drift.causes import differences
from reconciler.engine.plan.summary import verdict as plan_verdict
from reconciler.engine.topology_map import moved_on
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Flow
from reconciler.model.live import JobState, LiveCluster, LiveMirror, LiveState
from reconciler.model.reports.failover import ConsumerMove, GroupMove
from reconciler.model.reports.health import Health, Verdict, VerdictCause, worst
from reconciler.render.drill import drill_words
from reconciler.render.live import view as views
from reconciler.render.live.view import (
    STATE_OF,
    LivePage,
    LiveView,
    PageKind,
    Region,
    ages,
    clock,
    live_now,
    pill,
    verdict_now,
)
from reconciler.render.map.formats import framed
from reconciler.render.markup import page as safe
from reconciler.render.page import code, codes, folded, mono, table
from reconciler.render.plan.impact import size
from reconciler.render.plan.outline import rollout_lines
from reconciler.render.reports import status
from reconciler.render.reports.drift import drift_verdict
from reconciler.render.reports.status import (
    brief_words,
    figures,
    flow_cells,
    headline,
    limit_lines,
    lost_lines,
    pause_lines,
    unread_words,
    work_lines,
)
from reconciler.replication.names import WAITING, runbook_of
from reconciler.text import counted

_HEADS = ("flow", "from, to", "state", "records/s", "volume/s", "lag", "seconds", "time left", "conditions")
_NUMBERS = frozenset(
    ("records/s", "volume/s", "lag", "seconds", "time left", "partition", "records lag", "seconds lag")
)
_WORST = {"problem": 0, "unknown": 1, "busy": 2, "idle": 3, "ok": 4}
MOST_CARDS = 60


def flows_page(view: LiveView, page: LivePage, now_ms: int) -> tuple[Region, ...]:
    live = live_now(view, now_ms).as_reported()
    health = verdict_now(view, live)
    if page.flow:
        return _one_flow(view, live, health, page.flow, now_ms)
    return (
        Region("head", f"<h1>{safe(headline(health, figures(live)))}</h1>"),
        Region("ages", ages(view, now_ms)),
        Region("flows", flow_table(view, live, health)),
    )


def flow_link(name: str) -> str:
    return f'<a href="/{PageKind.FLOWS.value}/{quote(name, safe="")}">{mono(name)}</a>'


def flow_table(view: LiveView, live: LiveState, health: Verdict, most: int | None = None) -> str:
    """``most``: only so many, those with a problem first; None: all, in the order of git."""
    rows = [_row(view, flow, live, health) for flow in view.topology.flows.values()]
    if most is not None and len(rows) > most:
        rows = sorted(rows, key=lambda row: _WORST[row[0]])[:most]
    return table(_HEADS, (cells for _, cells in rows), _NUMBERS) if rows else "<p>no flow is declared</p>"


def _row(view: LiveView, flow: Flow, live: LiveState, health: Verdict) -> tuple[str, tuple[str, ...]]:
    # Guards in the order of knowledge: nothing is known about flows of an unknown job.
    name, ends = flow_link(flow.name), f"{code(flow.source)} \u2192 {code(flow.target)}"
    mirror_name, mirror = job_of(view, flow.name, live)
    status = mirror.flows.get(flow.name) if isinstance(mirror, LiveMirror) else None
    if isinstance(mirror, Unknown):
        return "unknown", (name, ends, pill("unknown", "unknown"), *["unknown"] * 5, safe(mirror.what))
    if mirror is None or status is None:
        words = "no job yet" if mirror is None or mirror.state is JobState.ABSENT else "not in the running job"
        return "problem", (name, ends, pill(words, "problem"), *["unknown"] * 5, safe(mirror.detail if mirror else ""))
    said, rate, lag, seconds = flow_cells(status, mirror)
    volume = f"{size(status.bytes_per_second)}" if mirror.state is JobState.RUNNING else "0 B"
    left = view.jobs.value.left.get((mirror_name, flow.name), "unknown") if view.jobs.value is not None else "unknown"
    left = left if mirror.lag_is_current else "unknown"
    state = STATE_OF[worst(health.of(subject) for subject in (f"flow {flow.name}", f"mirror {mirror_name}"))]
    count = sum(status.counted_conditions.values())
    conditions = pill(counted(count, "condition"), "problem") if count else "none"
    return state, (name, ends, pill(said, state), rate, safe(volume), safe(lag), seconds, safe(left), conditions)


def job_of(view: LiveView, flow: str, live: LiveState) -> tuple[str, LiveMirror | Unknown | None]:
    """The mirror of a flow, and its job's state."""
    for mirror in view.topology.mirrors.values():
        if flow in mirror.flows:
            return mirror.name, live.mirrors.get(mirror.name)
    return "", None


def todo_cards(health: Verdict, docs_url: str, only: Collection[str] = ()) -> list[str]:
    """A card for each cause of the verdict, the worst first. ``only``: limits subjects."""
    causes = [cause for cause in health.causes if not only or cause.subject in only]
    cards = []
    for cause in causes[:MOST_CARDS]:
        about, _, name = cause.subject.partition(" ")
        who = flow_link(name) if about == "flow" else mono(cause.subject)
        head = f"<header>{who} {mono(cause.place)} {pill(_stops(cause, health), STATE_OF[cause.health])}</header>"
        words, page = f"<p>{safe(cause.text)}</p>", ""
        if cause.code:
            words = f"<p>{code(cause.code)} {safe(cause.text.partition(': ')[2])}</p>"
            place = runbook_of(cause.code, docs_url)
            link = f'<a href="{safe(place)}" rel="noreferrer">{mono(place)}</a>' if docs_url else mono(place)
            page = f'<p class="faint">runbook: {link}</p>'
        todo = f"<p><b>{safe(cause.todo)}</b></p>" if cause.todo else ""
        cards.append(f'<article class="card">{head}{words}{todo}{page}</article>')
    hidden = len(causes) - len(cards)
    return [*cards, f'<p class="card">and {counted(hidden, "more reason")}</p>'] if hidden else cards


def _stops(cause: VerdictCause, health: Verdict) -> str:
    """Whether records are copied meanwhile: a cause that does not stop them may be beside one that does."""
    match cause.health:
        case Health.STOPPED if cause.code:
            return "waits, and resumes by itself" if cause.heals else "stops copying"
        case Health.DEGRADED if cause.code in WAITING:
            return "may wait, and resumes by itself"
        case Health.DEGRADED if cause.code and health.of(cause.subject) is Health.DEGRADED:
            return "copying continues"
        case Health.DEGRADED if cause.code:
            return "does not stop copying"
        case other:
            return other.lower()


def _one_flow(view: LiveView, live: LiveState, health: Verdict, name: str, now_ms: int) -> tuple[Region, ...]:
    """The regions of one flow's page, from the newest status record, the lock's records and the verdict."""
    flow = view.topology.flows.get(name)
    if flow is None:
        return (Region("head", f"<h1>No flow {mono(name)} is declared</h1><p>The page of flows has all.</p>"),)
    mirror_name, mirror = job_of(view, name, live)
    status = mirror.flows.get(name) if isinstance(mirror, LiveMirror) else None
    _, cells = _row(view, flow, live, health)
    ends = f"{code(flow.source)} \u2192 {code(flow.target)}"
    about = (
        f"<p>{ends}, job {code(mirror_name)}, delivery {safe(flow.delivery.value)}, topics {codes(flow.topics)}."
        f' <a href="/groups?flow={quote(name, safe="")}">Where would a group resume?</a></p>'
    )
    about_it = (f"flow {name}", f"mirror {mirror_name}", f"cluster {flow.source}", f"cluster {flow.target}")
    cards = todo_cards(health, view.topology.rules.docs_url, about_it)
    todo = f'<section class="urgent"><h2>What to do</h2><div class="cards">{"".join(cards)}</div></section>'

    # A job that does not report now leaves the lag unknown; "none is behind" would be a guess.
    behind = ["<h2>Partitions furthest behind</h2>"]
    if status is None or not isinstance(mirror, LiveMirror) or not mirror.lag_is_current:
        behind.append('<p class="unknown">unknown: no job reports now</p>')
    else:
        if status.lag_unknown_partitions:
            of = counted(status.lag_unknown_partitions, "partition")
            behind.append(f'<p class="unknown">of {of} the lag is not known</p>')
        if status.stalled_partitions:
            stalled = counted(status.stalled_partitions, "partition")
            behind.append(f"<p>{stalled} have or may have records and do not move</p>")
        behind += [f"<p>{words}</p>" for words in unread_words(status)]
        worst_ones = _columns(status.worst_partitions, ("topic", "partition", "records_lag", "seconds_lag"))
        behind.append(worst_ones if status.worst_partitions else "<p>none that is known to be behind</p>")

    notes, lines = [], []
    if status is not None:
        lines = [*work_lines(status), *pause_lines(status), *limit_lines(status), *lost_lines(status)]
    if flow.objectives is not None:
        drills = Unknown("last drills", "not read yet") if view.lock.value is None else view.lock.value.drills
        lines.append(f"last drill: {drill_words(name, flow.objectives, drills, now_ms)}")
    if lines:
        notes.append(f"<h2>Besides</h2><ul>{''.join(f'<li>{safe(line.strip())}</li>' for line in lines)}</ul>")
    if status is not None and status.paths:
        notes.append(f"<h2>How partitions are copied</h2>{_columns(status.paths, ('path', 'reason', 'partitions'))}")
    return (
        Region("head", f"<h1>flow {mono(name)}</h1>{about}"),
        Region("ages", ages(view, now_ms)),
        Region("todo", todo if cards else ""),
        Region("figures", table(_HEADS[2:], [cells[2:]], _NUMBERS)),
        Region("behind", "".join(behind)),
        Region("notes", "".join(notes)),
    )


def _columns(figures: Sequence[object], keys: Sequence[str]) -> str:
    rows = []
    for each in figures:
        values = [getattr(each, key) for key in keys]
        cells = [f"{value:,}" if isinstance(value, int | float) else safe(str(value)) for value in values]
        rows.append(["unknown" if value is None else cell for value, cell in zip(values, cells, strict=True)])
    return table([key.replace("_", " ") for key in keys], rows, _NUMBERS)


# groups: positions on both sides of a flow, and those that a failover would set

MOST_GROUPS = 200
OPENED = 4
"""With more groups than this, each is folded."""
_OFFSETS = frozenset(("is at", "would be at"))


@dataclass(frozen=True, slots=True)
class Standings:
    """Groups of one flow at ``at_ms``."""

    at_ms: int
    move: ConsumerMove
    groups: tuple[GroupMove, ...]
    unsupported: Mapping[str, str] = field(default_factory=dict)
    """Group -> why it cannot move."""
    lost: str = ""
    """Why the source does not answer; groups are then from their last checkpoints."""


def groups_page(view: LiveView, page: LivePage, standings: Standings | Unknown | None) -> tuple[Region, ...]:
    """``standings``: None if no flow was chosen. The page does not refresh by itself, because each survey asks both
    clusters."""
    links = []
    for name in view.topology.flows:
        here = ' aria-current="page"' if name == page.flow else ""
        links.append(f'<a href="/{PageKind.GROUPS.value}?flow={quote(name, safe="")}"{here}>{safe(name)}</a>')
    nav = f'<nav aria-label="flows">{"".join(links)}</nav>'
    if standings is None:
        text = "<p>Choose a flow: both of its clusters are asked then.</p>" if links else "<p>no flow is declared</p>"
        return (Region("head", f"<h1>Groups on both sides of a flow</h1>{text}{nav}", calm=True),)
    title = f"<h1>Where would each group of {code(page.flow)} stand?</h1>"
    if isinstance(standings, Unknown):
        said = f'<p class="unknown">unknown: {safe(standings.error)}</p><p><b>{safe(standings.todo)}</b></p>'
        return (Region("head", f"{title}{said}{nav}", calm=True),)
    about = (
        f"<p>Positions are the next offset to read. <b>Would be at</b>: where a failover now would set the group on"
        f" {code(standings.move.destination)}. Nothing is set by looking. Asked {clock(standings.at_ms)}.</p>"
    )
    if standings.lost:
        why = f"{code(standings.move.origin)} does not answer: by their last checkpoints. {safe(standings.lost)}"
        about += f'<p class="unknown">{why}</p>'
    # A cluster may have thousands of groups, and a browser builds all rows before it shows one. The command lists them
    # all.
    shown = standings.groups[:MOST_GROUPS]
    groups = [_group(group, standings, opened=len(standings.groups) <= OPENED) for group in shown]
    if not shown:
        groups.append("<p>no group has offsets on topics of this flow</p>")
    if (more := len(standings.groups) - len(shown)) > 0:
        groups.append(f"<p>and {more:,} more groups: <code>reconciler failover ENV FLOW --dry-run</code></p>")
    if standings.unsupported:
        rows = ((code(name), safe(why)) for name, why in sorted(standings.unsupported.items()))
        groups.append(f"<h2>Groups that cannot be moved</h2>{table(('group', 'why'), rows)}")
    return (
        Region("head", f"{title}{about}{nav}", calm=True),
        Region("groups", "".join(groups), calm=True),
    )


def _group(group: GroupMove, standings: Standings, opened: bool) -> str:
    origin, destination, lost = standings.move.origin, standings.move.destination, bool(standings.lost)
    inexact = sum(not offset.translated.exact for offset in group.offsets)
    exact = pill("exact", "ok") if not inexact else pill(f"{counted(inexact, 'partition')} not exact", "unknown")
    there = counted(group.origin.members, "member") if not lost else "members unknown"
    members = f"{there} on {safe(origin)}, {group.destination.members:,} on {safe(destination)}"
    heads = (f"on {safe(origin)}", "is at", f"on {safe(destination)}", "is at", "would be at", "why")
    # Inexact positions come first: they are the reason to check before a failover.
    rows = []
    for offset in sorted(group.offsets, key=lambda offset: (offset.translated.exact, offset.origin)):
        wanted = offset.translated
        would = "unknown" if wanted.offset is None else f"{wanted.offset:,}"
        why = "" if wanted.exact else f"not exact: {wanted.reason}"
        before = "nowhere yet" if offset.before is None else f"{offset.before:,}"
        here, other = (f"{topic}-{number}" for topic, number in (offset.origin, offset.destination))
        rows.append((code(here), f"{offset.committed:,}", code(other), before, would, safe(why)))
    summary = f"{code(group.group)} {exact} {counted(len(group.offsets), 'partition')}, {members}"
    return folded(summary, table(heads, rows, _OFFSETS), f"group-{group.group}", opened)


# the first page: verdict, remedies, the map with live figures, flows, clusters, waves

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
