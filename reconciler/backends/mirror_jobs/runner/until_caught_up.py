"""Runs a mirror job that ends by itself once it has caught up, and follows it to its end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from reconciler.backends.mirror_jobs.runner.spark_submit import SparkRunner
from reconciler.errors import ClusterError
from reconciler.model.live import LiveMirror

LOOK_S = 0.5
_ENDED = ("stopped", "failed", "superseded")


@dataclass(frozen=True, slots=True)
class StartedJob:
    """One started job. ``asked_at_ms`` distinguishes its status record from that of an earlier one."""

    mirror: str
    asked_at_ms: int


@dataclass(frozen=True, slots=True)
class EndedJob:
    """``reached``: the job said so itself and ended with exit code 0. ``log``: the end of its log."""

    mirror: str
    reached: bool
    last: LiveMirror | None
    log: str


def begin(
    runner: SparkRunner, mirror: str, handover: str, goal: Mapping[str, object], progress: Callable[[str], None]
) -> StartedJob:
    """Stops a job of the mirror that runs, and starts one with a goal. Raises RunnerError."""
    runner.require_startable([mirror])
    if any(folder.supervisor_pid() for folder in (runner.folder(mirror), runner.other_folder(mirror))):
        runner.stop(mirror, progress)
    return StartedJob(mirror, runner.launch(mirror, handover, runner.folder(mirror), goal=json.dumps(goal)))


def follow(
    runner: SparkRunner, runs: Iterable[StartedJob], report: Callable[[LiveMirror], None]
) -> tuple[EndedJob, ...]:
    """Until all have ended; ``report`` gets what each reports meanwhile."""
    waiting = {run.mirror: run for run in runs}
    ended: list[EndedJob] = []
    while waiting:
        for name, run in list(waiting.items()):
            last = _reported(runner, run)
            if last is not None:
                report(last)
            folder = runner.folder(name)
            state = folder.word("supervisor.json", "state")
            if state in _ENDED or (state and folder.supervisor_pid() is None):
                reached = state == "stopped" and folder.number("supervisor.json", "exit_code") == 0
                ended.append(EndedJob(name, reached, _reported(runner, run), folder.log_tail(4)))
                del waiting[name]
        time.sleep(LOOK_S)
    return tuple(ended)


def _reported(runner: SparkRunner, run: StartedJob) -> LiveMirror | None:
    try:
        mirror = runner.status(run.mirror)
    except ClusterError:
        return None
    return mirror if mirror is not None and (mirror.started_at_ms or 0) >= run.asked_at_ms else None
