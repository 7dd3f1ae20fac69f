"""The display of ``status --watch``: a row for each flow, with the time until it has caught up."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from reconciler.engine.observe.verdict import verdict_of
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Topology
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.render.reports.status import figures, flow_cells, headline
from reconciler.replication.status import FlowStatus
from reconciler.text import counted, time_words

_NUMBERS = {"records/s", "MB/s", "lag", "seconds", "left"}
_WHOLE = {"records/s", "MB/s", "seconds"}
"""Never broken into two lines, however narrow the terminal is."""
_COLUMNS = ("flow", "state", "records/s", "MB/s", "lag", "seconds", "left", "conditions")
_COLOURS = {
    "running": "green",
    "paused": "yellow",
    **dict.fromkeys(("degraded", "waiting", "unknown", "failed", "stale", "absent", "stopped"), "red"),
}
_UNKNOWN = "unknown"
NO_TIME_LEFT: Mapping[tuple[str, str], str] = MappingProxyType({})
_NO_FIGURES = ("-", "-", "-", "-", "-")
_NARROW = 100
"""Columns; on a narrower terminal conditions get lines of their own under the table."""
_WIDE = 160


def watch_frame(
    topology: Topology,
    live: LiveState,
    now: str,
    left: Mapping[tuple[str, str], str] = NO_TIME_LEFT,
    width: int = _WIDE,
    filled_in: Callable[[str], str] = str,
) -> Group:
    """``now``: the time of the look, as people read it. ``left``: words for the time until a flow has caught up, by
    mirror and flow. ``width``: of the terminal, in columns. ``filled_in``: puts the environment's folder into commands,
    as the console does for all other output."""
    live = live.as_reported()
    table = Table(box=None, pad_edge=False)
    narrow = width < _NARROW
    below: list[str] = []
    for column in _COLUMNS[:-1] if narrow else _COLUMNS:
        justify: Literal["left", "right"] = "right" if column in _NUMBERS else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column in _WHOLE)
    for name, mirror in live.mirrors.items():
        for flow, state, *rest in _rows(name, mirror, left):
            words, rest = state.split(), [filled_in(cell) for cell in rest]
            if narrow and (conditions := rest.pop()):
                below.append(f"{flow}: {conditions}")
            table.add_row(Text(flow), Text(state, style=_COLOURS.get(words[0], "")), *(Text(cell) for cell in rest))
    # Not the table's title and caption, which would wrap at its width.
    return Group(
        Text(f"{now}  {filled_in(headline(verdict_of(topology, live), figures(live)))}"),
        table,
        *([Text("\n".join(below))] if below else ()),
    )


def _rows(name: str, mirror: LiveMirror | Unknown, left: Mapping[tuple[str, str], str]) -> Iterator[tuple[str, ...]]:
    if isinstance(mirror, Unknown):
        yield f"(mirror {name})", _UNKNOWN, *_NO_FIGURES, mirror.with_todo
        return
    if not mirror.flows:
        yield f"(mirror {name})", mirror.state.value, *_NO_FIGURES, mirror.detail
    for flow in mirror.flows.values():
        state, rate, lag, seconds = flow_cells(flow, mirror)
        megabytes = f"{flow.bytes_per_second / 1e6 if mirror.state is JobState.RUNNING else 0:,.1f}"
        time_left = left.get((name, flow.name), _UNKNOWN)
        yield flow.name, state, rate, megabytes, lag, seconds, time_left, _conditions(flow)


def _conditions(flow: FlowStatus) -> str:
    """Each code once, with its count; ``!`` if a partition is not copied until someone acts."""
    counts: Counter[str] = Counter()
    for (code, _), count in flow.counted_conditions.items():
        counts[code] += count
    stopping = {code for code, stops in flow.counted_conditions if stops}
    words = [("! " if code in stopping else "") + code + (f" x{n:,}" if n > 1 else "") for code, n in counts.items()]
    requests, paused = flow.counted_pauses
    if requests:
        words.append(f"paused ({counted(requests, 'request', 'requests')}, {counted(paused, 'partition')})")
    return ", ".join(words)


WINDOW_SECONDS = 30.0
"""The rate is that of the last half minute."""
_AT_REST_SECONDS = 2.0
"""A flow with less lag is not catching up, it has caught up."""


@dataclass(slots=True)
class LagTrend:
    """The time that a flow needs to catch up, from the change of its lag while it is watched. ``samples``: of each
    flow, times in seconds and lags in records."""

    samples: dict[tuple[str, str], list[tuple[float, int]]] = field(default_factory=dict)

    def look(self, now: float, live: LiveState) -> Mapping[tuple[str, str], str]:
        """Words by mirror and flow."""
        words: dict[tuple[str, str], str] = {}
        mirrors = [(name, mirror) for name, mirror in live.mirrors.items() if isinstance(mirror, LiveMirror)]
        for name, mirror, flow in ((*named, flow) for named in mirrors for flow in named[1].flows.values()):
            key, lag = (name, flow.name), flow.records_lag
            # Samples before an unknown lag are dropped: the job, and with it the lag, may have been replaced.
            if mirror.state is not JobState.RUNNING or not mirror.lag_is_current or lag is None:
                self.samples.pop(key, None)
                words[key] = _UNKNOWN
                continue
            kept = [sample for sample in self.samples.get(key, []) if now - sample[0] <= WINDOW_SECONDS] + [(now, lag)]
            self.samples[key] = kept
            (began, first), (last, _) = kept[0], kept[-1]
            fall = (first - lag) / (last - began) if last > began else None
            if lag == 0 or (flow.seconds_lag is not None and flow.seconds_lag <= _AT_REST_SECONDS):
                words[key] = "-"
            elif fall is None:
                words[key] = _UNKNOWN
            else:
                words[key] = time_words(lag / fall) if fall > 0 else "not falling"
        return words


REFRESH_SECONDS = 2.0
PLAIN_WIDTH = 160
"""Columns if the output is no terminal."""


def columns(out: TextIO) -> int:
    """Width of ``out``."""
    return Console(file=out).width if out.isatty() else PLAIN_WIDTH


def watch(frame: Callable[[], RenderableType], out: TextIO, pause: Callable[[float], None] = time.sleep) -> None:
    """Shows frames until Ctrl-C; the last one stays on the screen."""
    console = Console(file=out, width=None if out.isatty() else PLAIN_WIDTH)
    if not console.is_terminal:
        repeat(lambda: console.print(frame()), pause)
        return
    with Live(console=console, auto_refresh=False) as live:
        repeat(lambda: live.update(frame(), refresh=True), pause)


def repeat(do: Callable[[], None], pause: Callable[[float], None] = time.sleep) -> None:
    """Returns at Ctrl-C."""
    try:
        while True:
            do()
            pause(REFRESH_SECONDS)
    except KeyboardInterrupt:
        return
