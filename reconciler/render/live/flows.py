"""Flows on the live page: the table of all, and one flow with the partitions that lag and what to do."""

from collections.abc import Collection, Sequence
from urllib.parse import quote

from reconciler.errors import Unknown
from reconciler.model.environment.topology import Flow
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.model.reports.health import Health, Verdict, VerdictCause, worst
from reconciler.render.drill import drill_words
from reconciler.render.escape import page as safe
from reconciler.render.live.view import (
    STATE_OF,
    LivePage,
    LiveView,
    PageKind,
    Region,
    ages,
    live_now,
    pill,
    verdict_now,
)
from reconciler.render.page import code, codes, mono, table
from reconciler.render.plan.impact import size
from reconciler.render.reports.status import (
    figures,
    flow_cells,
    limit_lines,
    lost_lines,
    pause_lines,
    unread_words,
    work_lines,
)
from reconciler.render.reports.verdict import headline
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
