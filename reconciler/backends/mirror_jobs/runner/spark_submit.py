"""MirrorRunner over spark-submit: starts, replaces, finds and stops the Spark application of a mirror job.

The job runs under a supervisor that outlives the CLI. What the job *is* (fingerprint, application id, lag) is read
from its status record in Kafka; the run folders only show which processes on this machine belong to it.
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
from reconciler.backends.mirror_jobs.runner.processes import terminate, works_in
from reconciler.backends.mirror_jobs.runner.replace import CANNOT_RUN, NotRunningError, StartedAs, await_running
from reconciler.backends.mirror_jobs.runner.run_folder import SUPERVISOR, RunFolder, private_files
from reconciler.backends.mirror_jobs.runner.supervisor import ONCE
from reconciler.errors import ClusterError, RunnerError, Unknown
from reconciler.model.environment.topology import Mirror
from reconciler.model.live import JobState, LiveMirror
from reconciler.replication.kept_files import write_json
from reconciler.replication.runs import run_folders as succession

STOP_TIMEOUT_S = 75.0
"""More than lanes get for their last commit (15 s) and the driver for its tasks (45 s)."""
_NOT_ENDED = (JobState.STARTING, JobState.RUNNING, JobState.STALE)
_OF_SPARK = re.compile(r"[0-9/]{8} [0-9:]{8} ERROR (\w+: .+)")
_LEFTOVERS = (succession.HANDOVER, succession.GOAL, "stop", "driver.json", "supervisor.json", "job.log", ONCE)

StatusReader = Callable[[str], LiveMirror | None]
Progress = Callable[[str], None]
OrderStop = Callable[[LiveMirror], None]
"""Raises ClusterError. It may be asked again."""


class SparkRunner:
    """The runner of one environment. ``status`` reads the newest status record of a mirror, or None; ``unseen`` then
    knows why there is none though a job runs here, if it does not only start. ``require_heard`` raises RunnerError
    where there is none though a job may run on another machine."""

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
        """``for_host``: a mirror host with the mirror's lease starts a crashed application again, not its supervisor,
        and takes over from one on another machine. ``order_stop`` asks a driver in deploy mode cluster to stop that no
        process here follows."""
        self._order_stop = order_stop
        self._for_host = for_host
        self._unseen = unseen
        self._require_heard = require_heard
        self.state = state
        self.mirrors = mirrors
        self.status = status

    def folder(self, mirror: str) -> RunFolder:
        """Of the application that copies, or did so last."""
        return RunFolder(succession.current(self.state / mirror))

    def other_folder(self, mirror: str) -> RunFolder:
        """Where a new application starts beside it, or an old one is leaving."""
        return RunFolder(succession.other(self.state / mirror))

    def observe(self, mirror: str) -> LiveMirror:
        """Raises RunnerError when nothing is heard of a job that may run on another machine, and as ``status`` does."""
        folder = self.folder(mirror)
        reported = self.status(mirror)
        supervised = folder.supervisor_pid() is not None
        state = folder.word("supervisor.json", "state")
        if reported is None and not supervised and state != "failed":
            self._require_heard(mirror)
            reported = self.status(mirror)  # it may have reported meanwhile

        # No record: a job that starts, that failed to, or none. What starts is named by its own hand-over, whatever an
        # earlier application reported last.
        text = folder.word("handover.json", "fingerprint") if supervised else ""
        if reported is None:
            job_state = JobState.STARTING if supervised else JobState.FAILED if state == "failed" else JobState.ABSENT
            detail = folder.log_tail(1) if job_state is JobState.FAILED else ""
            unseen = self._unseen(mirror) if supervised else None
            began = folder.asked_at_ms() if job_state is JobState.STARTING else None
            live = LiveMirror(mirror, job_state, fingerprint=text or None, detail=detail, unseen=unseen)
            return replace(live, started_at_ms=began)

        # A record that its application will not write again: it leaves, or its process here is gone.
        if supervised and (folder.path / "stop").exists():
            return replace(reported, state=JobState.STOPPED, detail="it was asked to stop and is leaving")
        failed = state == "failed" and reported.host == socket.gethostname()
        if not supervised and reported.state in _NOT_ENDED and (failed or self.has_lost(reported)):
            why = _why(folder) if failed else ""
            lost = replace(reported, state=JobState.STALE, late_ms=0, gone=True)
            return _and(lost, f"its process is gone{': ' if why else ''}{why}")

        # One that ran under this folder's supervisor, which has begun another one since, has crashed. Without a
        # supervisor here a crash would end it; one that starts beside it does not change what copies.
        restarted = supervised and bool(folder.number("supervisor.json", "restarts"))
        here = reported.host == socket.gethostname() and not folder.follows_elsewhere()
        crashed = restarted and here and not works_in(reported.pid, folder.path)
        if reported.state is JobState.RUNNING and not crashed:
            alone = not supervised and folder.driver_pid(reported.pid) is not None and not folder.follows_elsewhere()
            reported = replace(reported, unkept="its supervisor is gone: a crash would end it" if alone else "")
            beside = self.other_folder(mirror)
            starts = beside.supervisor_pid() is not None and beside.word("place.json", "home") != ""
            return _and(reported, "a new application is starting beside it") if starts else reported

        # What the supervisor keeps starting, with what the last attempt said where it could not even begin.
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
        """Whether the application ran on this machine, and its process is gone."""
        return self.folder(reported.name).has_lost(reported.application_id, reported.pid)

    def require_startable(self, mirrors: Iterable[str]) -> None:
        """Raises RunnerError for what would keep a job from starting, before anything else is changed."""
        for name in mirrors:
            command_line.require_spark()
            if name in self.mirrors:
                command_line.require_master(self.mirrors[name])

    def start(self, mirror: str, handover: str, progress: Progress) -> LiveMirror:
        """Waits for one that starts already with this hand-over, and has not failed to. One that copied and is silent
        now does not start: it is stopped first."""
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

        Raises RunnerError; its text says whether the old job runs on.
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

        # A host has nothing to stop where the mirror ran elsewhere: its application fences what still copies there.
        if elsewhere:
            return self.start(mirror, handover, progress)
        self.stop(mirror, progress)
        try:
            return self.start(mirror, handover, progress)
        except RunnerError as error:
            stopped = "The old job was stopped; nothing is copied until it starts again."
            raise RunnerError(error.what, f"{error.why}\n{stopped}", error.todo) from None

    def _copies_meanwhile(self, mirror: str, reported: LiveMirror | None) -> bool:
        """Whether an application goes on copying while another one starts: on this machine, or, for a host, on that of
        the host before. One in deploy mode cluster is followed there, not replaced."""
        self._name_again(mirror, reported)
        if reported is None or reported.state is not JobState.RUNNING:
            return False
        # A machine that was lost has been silent for as long as a lease lasts, which is longer.
        elsewhere = self._for_host and reported.lag_is_current and not reported.run
        return elsewhere or self.folder(mirror).driver_pid(reported.pid) is not None

    def launch(self, mirror: str, handover: str, folder: RunFolder, needs: tuple[str, ...] = (), goal: str = "") -> int:
        """Puts a supervisor to work in ``folder``; returns the time it was asked, in ms. ``goal``: where the job ends
        by itself (JSON); without one it runs until it is stopped. Raises RunnerError."""
        settings = self.mirrors[mirror]
        secret = command_line.spark_secret(settings, settings.master, os.environ)
        environ = (
            command_line.job_environment(settings.master, handover, os.environ, settings.deployment.deploy_mode)
            | secret
        )
        try:
            with private_files():
                # What an earlier application left in the folder would be taken for this one's.
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

                # In a session of its own, so that it outlives this process and its terminal.
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
        """The job as it reports itself once it runs. Raises RunnerError in one of two ways: the job has ended, or it
        still tries."""
        folder, master = self.folder(mirror), self.mirrors[mirror].master
        try:
            live_mirror = await_running(self, mirror, folder, StartedAs(fingerprint, asked_at_ms), progress)
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
        """One that starts beside it first, so that it cannot take over meanwhile.

        What this machine knows of the job is enough while its status cannot be read. Raises ClusterError when it knows
        nothing: a job may run elsewhere.
        """
        self.end(self.other_folder(mirror))
        try:
            reported = self.status(mirror)
        except ClusterError:
            if not self.folder(mirror).pids():
                raise
            reported = None
        self._name_again(mirror, reported)
        folder = self.folder(mirror)  # the new one may just have become the current one
        # No process of it here: in deploy mode cluster its driver reads a record; else it runs on another machine,
        # and only that one can end it.
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
        """Whatever follows it elsewhere, if anything does, sees it end as it was asked to. Raises RunnerError."""
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
            order(reported)
            time.sleep(1.0)
            now = self.status(mirror)
        progress(f"mirror {mirror}: stopped")

    def end(self, folder: RunFolder, reported: int | None = None) -> bool:
        """Asks whatever runs in ``folder`` to commit and leave, and waits. False: it had to be killed."""
        pids = folder.pids(reported)
        if not pids:
            return True
        with contextlib.suppress(OSError):  # a removed or read-only folder: the signal says it, too
            (folder.path / "stop").touch()
        for pid in pids:
            terminate(pid, signal.SIGTERM)
        return self.await_gone(folder, pids, STOP_TIMEOUT_S)

    def await_gone(self, folder: RunFolder, pids: Collection[int], patience_s: float) -> bool:
        """False: it did not leave in time and was killed, which loses no record."""
        began = time.monotonic()
        while folder.pids() or any(works_in(pid, folder.path) for pid in pids):
            if time.monotonic() - began > patience_s:
                for pid in {*pids, *folder.pids()}:
                    terminate(pid, signal.SIGKILL)
                return False
            time.sleep(0.1)
        return True

    def _name_again(self, mirror: str, reported: LiveMirror | None) -> None:
        """After the folders were removed a job goes on in the one that it began in, and nothing else knows which."""
        home = self.state / mirror
        second = home / succession.SECOND
        if reported is not None and not succession.pointed(home) and works_in(reported.pid, second):
            with contextlib.suppress(OSError):
                make_private(second)
                succession.make_current(home, second)


def _asked_at_ms(folder: RunFolder, fingerprint: str) -> int | None:
    """When the application was asked for that starts here for the first time with this hand-over; None: none does."""
    starts = folder.supervisor_pid() is not None and not folder.number("supervisor.json", "restarts")
    same = folder.word("handover.json", "fingerprint") == fingerprint
    left_alone = not (folder.path / "stop").exists() and not (folder.path / "goal.json").exists()
    return folder.asked_at_ms() if starts and same and left_alone else None


def _is_silent(folder: RunFolder, reported: LiveMirror | None) -> bool:
    """Whether the application that this folder's supervisor keeps has stopped reporting: its driver hangs,
    is stopped, or cannot write its status."""
    if reported is None or reported.state is not JobState.STALE:
        return False
    return folder.word("driver.json", "application_id") == reported.application_id


def _why(folder: RunFolder) -> str:
    """What the last attempt said where it could not even begin; else empty."""
    said = folder.log_tail(1)
    spark = _OF_SPARK.fullmatch(said)
    why = spark.group(1) if spark else said.removeprefix(CANNOT_RUN) if said.startswith(CANNOT_RUN) else ""
    return why.rstrip(". ")


def _and(mirror: LiveMirror, words: str) -> LiveMirror:
    """With ``words`` besides what it says itself."""
    return replace(mirror, detail="; ".join(word for word in (mirror.detail, words) if word))
