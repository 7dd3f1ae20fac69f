"""MirrorRunner over spark-submit: starts, replaces, finds and stops the Spark application of a mirror job.

The job runs under a supervisor that outlives the CLI. The job's state (fingerprint, application id, lag) comes from its
status record in Kafka; run folders only show its processes on this machine.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from reconciler.backends.files import make_private
from reconciler.backends.mirror_jobs.runner import command_line
from reconciler.backends.mirror_jobs.runner import replace as replacing
from reconciler.backends.mirror_jobs.runner.replace import (
    CANNOT_RUN,
    NotRunningError,
    Progress,
    StartedAs,
    StatusReader,
    await_running,
)
from reconciler.backends.mirror_jobs.runner.run_folder import SUPERVISOR, RunFolder, private_files, terminate, works_in
from reconciler.backends.mirror_jobs.runner.supervisor import ONCE
from reconciler.errors import ClusterError, RunnerError, Unknown
from reconciler.model.environment.topology import Mirror
from reconciler.model.live import JobState, LiveMirror
from reconciler.replication.kept_files import write_json
from reconciler.replication.runs import run_folders as succession

STOP_TIMEOUT_S = 75.0
"""Longer than the lanes' last commit (15 s) and the driver's wait for its tasks (45 s)."""
_NOT_ENDED = (JobState.STARTING, JobState.RUNNING, JobState.STALE)
_OF_SPARK = re.compile(r"[0-9/]{8} [0-9:]{8} ERROR (\w+: .+)")
_LEFTOVERS = (succession.HANDOVER, succession.GOAL, "stop", "driver.json", "supervisor.json", "job.log", ONCE)

OrderStop = Callable[[LiveMirror], None]
"""Orders a driver to stop; may be repeated. Raises ClusterError."""


class SparkRunner:
    """The runner of one environment. ``status``: reads the newest status record of a mirror, or None. ``unseen``: why a
    job on this machine has no record, unless it is just starting. ``require_heard``: raises RunnerError if there is no
    record but a job may run on another machine."""

    def __init__(
        self,
        state: Path,
        mirrors: Mapping[str, Mirror],
        status: StatusReader,
        unseen: Callable[[str], Unknown | None] = lambda _: None,
        require_heard: Callable[[str], None] = lambda _: None,
        *,
        for_host: bool = False,
        order_stop: OrderStop | None = None,
    ) -> None:
        """``for_host``: the mirror host with the lease, not the supervisor, restarts a crashed application, and may
        take over from one on another machine. ``order_stop``: orders a driver in deploy mode cluster to stop if no
        process here follows it."""
        self._order_stop = order_stop
        self._for_host = for_host
        self._unseen = unseen
        self._require_heard = require_heard
        self.state = state
        self.mirrors = mirrors
        self.status = status

    def folder(self, mirror: str) -> RunFolder:
        """The run folder of the current application, or of the last one."""
        return RunFolder(succession.current(self.state / mirror))

    def other_folder(self, mirror: str) -> RunFolder:
        """The other run folder, where a new application starts beside the current one, or an old one ends."""
        return RunFolder(succession.other(self.state / mirror))

    def observe(self, mirror: str) -> LiveMirror:
        """The state of a mirror. Raises RunnerError if a job may run on another machine without reporting, and as
        ``status``."""
        folder = self.folder(mirror)
        reported = self.status(mirror)
        supervised = folder.supervisor_pid() is not None
        state = folder.word("supervisor.json", "state")
        if reported is None and not supervised and state != "failed":
            self._require_heard(mirror)
            reported = self.status(mirror)  # the job may have reported meanwhile

        # Without a record, a job is starting, has failed to start, or does not exist. A starting job is named by its
        # own hand-over, whatever an earlier application reported.
        text = folder.word("handover.json", "fingerprint") if supervised else ""
        if reported is None:
            job_state = JobState.STARTING if supervised else JobState.FAILED if state == "failed" else JobState.ABSENT
            detail = folder.log_tail(1) if job_state is JobState.FAILED else ""
            unseen = self._unseen(mirror) if supervised else None
            began = folder.asked_at_ms() if job_state is JobState.STARTING else None
            live = LiveMirror(mirror, job_state, fingerprint=text or None, detail=detail, unseen=unseen)
            return replace(live, started_at_ms=began)

        # The application will not report again: it is ending, or its process on this machine has ended.
        if supervised and (folder.path / "stop").exists():
            return replace(reported, state=JobState.STOPPED, detail="it was asked to stop and is leaving")
        failed = state == "failed" and reported.host == socket.gethostname()
        if not supervised and reported.state in _NOT_ENDED and (failed or self.has_lost(reported)):
            why = _why(folder) if failed else ""
            lost = replace(reported, state=JobState.STALE, late_ms=0, gone=True)
            return _and(lost, f"its process is gone{': ' if why else ''}{why}")

        # If this folder's supervisor has started another application since, the reported one has crashed. Without a
        # supervisor a crash is the end; an application that starts beside it changes nothing.
        restarted = supervised and bool(folder.number("supervisor.json", "restarts"))
        here = reported.host == socket.gethostname() and not folder.follows_elsewhere()
        crashed = restarted and here and not works_in(reported.pid, folder.path)
        if reported.state is JobState.RUNNING and not crashed:
            alone = not supervised and folder.driver_pid(reported.pid) is not None and not folder.follows_elsewhere()
            reported = replace(reported, unkept="its supervisor is gone: a crash would end it" if alone else "")
            beside = self.other_folder(mirror)
            starts = beside.supervisor_pid() is not None and beside.word("place.json", "home") != ""
            return _and(reported, "a new application is starting beside it") if starts else reported

        # The supervisor keeps restarting the application; the last attempt may have failed even before Spark, with a
        # reason.
        if supervised and not crashed and _is_silent(folder, reported):
            return _and(reported, "its process here hangs, or cannot write its status")
        if supervised and reported.state is not JobState.STARTING:
            words = "the supervised process is starting"
            if crashed or state == "pausing":
                why = _why(folder)
                words = f"starts again after a crash{': ' if why else ''}{why}"
            again = replace(reported, state=JobState.STARTING, fingerprint=text or reported.fingerprint, detail=words)
            return replace(again, started_at_ms=None if crashed else folder.asked_at_ms())
        return reported

    def has_lost(self, reported: LiveMirror) -> bool:
        """Whether the application ran on this machine and its process has ended."""
        return self.folder(reported.name).has_lost(reported.application_id, reported.pid)

    def require_startable(self, mirrors: Iterable[str]) -> None:
        """Raises RunnerError for obstacles to starting a job, before anything is changed."""
        for name in mirrors:
            command_line.require_spark()
            if name in self.mirrors:
                command_line.require_master(self.mirrors[name])

    def start(self, mirror: str, handover: str, progress: Progress) -> LiveMirror:
        """Starts a mirror. An application that is already starting with this hand-over is awaited, unless it has
        failed. A running application that has become silent is stopped first."""
        self.require_startable([mirror])
        folder, fingerprint = self.folder(mirror), json.loads(handover)["fingerprint"]
        asked_at_ms = _asked_at_ms(folder, fingerprint)
        silent = asked_at_ms is not None and _is_silent(folder, self.status(mirror))
        if asked_at_ms is not None and not silent and self.other_folder(mirror).supervisor_pid() is None:
            progress(f"mirror {mirror}: it is starting already")
            return self._await_running(mirror, fingerprint, asked_at_ms, progress)
        if any(each.supervisor_pid() for each in (folder, self.other_folder(mirror))):
            self.stop(mirror, progress)
        folder = self.folder(mirror)
        asked_at_ms = self.launch(mirror, handover, folder)
        return self._await_running(mirror, fingerprint, asked_at_ms, progress)

    def restart(self, mirror: str, handover: str, progress: Progress) -> LiveMirror:
        """The new application starts beside the running one and takes over from it when it is ready.

        Raises RunnerError; its text says whether the old application keeps running.
        """
        self.require_startable([mirror])
        folders = (self.folder(mirror), self.other_folder(mirror))
        elsewhere = self._for_host and not any(each.pids() for each in folders)
        try:
            reported = self.status(mirror)
        except ClusterError:
            if not elsewhere:
                raise
            reported = None
        if self._copies_meanwhile(mirror, reported):
            live_mirror = replacing.replace(self, mirror, handover, progress)
            if live_mirror is not None:
                return live_mirror

        # A host need not stop an application on another machine: the new one fences its lanes.
        if elsewhere:
            return self.start(mirror, handover, progress)
        self.stop(mirror, progress)
        try:
            return self.start(mirror, handover, progress)
        except RunnerError as error:
            stopped = "The old job was stopped; nothing is copied until it starts again."
            raise RunnerError(error.what, f"{error.why}\n{stopped}", error.todo) from None

    def _copies_meanwhile(self, mirror: str, reported: LiveMirror | None) -> bool:
        """Whether the current application keeps copying while a new one starts: on this machine, or, for a host, on the
        previous host's. In deploy mode cluster the driver is followed, not replaced."""
        self._name_again(mirror, reported)
        if reported is None or reported.state is not JobState.RUNNING:
            return False
        # A lost machine has been silent for the length of a lease, which is longer.
        elsewhere = self._for_host and reported.lag_is_current and not reported.run
        return elsewhere or self.folder(mirror).driver_pid(reported.pid) is not None

    def launch(self, mirror: str, handover: str, folder: RunFolder, needs: tuple[str, ...] = (), goal: str = "") -> int:
        """Starts a supervisor in ``folder``; returns the time of the request in ms. ``goal``: the end of the job
        (JSON); without one it runs until it is stopped. Raises RunnerError."""
        settings = self.mirrors[mirror]
        secret = command_line.spark_secret(settings, settings.master, os.environ)
        environ = (
            command_line.job_environment(settings.master, handover, os.environ, settings.deployment.deploy_mode)
            | secret
        )
        try:
            with private_files():
                # Files of an earlier application would be mistaken for this one's.
                make_private(folder.path)
                for leftover in _LEFTOVERS:
                    (folder.path / leftover).unlink(missing_ok=True)
                (folder.path / succession.HANDOVER).write_text(handover, encoding="utf-8")
                if goal:
                    (folder.path / succession.GOAL).write_text(goal, encoding="utf-8")
                if self._for_host:
                    (folder.path / ONCE).touch()
                succession.settle(folder.path, self.state / mirror, needs)
                command_line.bundle(folder.path / "bundle.zip")
                write_json(folder.path / "command.json", command_line.submit_command(settings, folder.path))
                asked_at_ms = int(time.time() * 1000)
                write_json(folder.path / "asked.json", {"at_ms": asked_at_ms})

                # In a new session, so that it outlives this process and its terminal.
                with (folder.path / "supervisor.log").open("ab") as out:
                    subprocess.Popen(
                        [sys.executable, "-m", SUPERVISOR, str(folder.path)],
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                        env=environ,
                    )
                return asked_at_ms
        except OSError as error:
            raise RunnerError(
                f"mirror {mirror} cannot be started: {folder.path} cannot be written: {error.strerror or error}",
                "The job's definition, code and log lie there; nothing was started.",
                "Check the folder's permissions and the space left, then run apply again.",
            ) from None

    def _await_running(self, mirror: str, fingerprint: str, asked_at_ms: int, progress: Progress) -> LiveMirror:
        """Waits until the job reports that it runs. Raises RunnerError, whose text says whether the job has ended or is
        still being restarted."""
        folder, master = self.folder(mirror), self.mirrors[mirror].master
        try:
            live_mirror = await_running(self.status, mirror, folder, StartedAs(fingerprint, asked_at_ms), progress)
        except NotRunningError as error:
            log = folder.path / "job.log"
            if error.ended:
                raise RunnerError(
                    f"mirror {mirror} could not start on Spark master {master!r}: {error.problem}",
                    f"Nothing is mirrored by it. {error.why}",
                    f"Fix the cause, then run apply again. The whole log: {log}",
                ) from None
            raise RunnerError(
                f"mirror {mirror} {error.problem}",
                error.why,
                "It keeps trying; reconciler status ENV shows its state. To stop it: reconciler mirror stop ENV"
                f" {folder.a_flow()}. Log: {log}",
            ) from None
        progress(f"mirror {mirror} runs as {live_mirror.application_id}")
        return live_mirror

    def stop(self, mirror: str, progress: Progress) -> None:
        """Stops a mirror: first an application that is starting beside the current one, so that it cannot take over
        meanwhile.

        If the status record cannot be read, processes on this machine are enough. Without any, it raises ClusterError,
        since a job may run elsewhere.
        """
        self.end(self.other_folder(mirror))
        try:
            reported = self.status(mirror)
        except ClusterError:
            if not self.folder(mirror).pids():
                raise
            reported = None
        self._name_again(mirror, reported)
        folder = self.folder(mirror)  # the new application may just have become the current one
        # The job has no process here. In deploy mode cluster its driver obeys a record; otherwise it runs on another
        # machine, and only that machine can end it.
        if not folder.pids(reported.pid if reported else None):
            if reported is None or reported.state is not JobState.RUNNING:
                return
            if not (reported.run and self._order_stop):
                raise RunnerError(
                    f"mirror {mirror} runs as {reported.application_id}, but no process of it is on this host "
                    f"({socket.gethostname()})",
                    "It was started somewhere else, so it cannot be stopped from here.",
                    f"Stop it where it was started ({reported.detail or 'see its status record'}).",
                )
            self._stop_driver(reported, self._order_stop, progress)
            return
        progress(f"mirror {mirror}: stopping, open transactions are committed first")
        if self.end(folder, reported.pid if reported else None):
            progress(f"mirror {mirror}: stopped")
        else:
            progress(f"mirror {mirror}: did not leave in {STOP_TIMEOUT_S:.0f} s and was killed; no record is lost")

    def _stop_driver(self, reported: LiveMirror, order: OrderStop, progress: Progress) -> None:
        """Orders a driver on the cluster to stop, and waits. A follower elsewhere sees a requested end, no crash.
        Raises RunnerError."""
        mirror = reported.name
        progress(f"mirror {mirror}: its driver on {reported.host} is asked to commit and leave")
        now: LiveMirror | None = reported
        until = time.monotonic() + STOP_TIMEOUT_S
        while now is not None and now.run == reported.run and now.state is JobState.RUNNING:
            if time.monotonic() > until:
                raise RunnerError(
                    f"mirror {mirror} was asked to stop {STOP_TIMEOUT_S:.0f} s ago, and {reported.application_id} on "
                    f"{reported.host} still says that it runs",
                    "No process on this host follows it, so it cannot be killed from here.",
                    f"Check its log, or end it on the cluster: {reported.application_id}. No record is lost by that.",
                )
            # Repeated until it is obeyed: a driver that starts just now may have read its orders before this one was
            # written.
            order(reported)
            time.sleep(1.0)
            now = self.status(mirror)
        progress(f"mirror {mirror}: stopped")

    def end(self, folder: RunFolder, reported: int | None = None) -> bool:
        """Asks all processes of ``folder`` to commit and end, and waits. False: they had to be killed."""
        pids = folder.pids(reported)
        if not pids:
            return True
        with contextlib.suppress(OSError):  # a removed or read-only folder: the signal is enough
            (folder.path / "stop").touch()
        for pid in pids:
            terminate(pid, signal.SIGTERM)
        return self.await_gone(folder, pids, STOP_TIMEOUT_S)

    def await_gone(self, folder: RunFolder, pids: Collection[int], patience_s: float) -> bool:
        """Waits for the end of processes. False: they were killed after the timeout, which loses no record."""
        began = time.monotonic()
        while folder.pids() or any(works_in(pid, folder.path) for pid in pids):
            if time.monotonic() - began > patience_s:
                for pid in {*pids, *folder.pids()}:
                    terminate(pid, signal.SIGKILL)
                return False
            time.sleep(0.1)
        return True

    def _name_again(self, mirror: str, reported: LiveMirror | None) -> None:
        """Restores the pointer after run folders were removed: only the job's report names the folder that it runs
        in."""
        home = self.state / mirror
        second = home / succession.SECOND
        if reported is not None and not succession.pointed(home) and works_in(reported.pid, second):
            with contextlib.suppress(OSError):
                make_private(second)
                succession.make_current(home, second)


def _asked_at_ms(folder: RunFolder, fingerprint: str) -> int | None:
    """Request time of an application that is starting here for the first time with this hand-over; None if there is
    none."""
    starts = folder.supervisor_pid() is not None and not folder.number("supervisor.json", "restarts")
    same = folder.word("handover.json", "fingerprint") == fingerprint
    left_alone = not (folder.path / "stop").exists() and not (folder.path / "goal.json").exists()
    return folder.asked_at_ms() if starts and same and left_alone else None


def _is_silent(folder: RunFolder, reported: LiveMirror | None) -> bool:
    """Whether this folder's supervised application has stopped reporting: its driver hangs, is suspended, or cannot
    write its status."""
    if reported is None or reported.state is not JobState.STALE:
        return False
    return folder.word("driver.json", "application_id") == reported.application_id


def _why(folder: RunFolder) -> str:
    """The reason of the last attempt if it failed before Spark; else empty."""
    said = folder.log_tail(1)
    spark = _OF_SPARK.fullmatch(said)
    why = spark.group(1) if spark else said.removeprefix(CANNOT_RUN) if said.startswith(CANNOT_RUN) else ""
    return why.rstrip(". ")


def _and(mirror: LiveMirror, words: str) -> LiveMirror:
    """The mirror with ``words`` added to its detail."""
    return replace(mirror, detail="; ".join(word for word in (mirror.detail, words) if word))
