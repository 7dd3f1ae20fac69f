"""What ``status --watch`` shows: one row a flow, made anew at each look."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from reconciler.counts import counted
from reconciler.errors import Unknown
from reconciler.live import FlowStatus, JobState, LiveMirror, LiveState
from reconciler.rendering.status import verdict

_NUMBERS = {"records/s", "MB/s", "lag", "seconds"}
_COLUMNS = ("flow", "state", "records/s", "MB/s", "lag", "seconds", "conditions")
_COLOURS = {
    "running": "green",
    "degraded": "red",
    "unknown": "red",
    "failed": "red",
    "stale": "red",
    "paused": "yellow",
}
_UNKNOWN = "unknown"
_NO_FIGURES = ("-", "-", "-", "-")


def watch_table(live: LiveState, now: str) -> Table:
    """``now``: the time of the look, as people read it."""
    table = Table(title=f"{now}  {verdict(live)}", title_justify="left", box=None, pad_edge=False, title_style="")
    for column in _COLUMNS:
        table.add_column(column, justify="right" if column in _NUMBERS else "left", overflow="fold")
    for name, found in live.mirrors.items():
        for flow, state, *rest in _rows(name, found):
            words = state.split()
            table.add_row(Text(flow), Text(state, style=_COLOURS.get(words[0], "")), *(Text(cell) for cell in rest))
    return table


def _rows(name: str, found: LiveMirror | Unknown) -> Iterator[tuple[str, ...]]:
    if isinstance(found, Unknown):
        yield f"(mirror {name})", _UNKNOWN, *_NO_FIGURES, f"{found.error}. {found.todo}"
        return
    if not found.flows:
        yield f"(mirror {name})", found.state.value, *_NO_FIGURES, found.detail
    for flow in found.flows.values():
        yield _row(flow, found.state)


def _row(flow: FlowStatus, job: JobState) -> tuple[str, ...]:
    """A job that does not run copies nothing, whatever the rates of its last record say."""
    runs = job is JobState.RUNNING
    return (
        flow.name,
        flow.state if runs else job.value,
        f"{flow.records_per_second:,.0f}" if runs else "0",
        f"{flow.bytes_per_second / 1e6:,.1f}" if runs else "0.0",
        _UNKNOWN if flow.records_lag is None else f"{flow.records_lag:,}",
        _UNKNOWN if flow.seconds_lag is None else f"{flow.seconds_lag:,.1f}",
        _conditions(flow),
    )


def _conditions(flow: FlowStatus) -> str:
    """Each code once, with its count; ``!`` where a partition is not copied until someone acts."""
    codes = [(str(one["code"]), bool(one.get("stops"))) for one in flow.conditions]
    counts = {code: sum(code == other for other, _ in codes) for code, _ in codes}
    stopping = {code for code, stops in codes if stops}
    words = [("! " if code in stopping else "") + code + (f" x{n}" if n > 1 else "") for code, n in counts.items()]
    if flow.pauses:
        paused = sum(int(str(one["paused_partitions"])) for one in flow.pauses)
        words.append(f"paused ({counted(len(flow.pauses), 'wish', 'wishes')}, {counted(paused, 'partition')})")
    return ", ".join(words)
