"""Starts, replaces and stops the Spark application of one mirror on this host in the background."""

import json
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from reconciler.backends.mirror_jobs.runner.replace import StatusReader
from reconciler.backends.mirror_jobs.runner.run_folder import terminate
from reconciler.backends.mirror_jobs.runner.spark_submit import SparkRunner
from reconciler.backends.mirror_jobs.runner.supervisor import kill_group
from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import Mirror
from reconciler.model.live import JobState
from reconciler.model.state.mirror_control import DesiredMirror
from reconciler.replication.handover import CLIENT, Deployment


@dataclass(frozen=True, slots=True)
class JobLook:
    """State of the application."""

    busy: bool = False
    """A start, restart or stop is in progress."""
    alive: bool = False
    """One of its processes runs on this host."""
    ready: bool = False
    """It reports that it runs."""
    application_id: str = ""
    fingerprint: str = ""
    words: str = ""
    """The awaited event."""
    failed: str = ""
    """Why the last start or restart failed."""


class Jobs(Protocol):
    """The application of one mirror. No method waits or raises."""

    def look(self) -> JobLook: ...

    def begin(self, desired: DesiredMirror) -> None:
        """Starts the application, or replaces the running one."""
        ...

    def end(self) -> None:
        """Asks all its processes on this host to commit and end."""
        ...


class SparkJobs:
    """``Jobs`` by spark-submit. Only the host with the lease restarts a crashed application: the supervisor of a lost
    host must not start one beside its successor's."""

    def __init__(self, state: Path, mirror: str, status: StatusReader) -> None:
        self._name = mirror
        self._status = status
        self._mirrors: dict[str, Mirror] = {}
        self._runner = SparkRunner(state, self._mirrors, status, for_host=True)
        self._work: threading.Thread | None = None
        self._ending: threading.Thread | None = None
        self._words = ""
        self._failed = ""

    def look(self) -> JobLook:
        """The job on this host. Its status record counts only if it is of the application that runs here."""
        current = self._runner.folder(self._name)
        busy = any(work is not None and work.is_alive() for work in (self._work, self._ending))
        alive = any(folder.pids() for folder in (current, self._runner.other_folder(self._name)))
        here = current.word("driver.json", "application_id")
        started_as = current.word("handover.json", "fingerprint") if alive else ""
        try:
            reported = self._status(self._name)
        except ReconcilerError:
            reported = None

        # The status record may be from another host's application.
        ready, fingerprint = False, started_as
        if reported is not None and here and reported.application_id == here and current.driver_pid(reported.pid):
            ready, fingerprint = reported.state is JobState.RUNNING, reported.fingerprint or started_as
        return JobLook(busy, alive, ready, here, fingerprint, self._words, self._failed)

    def begin(self, desired: DesiredMirror) -> None:
        """Starts, or restarts, the job of a desired record on a thread of its own: a start may take minutes, and the
        lease has to be renewed meanwhile."""
        flows = tuple(flow["name"] for flow in desired.handover["flows"])
        submission = desired.submission
        self._mirrors[self._name] = Mirror(
            self._name,
            flows,
            master=submission["master"],
            parallelism=desired.handover["parallelism"],
            spark_conf=submission["spark_conf"],
            deployment=Deployment(deploy_mode=desired.handover.get("deployment", {}).get("deploy_mode", CLIENT)),
        )
        text = json.dumps(desired.handover, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        self._work = self._started(lambda: self._runner.restart(self._name, text, self._say))

    def end(self) -> None:
        if self._ending is None or not self._ending.is_alive():
            folders = (self._runner.other_folder(self._name), self._runner.folder(self._name))
            self._ending = self._started(lambda: [self._runner.end(folder) for folder in folders])

    def leave_running(self) -> bool:
        """Ends the processes that follow a driver on the cluster; the driver keeps copying. False: the driver is on
        this machine."""
        folder = self._runner.folder(self._name)
        if not folder.follows_elsewhere():
            return False
        supervisor, follower = folder.supervisor_pid(), folder.driver_pid()
        if supervisor is not None:  # first, or it would start another follower
            terminate(supervisor, signal.SIGKILL)
        if follower is not None:
            kill_group(follower, signal.SIGKILL)  # with Spark's client
        return True

    def _started(self, act: Callable[[], object]) -> threading.Thread:
        """Runs ``act`` on a thread, and keeps an error as words for the report: an exception would only be printed."""
        self._words, self._failed = "", ""

        def work() -> None:
            try:
                act()
            except (ReconcilerError, OSError) as error:
                self._failed = str(error)

        thread = threading.Thread(target=work, name=f"mirror-{self._name}", daemon=True)
        thread.start()
        return thread

    def _say(self, words: str) -> None:
        self._words = words
