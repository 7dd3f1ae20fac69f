"""Replaces a running application by a new one, and waits until a started application reports that it runs.

A restart is a takeover: the new application gets ready beside the old one, and takes over from it. The CLI only starts
and watches it. If the CLI is killed at any moment, either the old application or the new one keeps copying; never both,
never none (docs/decisions/0043).
"""

import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from reconciler.backends.mirror_jobs.runner.run_folder import RunFolder
from reconciler.backends.wait_lines import WaitLines
from reconciler.errors import ClusterError, RunnerError
from reconciler.model.live import JobState, LiveMirror
from reconciler.text import first_of

SPARK_S, STALLED_S, AT_MOST_S = 600.0, 180.0, 900.0
"""Seconds until Spark is up; then without progress; and in total."""
CANNOT_RUN = "The mirror job cannot run: "
ENDED = ("failed", "superseded", "stopped")
_POLL_S = 0.3
_NAMED = 3


SPARK_PATIENCE_S = 300.0
SILENT_PATIENCE_S = 240.0
"""Seconds without a word; longer than the new application itself waits for progress."""
LEAVE_PATIENCE_S = 60.0
_COPIES = ("running", "degraded")
Progress = Callable[[str], None]
StatusReader = Callable[[str], LiveMirror | None]
"""The newest status record of a mirror, or None."""


@dataclass(frozen=True, slots=True)
class StartedAs:
    """Tells the status record of a new application from that of an earlier one."""

    fingerprint: str
    asked_at_ms: int


class NotRunningError(Exception):
    """``problem``: the event, and ``why``: the application's reason, if it gave one. ``ended``: the application has
    ended."""

    def __init__(self, problem: str, why: str, *, ended: bool) -> None:
        super().__init__(problem)
        self.problem, self.why, self.ended = problem, why, ended


def await_running(
    status: StatusReader, mirror: str, folder: RunFolder, expected: StartedAs, progress: Progress
) -> LiveMirror:
    """Waits until the application reports that it runs. Raises NotRunningError."""
    began = moved = time.monotonic()
    lines, words = WaitLines(progress, 0.0), ""
    while True:
        state = folder.word("supervisor.json", "state")
        if state in ENDED or folder.number("supervisor.json", "restarts"):
            raise NotRunningError(f"its process ended ({state})", why_ended(folder), ended=True)

        # Its record is newer than the request, or has the application id in the run folder: in deploy mode cluster an
        # application may have begun long before.
        before = words
        try:
            reported = status(mirror)
        except ClusterError as error:
            words = f"its status cannot be read: {error.what}"
        else:
            ours = reported is not None and (
                (reported.started_at_ms or 0) >= expected.asked_at_ms
                or reported.application_id == folder.word("driver.json", "application_id")
            )
            if reported is None or not ours or reported.fingerprint != expected.fingerprint:
                words = "it has written no status record yet"
            elif reported.state is JobState.RUNNING:
                return reported
            else:
                texts = [f"{flow.name}: {each.text}" for flow in reported.flows.values() for each in flow.conditions]
                words = f"lanes are being taken{f'; {first_of(texts, _NAMED)}' if texts else ''}"

        # Waits while the application makes progress.
        now, is_up = time.monotonic(), bool(folder.read("driver.json"))
        words = f"Spark is up; {words}" if is_up else "Spark is starting"
        moved = now if words != before else moved
        if now - began > AT_MOST_S or now - moved > (STALLED_S if is_up else SPARK_S):
            problem = f"did not report itself running in {now - began:.0f} s"
            raise NotRunningError(problem, f"{words}.\nIts log ends with:\n{folder.log_tail()}", ended=False)
        lines.show(f"mirror {mirror}: {words}")
        time.sleep(_POLL_S)


def why_ended(folder: RunFolder) -> str:
    """The application's last words, else the end of its log."""
    tail = folder.log_tail()
    said = [line for line in tail.splitlines() if line.startswith(CANNOT_RUN)]
    return f"It said: {said[-1].removeprefix(CANNOT_RUN)}" if said else f"Its log ends with:\n{tail}"


class Runner(Protocol):
    """The part of ``SparkRunner`` that a replacement needs."""

    @property
    def status(self) -> StatusReader: ...
    def folder(self, mirror: str) -> RunFolder: ...
    def other_folder(self, mirror: str) -> RunFolder: ...
    def launch(self, mirror: str, handover: str, folder: RunFolder, needs: tuple[str, ...] = ()) -> int: ...
    def end(self, folder: RunFolder, reported: int | None = None) -> bool: ...
    def await_gone(self, folder: RunFolder, pids: Collection[int], patience_s: float) -> bool: ...


def replace(runner: Runner, mirror: str, handover: str, progress: Progress) -> LiveMirror | None:
    """Starts the new application and waits for its takeover. None: Spark has no room for two applications, so the old
    one must be stopped first.

    Raises RunnerError: the new application did not start or get ready, and the old one keeps running; or it took over,
    but does not report that it runs.
    """
    new = runner.other_folder(mirror)
    runner.end(new)  # left by a killed run
    if runner.other_folder(mirror) != new:
        return None  # the killed run's application has just taken over
    old, reported = runner.folder(mirror), runner.status(mirror)
    leaving = old.pids(reported.pid if reported else None)

    # Every flow that copies now must be ready in the new application before it takes over. A flow that the old
    # application cannot copy either, because a cluster is silent, is not waited for.
    document = json.loads(handover)
    copied = {
        flow.name
        for flow in (reported.flows.values() if reported else ())
        if flow.state in _COPIES
        and not any(code.endswith(("_unreachable", "_undecided")) for code, _ in flow.counted_conditions)
    }
    needs = sorted(copied & {flow["name"] for flow in document["flows"]})
    asked_at_ms = runner.launch(mirror, handover, new, tuple(needs))
    name = reported.application_id if reported else "the running job"
    progress(f"mirror {mirror}: a new application starts beside {name}, which keeps copying")
    if not _await_switch(runner, mirror, new, progress):
        return None

    # From here on the old application cannot come back: its lanes are fenced.
    try:
        live_mirror = await_running(
            runner.status, mirror, new, StartedAs(document["fingerprint"], asked_at_ms), progress
        )
    except NotRunningError as error:
        raise RunnerError(
            f"mirror {mirror}: the new application took over and then {error.problem}",
            f"The old application has left. {error.why}",
            f"Check reconciler status ENV; run plan to see what is left. The whole log: {new.path / 'job.log'}",
        ) from None
    progress(f"mirror {mirror} runs as {live_mirror.application_id}")
    if not runner.await_gone(old, leaving, LEAVE_PATIENCE_S):
        progress(f"mirror {mirror}: {name} did not leave in {LEAVE_PATIENCE_S:.0f} s and was killed; no record is lost")
    return live_mirror


def _await_switch(runner: Runner, mirror: str, new: RunFolder, progress: Progress) -> bool:
    """Waits until the pointer names the new application's folder, and returns True. False: there was no room for two
    applications, so the old one must be stopped first. Raises RunnerError if the new one ends or hangs; the old one
    then keeps copying. Only reports of the new one count as progress: Spark may be slow, but not silent."""
    began, lines = time.monotonic(), WaitLines(progress, 0.0)
    phase, moved = "", began
    while runner.folder(mirror) != new:
        now, before, phase = time.monotonic(), phase, new.word("driver.json", "phase")
        # A phase that does not change for long is a hang; one that takes long and changes is a slow cluster.
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
    """Ends the new application. False: it had already taken over, so it is the current one, and is started again."""
    runner.end(new)
    return runner.folder(mirror) != new


def _not_replaced(runner: Runner, mirror: str, new: RunFolder, subject: str) -> RunnerError:
    """The error about a failed replacement; the old application keeps copying."""
    reported = runner.status(mirror)
    name = (reported.application_id if reported else None) or "the old application"
    return RunnerError(
        f"mirror {mirror} was not restarted: the new application {subject}",
        f"{name} keeps copying with the definition it had. {why_ended(new)}",
        "Fix that, then run apply again. Where there is no room for two applications at once, stop the old one first: "
        f"reconciler mirror stop ENV {new.a_flow()}, then apply. The whole log: {new.path / 'job.log'}",
    )
