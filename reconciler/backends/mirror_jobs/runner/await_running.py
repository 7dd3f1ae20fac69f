"""Waits until a started application reports itself running: as long as something moves, telling what is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from reconciler.backends.mirror_jobs.runner.run_folder import RunFolder
from reconciler.backends.wait_lines import WaitLines
from reconciler.errors import ClusterError
from reconciler.model.live import JobState, LiveMirror
from reconciler.text import first_of

SPARK_S, STALLED_S, AT_MOST_S = 600.0, 180.0, 900.0
"""Until Spark is up; then without anything new; and altogether."""
CANNOT_RUN = "The mirror job cannot run: "
ENDED = ("failed", "superseded", "stopped")
_LOOK_S = 0.3
_NAMED = 3


class StatusSource(Protocol):
    @property
    def status(self) -> Callable[[str], LiveMirror | None]: ...


@dataclass(frozen=True, slots=True)
class StartedAs:
    """What distinguishes the record of a new application from that of an earlier one."""

    fingerprint: str
    asked_at_ms: int


class NotRunningError(Exception):
    """``problem``: what happened, and ``why``, as far as the application said. ``ended``: it is gone."""

    def __init__(self, problem: str, why: str, *, ended: bool) -> None:
        super().__init__(problem)
        self.problem, self.why, self.ended = problem, why, ended


def await_running(
    source: StatusSource, mirror: str, folder: RunFolder, expected: StartedAs, progress: Callable[[str], None]
) -> LiveMirror:
    """Raises NotRunningError."""
    began = moved = time.monotonic()
    lines, words = WaitLines(progress, 0.0), ""
    while True:
        state = folder.word("supervisor.json", "state")
        if state in ENDED or folder.number("supervisor.json", "restarts"):
            raise NotRunningError(f"its process ended ({state})", why_ended(folder), ended=True)
        here = folder.word("driver.json", "application_id")
        before, (live_mirror, words) = words, _look(source, mirror, expected, here)
        if live_mirror is not None:
            return live_mirror
        now, is_up = time.monotonic(), bool(folder.read("driver.json"))
        words = f"Spark is up; {words}" if is_up else "Spark is starting"
        moved = now if words != before else moved
        if now - began > AT_MOST_S or now - moved > (STALLED_S if is_up else SPARK_S):
            problem = f"did not report itself running in {now - began:.0f} s"
            raise NotRunningError(problem, f"{words}.\nIts log ends with:\n{folder.log_tail()}", ended=False)
        lines.show(f"mirror {mirror}: {words}")
        time.sleep(_LOOK_S)


def _look(source: StatusSource, mirror: str, expected: StartedAs, here: str) -> tuple[LiveMirror | None, str]:
    """The application once it runs with the hand-over it was given, else what is known of it. ``here``: its id, where
    the run folder has it: in deploy mode cluster it may have begun long before."""
    try:
        reported = source.status(mirror)
    except ClusterError as error:
        return None, f"its status cannot be read: {error.what}"
    if (
        reported is None
        or ((reported.started_at_ms or 0) < expected.asked_at_ms and reported.application_id != here)
        or reported.fingerprint != expected.fingerprint
    ):
        return None, "it has written no status record yet"
    if reported.state is JobState.RUNNING:
        return reported, ""
    texts = [f"{flow.name}: {each.text}" for flow in reported.flows.values() for each in flow.conditions]
    return None, f"lanes are being taken{f'; {first_of(texts, _NAMED)}' if texts else ''}"


def why_ended(folder: RunFolder) -> str:
    """What the application itself said last, else the end of its log."""
    tail = folder.log_tail()
    said = [line for line in tail.splitlines() if line.startswith(CANNOT_RUN)]
    return f"It said: {said[-1].removeprefix(CANNOT_RUN)}" if said else f"Its log ends with:\n{tail}"
