"""Flows on the live page: the table of all, and one flow with the partitions that lag and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from reconciler.errors import Unknown
from reconciler.model.environment.topology import Flow
from reconciler.model.live import FlowStatus, JobState, LiveMirror, LiveState
from reconciler.render.elements import code, codes, mono, table
from reconciler.render.escape import page as safe
from reconciler.render.live.parts import ages, pill
from reconciler.render.live.view import LivePage, LiveView, PageKind, Region, live_now
from reconciler.render.plan.impact import size
from reconciler.render.reports.status.status import (
    flow_cells,
    limit_lines,
    lost_lines,
    pause_lines,
    verdict,
    work_lines,
)
from reconciler.replication.names import runbook_of
from reconciler.text import counted

_HEADS = ("flow", "from, to", "state", "records/s", "volume/s", "lag", "seconds", "time left", "conditions")
_NUMBERS = frozenset(
    ("records/s", "volume/s", "lag", "seconds", "time left", "partition", "records lag", "seconds lag")
)
_WORST = {"problem": 0, "unknown": 1, "busy": 2, "idle": 3, "ok": 4}
MOST_CARDS = 60
Fields = Mapping[str, object]


def flows_page(view: LiveView, page: LivePage, now_ms: int) -> tuple[Region, ...]:
    live = live_now(view, now_ms).as_reported()
    if page.flow:
        return _one_flow(view, live, page.flow, now_ms)
    return (
        Region("head", f"<h1>{safe(verdict(live))}</h1>"),
        Region("ages", ages(view, now_ms)),
        Region("flows", flow_table(view, live)),
    )


def flow_link(name: str) -> str:
    return f'<a href="/{PageKind.FLOWS.value}/{quote(name, safe="")}">{mono(name)}</a>'


def flow_table(view: LiveView, live: LiveState, most: int | None = None) -> str:
    """``most``: only so many, those with a problem first; None: all, in the order of git."""
    rows = [_row(view, flow, live) for flow in view.topology.flows.values()]
    if most is not None and len(rows) > most:
        rows = sorted(rows, key=lambda row: _WORST[row[0]])[:most]
    return table(_HEADS, (cells for _, cells in rows), _NUMBERS) if rows else "<p>no flow is declared</p>"


def _row(view: LiveView, flow: Flow, live: LiveState) -> tuple[str, tuple[str, ...]]:
    name, ends = flow_link(flow.name), f"{code(flow.source)} \u2192 {code(flow.target)}"
    mirror_name, mirror = job_of(view, flow.name, live)
    status = mirror.flows.get(flow.name) if isinstance(mirror, LiveMirror) else None
    if isinstance(mirror, Unknown):
        return "unknown", (name, ends, pill("unknown", "unknown"), *["unknown"] * 5, safe(mirror.what))
    if mirror is None or status is None:
        words = "no job yet" if mirror is None or mirror.state is JobState.ABSENT else "not in the running job"
        return "idle", (name, ends, pill(words, "idle"), *["unknown"] * 5, safe(mirror.detail if mirror else ""))
    said, rate, lag, seconds = flow_cells(status, mirror)
    volume = f"{size(status.bytes_per_second)}" if mirror.state is JobState.RUNNING else "0 B"
    left = view.jobs.value.left.get((mirror_name, flow.name), "unknown") if view.jobs.value is not None else "unknown"
    left = left if mirror.lag_is_current else "unknown"
    state = _state(status, mirror)
    count = sum(status.counted_conditions.values())
    conditions = pill(counted(count, "condition"), "problem") if count else "none"
    return state, (name, ends, pill(said, state), rate, safe(volume), safe(lag), seconds, safe(left), conditions)


def _state(status: FlowStatus, mirror: LiveMirror) -> str:
    if status.counted_conditions or status.state in ("degraded", "stopped"):
        return "problem"
    if mirror.state is not JobState.RUNNING:
        return "idle" if mirror.state in (JobState.STOPPED, JobState.STARTING) else "problem"
    if not mirror.lag_is_current:
        return "unknown"
    return "ok" if status.state == "running" else "idle"


def job_of(view: LiveView, flow: str, live: LiveState) -> tuple[str, LiveMirror | Unknown | None]:
    """The mirror that carries a flow, and what is known of its job."""
    for mirror in view.topology.mirrors.values():
        if flow in mirror.flows:
            return mirror.name, live.mirrors.get(mirror.name)
    return "", None


def todo_cards(live: LiveState, only: str = "") -> list[str]:
    """A card for each condition, those that stop copying first. ``only``: those of this flow."""
    cards = []
    for mirror in live.mirrors.values():
        for flow in mirror.flows.values() if isinstance(mirror, LiveMirror) else ():
            if only in ("", flow.name):
                cards += [(not condition.get("stops"), flow.name, condition) for condition in flow.conditions]
    cards.sort(key=lambda card: card[0])
    shown = [_condition(flow, condition) for _, flow, condition in cards[:MOST_CARDS]]
    hidden = len(cards) - len(shown) + _not_told(live, only)
    return [*shown, f'<p class="card">and {counted(hidden, "more condition")}</p>'] if hidden else shown


def _not_told(live: LiveState, only: str) -> int:
    flows = [
        flow
        for mirror in live.mirrors.values()
        if isinstance(mirror, LiveMirror)
        for flow in mirror.flows.values()
        if only in ("", flow.name)
    ]
    return sum(sum(flow.counted_conditions.values()) - len(flow.conditions) for flow in flows)


def _condition(flow: str, condition: Fields) -> str:
    place = " ".join(str(condition[key]) for key in ("topic", "partition") if condition.get(key) is not None)
    stops = pill("stops copying", "problem") if condition.get("stops") else pill("copying goes on", "idle")
    head = f"<header>{flow_link(flow)} {mono(place)} {stops}</header>"
    words = f"<p>{code(str(condition['code']))} {safe(str(condition['text']))}</p>"
    todo = f"<p><b>{safe(str(condition['todo']))}</b></p>"
    page = f'<p class="faint">runbook: {mono(runbook_of(str(condition["code"])))}</p>'
    return f'<article class="card">{head}{words}{todo}{page}</article>'


def _one_flow(view: LiveView, live: LiveState, name: str, now_ms: int) -> tuple[Region, ...]:
    flow = view.topology.flows.get(name)
    if flow is None:
        return (Region("head", f"<h1>No flow {mono(name)} is declared</h1><p>The page of flows has all.</p>"),)
    mirror_name, mirror = job_of(view, name, live)
    status = mirror.flows.get(name) if isinstance(mirror, LiveMirror) else None
    _, cells = _row(view, flow, live)
    ends = f"{code(flow.source)} \u2192 {code(flow.target)}"
    about = (
        f"<p>{ends}, job {code(mirror_name)}, delivery {safe(flow.delivery.value)}, topics {codes(flow.topics)}."
        f' <a href="/groups?flow={quote(name, safe="")}">Where would a group stand?</a></p>'
    )
    cards = todo_cards(live, name)
    todo = f'<section class="urgent"><h2>What to do</h2><div class="cards">{"".join(cards)}</div></section>'
    return (
        Region("head", f"<h1>flow {mono(name)}</h1>{about}"),
        Region("ages", ages(view, now_ms)),
        Region("todo", todo if cards else ""),
        Region("figures", table(_HEADS[2:], [cells[2:]], _NUMBERS)),
        Region("behind", "".join(_behind(status, mirror))),
        Region("notes", "".join(_notes(status))),
    )


def _behind(status: FlowStatus | None, mirror: LiveMirror | Unknown | None) -> Iterator[str]:
    yield "<h2>Partitions furthest behind</h2>"
    if status is None or not isinstance(mirror, LiveMirror) or not mirror.lag_is_current:
        yield '<p class="unknown">unknown: no job reports now</p>'
        return
    if status.lag_unknown_partitions:
        yield f'<p class="unknown">of {counted(status.lag_unknown_partitions, "partition")} the lag is not known</p>'
    if status.standing_partitions:
        yield f"<p>{counted(status.standing_partitions, 'partition')} with records to copy, or that may have, stand</p>"
    if not status.worst_partitions:
        yield "<p>none that is known to be behind</p>"
        return
    yield _columns(status.worst_partitions, ("topic", "partition", "records_lag", "seconds_lag"))


def _columns(rows: Sequence[Fields], keys: Sequence[str]) -> str:
    heads = [key.replace("_", " ") for key in keys]
    return table(heads, ([_cell(row.get(key)) for key in keys] for row in rows), _NUMBERS)


def _cell(value: object) -> str:
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int | float) else safe(str(value))


def _notes(status: FlowStatus | None) -> Iterator[str]:
    lines: Sequence[str] = () if status is None else _lines(status)
    if lines:
        yield f"<h2>Besides</h2><ul>{''.join(f'<li>{safe(line.strip())}</li>' for line in lines)}</ul>"
    if status is not None and status.paths:
        yield f"<h2>How partitions are copied</h2>{_columns(status.paths, ('path', 'reason', 'partitions'))}"


def _lines(status: FlowStatus) -> Sequence[str]:
    return [*work_lines(status), *pause_lines(status), *limit_lines(status), *lost_lines(status)]
