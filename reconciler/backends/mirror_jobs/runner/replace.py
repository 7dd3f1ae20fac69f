"""Restarts a mirror job by takeover: the new application warms up beside the old one and replaces it.

The CLI only starts it and watches. Killed at any moment, it leaves the old application, or the new one, copying; never
both, never none (docs/decisions/0043).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from typing import Protocol

from reconciler.backends.mirror_jobs.runner.await_running import (
    ENDED,
    NotRunningError,
    StartedAs,
    await_running,
    why_ended,
)
from reconciler.backends.mirror_jobs.runner.run_folder import RunFolder
from reconciler.backends.wait_lines import WaitLines
from reconciler.errors import RunnerError
from reconciler.model.live import LiveMirror

SPARK_PATIENCE_S = 300.0
SILENT_PATIENCE_S = 240.0
"""Longer than the new application itself waits for something to move."""
LEAVE_PATIENCE_S = 60.0
_COPIES = ("running", "degraded")

Progress = Callable[[str], None]


class Runner(Protocol):
    """What a replacement needs of ``SparkRunner``."""

    @property
    def status(self) -> Callable[[str], LiveMirror | None]: ...
    def folder(self, mirror: str) -> RunFolder: ...
    def other_folder(self, mirror: str) -> RunFolder: ...
    def launch(self, mirror: str, handover: str, folder: RunFolder, needs: tuple[str, ...] = ()) -> int: ...
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
    try:
        live_mirror = await_running(runner, mirror, new, StartedAs(document["fingerprint"], asked_at_ms), progress)
    except NotRunningError as error:
        raise RunnerError(
            f"mirror {mirror}: the new application took over and then {error.problem}",
            f"The old application has left. {error.why}",
            f"Look at reconciler status ENV; run plan to see what is left. The whole log: {new.path / 'job.log'}",
        ) from None
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
            and not any(code.endswith(("_unreachable", "_undecided")) for code, _ in flow.counted_conditions)
        )
    )


def _await_switch(runner: Runner, mirror: str, new: RunFolder, progress: Progress) -> bool:
    began, lines = time.monotonic(), WaitLines(progress, 0.0)
    phase, moved = "", began
    while runner.folder(mirror) != new:
        now, before, phase = time.monotonic(), phase, new.word("driver.json", "phase")
        moved = now if phase != before else moved
        if new.word("supervisor.json", "state") in ENDED:
            raise _not_replaced(runner, mirror, new, "did not get ready")
        if not new.read("driver.json") and now - began > SPARK_PATIENCE_S:
            if _give_up(runner, mirror, new):
                progress(
                    f"mirror {mirror}: Spark did not start a second application in {SPARK_PATIENCE_S:.0f} s; the old "
                    "one is stopped first"
                )
                return False
        elif now - moved > SILENT_PATIENCE_S and _give_up(runner, mirror, new):
            raise _not_replaced(runner, mirror, new, f"said nothing new for {SILENT_PATIENCE_S:.0f} s")
        lines.show(f"mirror {mirror}: {phase or 'Spark is starting'}")
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
        f"{name} goes on copying with the definition it had. {why_ended(new)}",
        "Fix that, then run apply again. Where there is no room for two applications at once, stop the old one first: "
        f"reconciler mirror stop ENV, then apply. The whole log: {new.path / 'job.log'}",
    )
