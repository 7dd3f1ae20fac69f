"""Runs a mirror job that ends by itself, and follows it to its end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from reconciler.edges.spark import SparkRunner
from reconciler.errors import ClusterError
from reconciler.live import LiveMirror

LOOK_S = 0.5
_ENDED = ("stopped", "failed", "superseded")


@dataclass(frozen=True, slots=True)
class Run:
    """One started job. ``asked_at_ms`` tells its status record from that of an earlier one."""

    mirror: str
    asked_at_ms: int


@dataclass(frozen=True, slots=True)
class Ended:
    """``reached``: the job said so itself and ended with exit code 0. ``log``: the end of its log."""

    mirror: str
    reached: bool
    last: LiveMirror | None
    log: str


def begin(
    runner: SparkRunner, mirror: str, handover: str, goal: Mapping[str, object], progress: Callable[[str], None]
) -> Run:
    """Stops a job of the mirror that runs, and starts one with a goal. Raises RunnerError."""
    runner.require_startable([mirror])
    if any(folder.supervisor_pid() for folder in (runner.folder(mirror), runner.other_folder(mirror))):
        runner.stop(mirror, progress)
    return Run(mirror, runner.launch(mirror, handover, runner.folder(mirror), goal=json.dumps(goal)))


def follow(runner: SparkRunner, runs: Iterable[Run], told: Callable[[LiveMirror], None]) -> tuple[Ended, ...]:
    """Until all have ended; ``told`` gets what each reports meanwhile."""
    waiting = {run.mirror: run for run in runs}
    ended: list[Ended] = []
    while waiting:
        for name, run in list(waiting.items()):
            last = _reported(runner, run)
            if last is not None:
                told(last)
            folder = runner.folder(name)
            state = folder.word("supervisor.json", "state")
            if state in _ENDED or (state and folder.supervisor_pid() is None):
                reached = state == "stopped" and folder.number("supervisor.json", "exit_code") == 0
                ended.append(Ended(name, reached, _reported(runner, run), folder.log_tail(4)))
                del waiting[name]
        time.sleep(LOOK_S)
    return tuple(ended)


def _reported(runner: SparkRunner, run: Run) -> LiveMirror | None:
    try:
        found = runner.status(run.mirror)
    except ClusterError:
        return None
    return found if found is not None and (found.started_at_ms or 0) >= run.asked_at_ms else None
