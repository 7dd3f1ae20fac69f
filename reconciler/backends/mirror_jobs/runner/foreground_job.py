"""Runs a job once, in the foreground, as a separate Spark application: verify, or a check of executors.

Its folder is below the mirror's run folder. It is removed once the job has answered, and kept after a failure.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from reconciler.backends.mirror_jobs.runner import command_line
from reconciler.backends.mirror_jobs.runner.run_folder import RunFolder, private_files, required
from reconciler.errors import RunnerError
from reconciler.model.environment.topology import Mirror
from reconciler.replication.handover import master_kind
from reconciler.replication.runs.verification import WARNING

_LEAVE_S = 10.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class JobScript:
    """A script of the Spark half, and the words for its progress. ``subject``, ``unknown``, ``again``, ``nothing``:
    words for errors."""

    file: str
    name: str
    """Of the application."""
    said: str
    """Prefix of progress lines on standard output."""
    failed: str
    """Prefix of the error line."""
    subject: str
    unknown: str
    again: str
    nothing: str


VERIFY = JobScript(
    "verify_job.py",
    "verify",
    "verify: ",
    "The comparison cannot run: ",
    "the verify job",
    "Nothing is known about its flows.",
    "verify again",
    "nothing was verified",
)
PREFLIGHT = JobScript(
    "preflight_job.py",
    "doctor",
    "preflight: ",
    "The executors cannot be looked at: ",
    "the check of executors",
    "Nothing is known about its executors.",
    "run doctor again",
    "no executor was looked at",
)


@dataclass(frozen=True, slots=True)
class ForegroundRun:
    """The input of one Spark application that a command starts and waits for."""

    mirror: Mirror
    state: Path
    handover: str
    """The mirror's, with references to secrets."""
    request: Mapping[str, Any]
    """Input of ``script``."""
    master: str | None = None
    script: JobScript = VERIFY


def run_in_foreground(run: ForegroundRun, progress: Say, warn: Say) -> Mapping[str, Any]:
    """Returns the job's answer. Raises RunnerError with the end of its log. KeyboardInterrupt ends the job and its
    Spark application, too; after a kill -9 of this process, the job notices within a second and ends."""
    # What may be missing is looked for first, so that a refusal leaves no folder behind.
    command_line.require_spark()
    secret = command_line.spark_secret(run.mirror, _master(run), os.environ)
    job = command_line.job_environment(_master(run), run.handover, os.environ)
    folder = _prepared(run)
    progress(f"mirror {run.mirror.name}: Spark is starting")
    # A session of its own: Ctrl-C reaches this process alone, and ``_end`` the job with its JVM, as one process group.
    with private_files(), (folder.path / "job.log").open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            _command(run, folder.path),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
            env={**job, **command_line.python_path(os.environ), **secret},
        )
        try:
            _follow(run, process.stdout, log, progress, warn)
            process.wait()
        except KeyboardInterrupt:
            _end(process)
            shutil.rmtree(folder.path, ignore_errors=True)
            raise
        finally:
            _end(process)
    answer = folder.read("result.json")
    if process.returncode != 0 or not answer:
        # The job's own error, else the end of its log without Java's stack frames.
        lines = [line for line in folder.log_tail(lines=400).splitlines() if not line.lstrip().startswith("at ")]
        said = [line for line in lines if line.startswith(run.script.failed)]
        cause = said[-1] if said else "\n".join(["Its log ends with:", *lines[-12:]])
        raise RunnerError(
            f"{run.script.subject} of mirror {run.mirror.name} failed on Spark master {_master(run)!r}",
            f"{run.script.unknown} {cause}",
            f"Fix the cause and {run.script.again}. The whole log: {folder.path / 'job.log'}",
        )
    shutil.rmtree(folder.path, ignore_errors=True)
    return answer


def _prepared(run: ForegroundRun) -> RunFolder:
    """A new folder with all input of the job. Raises RunnerError, and then leaves no folder."""
    above = required(run.state / run.mirror.name)
    work_folder: Path | None = None
    try:
        work_folder = Path(tempfile.mkdtemp(prefix=f"{run.script.name}-", dir=above))
        (work_folder / "handover.json").write_text(run.handover, encoding="utf-8")
        (work_folder / "request.json").write_text(json.dumps(run.request), encoding="utf-8")
        command_line.bundle(work_folder / "bundle.zip")
    except OSError as error:
        if work_folder is not None:
            shutil.rmtree(work_folder, ignore_errors=True)
        raise RunnerError(
            f"{run.script.nothing}: the folder {above} cannot be written: {error.strerror or error}",
            f"It needs its definition and code there. {run.script.unknown}",
            "Check the folder's permissions and the space left, or name another place: RECONCILER_STATE=FOLDER.",
        ) from None
    return RunFolder(work_folder)


def _master(run: ForegroundRun) -> str:
    return run.master or run.mirror.master


_OF_A_CLUSTER = (
    "spark.archives",
    "spark.cores.max",
    "spark.executor.",
    "spark.kubernetes.",
    "spark.pyspark.",
    "spark.yarn.",
)
"""Prefixes of settings that only fit the mirror's kind of master, such as the executors' Python."""


def _command(run: ForegroundRun, folder: Path) -> list[str]:
    """The command for verify and preflight: small, without UI, with scratch files in the run's folder. On another kind
    of master than the mirror's, settings for that one are left out. ``--caller``: the job ends when this process has
    ended."""
    mirror = run.mirror
    given: Mapping[str, str] = {**mirror.spark_conf, **mirror.verify_conf}
    # Settings of the mirror win over the defaults below: its memory is sized for topics like these.
    if master_kind(_master(run)) is master_kind(mirror.master):
        given = {**command_line.application_conf(mirror), **given}
    else:
        given = {key: value for key, value in given.items() if not key.startswith(_OF_A_CLUSTER)}
    conf = {
        "spark.driver.memory": "512m",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **given,
    }
    named = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
    python = conf.get("spark.pyspark.driver.python") or next(filter(None, map(os.environ.get, named)), sys.executable)
    words = [python, str(command_line.job_script(run.script.file)), "--handover", str(folder / "handover.json")]
    words += ["--request", str(folder / "request.json"), "--run-dir", str(folder), "--caller", str(os.getpid())]
    name = f"{run.script.name}-{mirror.name}"
    return [*words, "--", *command_line.spark_options(_master(run), name, conf, folder)]


def _follow(run: ForegroundRun, output: IO[str] | None, log: IO[str], progress: Say, warn: Say) -> None:
    """Passes on progress lines and writes all others to the log, until both the job and its JVM have closed the
    pipe."""
    for line in output or ():
        if line.startswith(run.script.said):
            text = line.removeprefix(run.script.said).rstrip()
            tell = warn if text.startswith(WARNING) else progress
            tell(f"mirror {run.mirror.name}: {text}")
        else:
            log.write(line)
            log.flush()


def _end(process: subprocess.Popen[str]) -> None:
    """Ends the job and its JVM, for whatever reason the wait ended."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not _signalled(process, number):
            return
        began = time.monotonic()
        while _signalled(process, 0) and time.monotonic() - began < _LEAVE_S:
            time.sleep(0.1)


def _signalled(process: subprocess.Popen[str], number: int) -> bool:
    """Signals the job and its JVM; False if neither runs."""
    process.poll()
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    return True
