"""Supervises one spark-submit process, and restarts it after a crash; outlives the CLI. Standard library only.

``python -m reconciler.backends.mirror_jobs.runner.supervisor RUN_DIR`` reads ``RUN_DIR/command.json`` (a list of
words), starts it in its own process group with its output in ``RUN_DIR/job.log``, and starts it again when it crashes.
It ends when the job stopped on purpose (exit 0), was superseded by another application (exit 3), or cannot start at
all; and when its run folder is not the current one of its mirror: then it is a new application that did not get ready,
or an old one that a new one has replaced, and starting it again would be wrong.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from reconciler.replication.handover import HandoverError
from reconciler.replication.kept_files import read_json, reason, write_json
from reconciler.replication.runs import run_folders as succession

STOPPED, SUPERSEDED = 0, 3
FIRST_PAUSE_S, LONGEST_PAUSE_S, STEADY_AFTER_S = 1.0, 60.0, 300.0
"""Seconds: first and longest pause before a restart; running time after which the pause starts small again."""
LOG_LIMIT_BYTES = 32 * 1024 * 1024
PATIENCE_S = 45.0
"""For the driver to leave, once it was asked to or another application has taken its place."""
ONCE = "once"
"""File in the run folder: another process decides about a restart after a crash."""


@dataclass(frozen=True, slots=True)
class Supervision:
    """The supervisor's report about itself, ``RUN_DIR/supervisor.json``."""

    pid: int
    started_at_ms: int
    state: str
    """starting, running, pausing, stopped, superseded or failed."""
    job_pid: int | None = None
    """Of the spark-submit that runs now; None between two."""
    restarts: int = 0
    """After crashes, since the supervisor began."""
    exit_code: int | None = None
    """Of the last job; None while one runs."""


def _rotate(log: Path) -> None:
    """Rotates by copy and truncate, because the job keeps the file open for appending."""
    with contextlib.suppress(OSError):  # a job without a log copies as well
        if not log.exists() or log.stat().st_size <= LOG_LIMIT_BYTES:
            return
        before = log.with_suffix(".log.1")
        try:
            shutil.copyfile(log, before)
        except OSError:  # a full disk: drops the old log rather than the new one
            before.unlink(missing_ok=True)
        with log.open("r+b") as handle:
            handle.truncate(0)


def _opened(log: Path) -> BinaryIO:
    """The log, or /dev/null if the folder is missing or read-only: a job without a log is better than none."""
    try:
        return log.open("ab")
    except OSError:
        return Path(os.devnull).open("ab")


def kill_group(process_group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process_group, number)


def _command(run_dir: Path) -> list[str]:
    """The spark-submit command line that apply wrote. Raises HandoverError."""
    file = run_dir / "command.json"
    try:
        command: list[str] = read_json(file)
        if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
            raise ValueError("it is no list of words")
        return command
    except (OSError, ValueError) as error:
        raise HandoverError(
            f"{file} cannot be read: {reason(error)}. Write it again with reconciler apply ENV."
        ) from None


class Supervisor:
    """One run folder, one job at a time. ``stop`` may come from a signal or from the file ``stop``."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.stopping = threading.Event()
        self.now = Supervision(os.getpid(), int(time.time() * 1000), "starting")

    def say(self, state: str, **changes: Any) -> None:
        self.now = replace(self.now, state=state, **changes)
        try:
            write_json(self.run_dir / "supervisor.json", asdict(self.now))
        except OSError as error:  # a full disk must not leave the job without a supervisor
            with contextlib.suppress(OSError):
                sys.stderr.write(f"supervisor.json cannot be written, state is {state}: {error.strerror or error}\n")

    def run(self) -> int:
        """Runs the job until it is to end, and again after each crash; returns the exit code of the supervisor. The
        order of the questions matters: first whether the end was requested, then whether another application has the
        place, and only then whether a retry can help."""
        try:
            command, place = _command(self.run_dir), succession.place_of(self.run_dir)
        except HandoverError as error:
            with _opened(self.run_dir / "job.log") as out:
                out.write(f"The mirror job cannot run: {error}\n".encode())
            self.say("failed", exit_code=1)
            return 1
        kept = [self.run_dir / name for name in ("command.json", *([] if place.home is None else [succession.PLACE]))]
        pause = FIRST_PAUSE_S
        while True:
            was_current = place.is_current()
            began = time.monotonic()
            with contextlib.suppress(OSError):
                (self.run_dir / "driver.json").unlink(missing_ok=True)
            code = self.run_once(command, place)
            if not all(file.exists() for file in kept):
                self.say("failed", exit_code=code)  # the folder, or the schema that checks the definition, was removed
                return STOPPED if self.stopping.is_set() else 1
            reached_spark = (self.run_dir / "driver.json").exists()
            if self.stopping.is_set() or code == STOPPED:
                self.say("stopped", exit_code=code)
                return STOPPED
            if code == SUPERSEDED:
                self.say("superseded", exit_code=code)
                return SUPERSEDED
            if (self.run_dir / "goal.json").exists() or (self.run_dir / ONCE).exists():
                self.say("failed", exit_code=code)  # a job with a goal reports its end itself, and is not repeated
                return 1
            if not place.is_current():
                self.say("superseded" if was_current else "failed", exit_code=code)
                return SUPERSEDED if was_current else 1
            if not reached_spark and (self.now.restarts == 0 or not succession.is_as_written(self.run_dir)):
                self.say("failed", exit_code=code)  # it fails even before Spark, so a retry would fail, too
                return 1
            # A crash. One soon after a start will probably repeat, so pauses grow; a long run resets them.
            pause = FIRST_PAUSE_S if time.monotonic() - began > STEADY_AFTER_S else min(pause * 2, LONGEST_PAUSE_S)
            self.say("pausing", exit_code=code, job_pid=None, restarts=self.now.restarts + 1)
            if self.stopping.wait(pause):
                self.say("stopped")
                return STOPPED
            # During the pause another application may have taken over, and a restart would fence it.
            if not place.is_current():
                self.say("superseded")
                return SUPERSEDED

    def ask(self, process_group: int) -> None:
        """Asks the driver to stop by a file, upon which it commits and ends. If the file cannot be written, sends a
        signal; uncommitted records are then copied again."""
        try:
            (self.run_dir / "stop").touch()
        except OSError:
            kill_group(process_group, signal.SIGTERM)

    def run_once(self, command: list[str], place: succession.RunPlace) -> int:
        """One spark-submit, from its start to the end of all its processes; returns its exit code. Asked to stop, the
        job has ``PATIENCE_S`` seconds to commit."""
        log = self.run_dir / "job.log"
        _rotate(log)
        with _opened(log) as out:
            job = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.say("running", job_pid=job.pid, exit_code=None)
        asked_at: float | None = None
        replaced_at: float | None = None
        is_candidate = not place.is_current()
        while (code := job.poll()) is None:
            if self.stopping.is_set() or (self.run_dir / "stop").exists():
                self.stopping.set()
                if asked_at is None:
                    asked_at = time.monotonic()
                    self.ask(job.pid)
                elif time.monotonic() - asked_at > PATIENCE_S:
                    kill_group(job.pid, signal.SIGKILL)  # safe: the next InitProducerId aborts open transactions
            is_current = place.is_current()
            # A job that starts beside its predecessor is not current before it takes over. Only one that was current,
            # and is not any more, has been replaced.
            is_candidate = is_candidate and not is_current
            if not is_candidate and not is_current:
                replaced_at = replaced_at or time.monotonic()
                if time.monotonic() - replaced_at > PATIENCE_S:
                    kill_group(job.pid, signal.SIGKILL)  # it hangs, and its successor has fenced its lanes
            _rotate(log)
            self.stopping.wait(0.2) if asked_at is None else time.sleep(0.1)
        kill_group(job.pid, signal.SIGKILL)  # Python workers may outlive a killed driver
        return code


def main() -> int:
    os.umask(0o077)  # the job inherits it: its log contains names of clusters and topics
    supervisor = Supervisor(Path(sys.argv[1]))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: supervisor.stopping.set())
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main())
