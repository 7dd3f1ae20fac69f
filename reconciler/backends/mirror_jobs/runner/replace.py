"""Restarts a mirror job by takeover: the new application warms up beside the old one and replaces it.

The CLI only starts it and watches. Killed at any moment, it leaves the old application, or the new one, copying; never
both, never none (docs/decisions/0043).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from typing import Protocol

from reconciler.backends.mirror_jobs.runner.run_folder import RunFolder
from reconciler.errors import RunnerError
from reconciler.model.live import LiveMirror

SPARK_PATIENCE_S = 120.0
READY_PATIENCE_S = 240.0
RUNNING_PATIENCE_S = 120.0
LEAVE_PATIENCE_S = 60.0
_ENDED = ("failed", "superseded", "stopped")
_COPIES = ("running", "degraded")

Progress = Callable[[str], None]


class Runner(Protocol):
    """What a replacement needs of ``SparkRunner``."""

    @property
    def status(self) -> Callable[[str], LiveMirror | None]: ...
    def folder(self, mirror: str) -> RunFolder: ...
    def other_folder(self, mirror: str) -> RunFolder: ...
    def launch(self, mirror: str, handover: str, folder: RunFolder, needs: tuple[str, ...] = ()) -> int: ...
    def running_since(self, mirror: str, fingerprint: str, asked_at_ms: int) -> LiveMirror | None: ...
    def end(self, folder: RunFolder, reported: int | None = None) -> bool: ...
    def await_gone(self, folder: RunFolder, pids: Collection[int], patience_s: float) -> bool: ...


def replace(runner: Runner, mirror: str, handover: str, progress: Progress) -> LiveMirror | None:
    """None: Spark has no place for two applications, so the old one has to be stopped first.

    Raises RunnerError: the new application could not start or was not ready, and the old one runs on; or, after it had
    taken over, it did not report itself running.
    """
    new = runner.other_folder(mirror)
    runner.end(new)  # started by a run that was killed
    if runner.other_folder(mirror) != new:
        return None  # it took over a moment ago, with the definition of that run
    old, reported = runner.folder(mirror), runner.status(mirror)
    leaving = old.pids(reported.pid if reported else None)
    document = json.loads(handover)
    asked_at_ms = runner.launch(mirror, handover, new, _needs(reported, {flow["name"] for flow in document["flows"]}))
    name = reported.application_id if reported else "the running job"
    progress(f"mirror {mirror}: a new application starts beside {name}, which goes on copying")
    if not _await_switch(runner, mirror, new, progress):
        return None
    live_mirror = _await_running(runner, mirror, new, (document["fingerprint"], asked_at_ms))
    progress(f"mirror {mirror} runs as {live_mirror.application_id}")
    if not runner.await_gone(old, leaving, LEAVE_PATIENCE_S):
        progress(f"mirror {mirror}: {name} did not leave in {LEAVE_PATIENCE_S:.0f} s and was killed; no record is lost")
    return live_mirror


def _needs(reported: LiveMirror | None, wanted: set[str]) -> tuple[str, ...]:
    """The flows that are copied now, and must be ready in the new application before it may take over."""
    if reported is None:
        return ()
    return tuple(
        sorted(
            flow.name
            for flow in reported.flows.values()
            if flow.name in wanted
            and flow.state in _COPIES
            and not any(str(condition.get("code", "")).endswith("_unreachable") for condition in flow.conditions)
        )
    )


def _await_switch(runner: Runner, mirror: str, new: RunFolder, progress: Progress) -> bool:
    began, said = time.monotonic(), ""
    while runner.folder(mirror) != new:
        waited = time.monotonic() - began
        state, phase = new.word("supervisor.json", "state"), new.word("driver.json", "phase")
        if state in _ENDED:
            raise _not_replaced(runner, mirror, new, "did not get ready")
        if not new.read("driver.json") and waited > SPARK_PATIENCE_S:
            if _give_up(runner, mirror, new):
                progress(
                    f"mirror {mirror}: Spark did not start a second application in {SPARK_PATIENCE_S:.0f} s; the old "
                    "one is stopped first"
                )
                return False
        elif waited > READY_PATIENCE_S and _give_up(runner, mirror, new):
            raise _not_replaced(runner, mirror, new, f"was not ready after {READY_PATIENCE_S:.0f} s")
        if phase and phase != said:
            progress(f"mirror {mirror}: {phase}")
            said = phase
        time.sleep(0.1)
    return True


def _give_up(runner: Runner, mirror: str, new: RunFolder) -> bool:
    """False: it had taken over before it could be ended; then it is the one that counts, and is started again."""
    runner.end(new)
    return runner.folder(mirror) != new


def _not_replaced(runner: Runner, mirror: str, new: RunFolder, subject: str) -> RunnerError:
    reported = runner.status(mirror)
    name = (reported.application_id if reported else None) or "the old application"
    return RunnerError(
        f"mirror {mirror} was not restarted: the new application {subject}",
        f"{name} goes on copying with the definition it had. The log of the new one ends with:\n{new.log_tail()}",
        f"Fix the cause, then run apply again. The whole log: {new.path / 'job.log'}",
    )


def _await_running(runner: Runner, mirror: str, new: RunFolder, expected: tuple[str, int]) -> LiveMirror:
    """``expected``: fingerprint and when it was asked to start."""
    began = time.monotonic()
    while (live_mirror := runner.running_since(mirror, *expected)) is None:
        state = new.word("supervisor.json", "state")
        crashed = state in _ENDED or bool(new.number("supervisor.json", "restarts"))
        if crashed or time.monotonic() - began > RUNNING_PATIENCE_S:
            trouble = f"ended ({state})" if crashed else f"did not report itself running in {RUNNING_PATIENCE_S:.0f} s"
            raise RunnerError(
                f"mirror {mirror}: the new application took over and then {trouble}",
                f"The old application has left. The log of the new one ends with:\n{new.log_tail()}",
                f"Look at reconciler status; run plan to see what is left. The whole log: {new.path / 'job.log'}",
            )
        time.sleep(0.2)
    return live_mirror
