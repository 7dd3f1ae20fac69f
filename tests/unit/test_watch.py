"""``status --watch``: every flow in a row, silence never taken for rest, Ctrl-C an ordinary end."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from types import MappingProxyType

import pytest
from rich.console import Console

from reconciler.edges.live_table import REFRESH_SECONDS, watch
from reconciler.errors import Unknown
from reconciler.live import FlowStatus, JobState, LiveMirror, LiveState
from reconciler.rendering.status import status_json, status_text
from reconciler.rendering.watch import watch_table
from tests.builders import topology

STOP = {"code": "record_refused", "text": "t", "todo": "d", "since_ms": 1, "stops": True}
HINT = {"code": "quota_throttled", "text": "t", "todo": "d", "since_ms": 1, "stops": False}
BUSY = FlowStatus(
    "orders", "f" * 16, "degraded", 1, 3, 9, 12_345.6, 7_890_000.0, 1_234, 5.25, (STOP, HINT, STOP),
    8, 2, paths=({"path": "batch", "reason": "", "partitions": 3},),
    worst_partitions=({"topic": "orders", "partition": 1, "records_lag": 1_000, "seconds_lag": 5.25},),
)  # fmt: skip
NEW = FlowStatus("new", "f" * 16, "starting")


def live(state: JobState = JobState.RUNNING, *flows: FlowStatus) -> LiveState:
    told = MappingProxyType({flow.name: flow for flow in flows})
    return LiveState({}, {"west": LiveMirror("west", state, "app-1", "f" * 16, 1, 2, 3, "", told)})


def shown(state: LiveState) -> str:
    out = io.StringIO()
    Console(file=out, width=160).print(watch_table(state, "12:00:00"))
    return out.getvalue()


def test_a_pause_is_in_the_row_and_the_json_and_the_text_with_who_and_why() -> None:
    pause = {"since_ms": 1, "by": "ann@host", "reason": "why", "partitions": 4, "paused_partitions": 3}
    paused = live(JobState.RUNNING, FlowStatus("calm", "f" * 16, "paused", pauses=(pause,)))
    assert row(paused, "calm")[1] == "paused"
    assert "paused (1 wish, 3 partitions)" in row(paused, "calm")[-1]
    assert "flow calm is paused since 1970-01-01 00:00:00 UTC by ann@host: why; 3 of 4 partitions" in status_text(
        topology(), paused, 5
    )
    told = json.loads(status_json(topology(), paused, 5))["mirrors"]["west"]["flows"]["calm"]
    assert told["pauses"] == [pause]


def row(state: LiveState, first: str) -> list[str]:
    [line] = [line for line in shown(state).splitlines() if line.startswith(first)]
    return line.split(maxsplit=6)


def test_a_flow_is_one_row_of_figures() -> None:
    state = live(JobState.RUNNING, BUSY, NEW)
    assert row(state, "orders") == [
        "orders", "degraded", "12,346", "7.9", "1,234", "5.2", "! record_refused x2, quota_throttled"
    ]  # fmt: skip
    assert row(state, "new") == ["new", "starting", "0", "0.0", "unknown", "unknown"]
    assert "12:00:00  1 of 1 mirror running; lag not fully known; 3 conditions" in shown(state)


@pytest.mark.parametrize("state", [JobState.STALE, JobState.FAILED, JobState.STOPPED])
def test_a_job_that_does_not_run_has_no_rate(state: JobState) -> None:
    assert row(live(state, BUSY), "orders")[1:4] == [state.value, "0", "0.0"]


def test_a_mirror_that_cannot_be_read_or_never_ran_is_a_row_too() -> None:
    nobody = LiveState({}, {"west": Unknown("mirror west", "no answer from west", "Check it.", ())})
    assert "(mirror west)" in shown(nobody)
    assert "no answer from west" in shown(nobody)
    assert "lag not fully known; 0 conditions; 1 unknown" in shown(nobody)
    assert "absent" in shown(live(JobState.ABSENT))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def looks(count: int) -> tuple[list[float], Callable[[float], None]]:
    """A pause that is interrupted, as by Ctrl-C, once there were ``count`` looks."""
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == count:
            raise KeyboardInterrupt

    return waited, pause


def test_without_a_terminal_each_look_is_printed_plainly() -> None:
    out = io.StringIO()
    waited, pause = looks(3)
    watch(lambda: watch_table(live(JobState.RUNNING, BUSY), "12:00:00"), out, pause)
    assert waited == [REFRESH_SECONDS] * 3
    assert out.getvalue().count("orders") == 3
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_each_look_replaces_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    _, pause = looks(2)
    watch(lambda: watch_table(live(JobState.RUNNING, BUSY), "12:00:00"), out, pause)
    assert "\x1b[2K" in out.getvalue(), "the lines of the first look are cleared"
    assert out.getvalue().endswith("\x1b[?25h"), "the cursor is back"


def test_the_json_of_a_flow_holds_how_and_where_it_lags() -> None:
    wished = topology()
    told = json.loads(status_json(wished, live(JobState.RUNNING, BUSY), 5))["mirrors"]["west"]["flows"]["orders"]
    assert (told["transactions"], told["retries"]) == (8, 2)
    assert told["paths"] == [{"path": "batch", "reason": "", "partitions": 3}]
    assert told["worst_partitions"][0]["records_lag"] == 1_000
