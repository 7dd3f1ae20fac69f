"""MirrorRunner over spark-submit: starts, finds and stops the Spark application of a mirror. Never imports pyspark.

The job runs under a supervisor that outlives the CLI. What the job *is* (fingerprint, application id, lag) is read
from its status record in Kafka; the run folder only tells which processes on this machine belong to it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.edges.processes import is_running, terminate
from reconciler.edges.supervisor import write_json
from reconciler.errors import ClusterError, RunnerError
from reconciler.live import JobState, LiveMirror
from reconciler.topology import Mirror

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 75.0
SUPERVISOR_MARK = "reconciler.edges.supervisor"
JOB_MARK = "mirror_job.py"

StatusReader = Callable[[str], LiveMirror | None]


@dataclass(frozen=True, slots=True)
class RunFolder:
    """``<parent of ENV>/.reconciler/<ENV>/<mirror>``: the same from wherever the CLI is called."""

    path: Path

    def read(self, name: str) -> Mapping[str, object]:
        try:
            found = json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def number(self, name: str, key: str) -> int | None:
        value = self.read(name).get(key)
        return value if isinstance(value, int) else None

    def log_tail(self, lines: int = 12) -> str:
        try:
            text = (self.path / "job.log").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return "\n".join(text.strip().splitlines()[-lines:])


def state_folder(environment_folder: Path) -> Path:
    """Where runs of an environment live: under ``$RECONCILER_STATE`` where that is set, else beside the environment.

    Git ignores it by a ``.gitignore`` of its own. A checkout that CI clears needs the first: mirror jobs outlive it.
    """
    folder = environment_folder.resolve()
    asked = os.environ.get("RECONCILER_STATE")
    root = Path(asked) if asked else folder.parent / ".reconciler"
    root.mkdir(exist_ok=True, parents=bool(asked))
    ignore = root / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    return root.resolve() / folder.name  # the folder is on the job's command line, by which it is found again


def spark_submit() -> str:
    """``$SPARK_HOME/bin/spark-submit`` where that is set, else the one of the pyspark package."""
    home = os.environ.get("SPARK_HOME")
    spec = importlib.util.find_spec("pyspark")
    root = Path(home) if home else Path(spec.origin).parent if spec and spec.origin else None
    found = root / "bin" / "spark-submit" if root else None
    if found is None or not found.exists():
        raise RunnerError(
            f"spark-submit was not found{f' under SPARK_HOME={home}' if home else ''}",
            "The mirror job is a Spark application and cannot start without it.",
            "Run make install, or set SPARK_HOME to a Spark 4 installation.",
        )
    return str(found)


def require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and (Path(home) / "bin" / "java").exists()):
        raise RunnerError(
            "Java was not found on the PATH nor under JAVA_HOME",
            "Spark runs on Java 17 or newer.",
            "Install it, for example the package openjdk-17-jre-headless, and try again.",
        )


MASTERS = re.compile(r"local(\[[^\]]+\])?|local-cluster\[.+\]|spark://.+|k8s://.+|yarn")


def require_master(mirror: Mirror) -> None:
    """Only the form is looked at; whether it answers is seen at the start."""
    if not MASTERS.fullmatch(mirror.master):
        raise RunnerError(
            f"mirror {mirror.name} has the Spark master {mirror.master!r}, which is no master URL",
            "spark-submit would refuse it, and nothing would be mirrored.",
            f"Set mirrors.{mirror.name}.master to local[2], spark://HOST:PORT, k8s://URL or yarn.",
        )


def package_folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise RunnerError(f"the package {package} is not installed", "The mirror job needs it.", "Run make install.")
    return Path(spec.origin).parent


def bundle(target: Path) -> None:
    """A zip of ``mirror`` and what it imports of ours, for --py-files, so that any executor finds them."""
    draft = target.with_suffix(".draft")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in ("mirror", "replication", "translation", "wire"):
            root = package_folder(package)
            for source in sorted(root.rglob("*.py")):
                archive.write(source, f"{package}/{source.relative_to(root)}")
    draft.replace(target)


def submit_command(mirror: Mirror, folder: Path) -> list[str]:
    conf = {
        "spark.driver.memory": "512m",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "spark"),
        **mirror.spark_conf,
    }
    words = [spark_submit(), "--master", mirror.master, "--name", f"mirror-{mirror.name}"]
    for key, value in sorted(conf.items()):
        words += ["--conf", f"{key}={value}"]
    words += ["--py-files", str(folder / "bundle.zip"), str(package_folder("mirror").parent / JOB_MARK)]
    return [*words, "--handover", str(folder / "handover.json"), "--run-dir", str(folder)]


class SparkRunner:
    """The runner of one environment. ``status`` reads the newest status record of a mirror, or None."""

    def __init__(self, state: Path, mirrors: Mapping[str, Mirror], status: StatusReader) -> None:
        self.state = state
        self.mirrors = mirrors
        self.status = status

    def folder(self, mirror: str) -> RunFolder:
        return RunFolder(self.state / mirror)

    def supervisor_pid(self, folder: RunFolder) -> int | None:
        pid = folder.number("supervisor.json", "pid")
        return pid if is_running(pid, f"{SUPERVISOR_MARK} {folder.path}") else None

    def driver_pid(self, folder: RunFolder, reported: LiveMirror | None) -> int | None:
        """The Spark driver's process here, by the run folder or by what the job itself reports."""
        for pid in (folder.number("driver.json", "pid"), reported.pid if reported else None):
            if is_running(pid, str(folder.path)):
                return pid
        return None

    def observe(self, mirror: str) -> LiveMirror:
        folder = self.folder(mirror)
        reported = self.status(mirror)
        supervised = self.supervisor_pid(folder) is not None
        state = str(folder.read("supervisor.json").get("state", ""))
        # What is being started, whatever an earlier application reported last.
        told = folder.read("handover.json").get("fingerprint") if supervised else None
        if reported is None:
            found = JobState.STARTING if supervised else JobState.FAILED if state == "failed" else JobState.ABSENT
            detail = folder.log_tail(1) if found is JobState.FAILED else ""
            return LiveMirror(mirror, found, fingerprint=str(told) if told else None, detail=detail)
        if supervised and (folder.path / "stop").exists():
            return replace(reported, state=JobState.STOPPED, detail="it was asked to stop and is leaving")
        if reported.state is JobState.RUNNING:
            return reported
        if supervised and reported.state is not JobState.STARTING:
            word = "starts again after a crash" if state == "pausing" else "the supervised process is starting"
            fingerprint = str(told) if told else reported.fingerprint
            return replace(reported, state=JobState.STARTING, fingerprint=fingerprint, detail=word)
        return reported

    def require_startable(self, mirrors: Iterable[str]) -> None:
        """Raises RunnerError for what would keep a job from starting, before anything else is changed."""
        for name in mirrors:
            require_java()
            spark_submit()
            if name in self.mirrors:
                require_master(self.mirrors[name])

    def start(self, mirror: str, handover: str, progress: Callable[[str], None]) -> LiveMirror:
        self.require_startable([mirror])
        folder = self.folder(mirror)
        if self.supervisor_pid(folder) is not None:
            self.stop(mirror, progress)
        folder.path.mkdir(parents=True, exist_ok=True)
        for leftover in ("stop", "driver.json", "supervisor.json", "job.log"):
            (folder.path / leftover).unlink(missing_ok=True)
        (folder.path / "handover.json").write_text(handover, encoding="utf-8")
        bundle(folder.path / "bundle.zip")
        write_json(folder.path / "command.json", submit_command(self.mirrors[mirror], folder.path))
        asked_at_ms = int(time.time() * 1000)
        with (folder.path / "supervisor.log").open("ab") as out:
            subprocess.Popen(
                [sys.executable, "-m", SUPERVISOR_MARK, str(folder.path)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)},
            )
        return self._await_running(mirror, json.loads(handover)["fingerprint"], asked_at_ms, progress)

    def _await_running(
        self, mirror: str, fingerprint: str, asked_at_ms: int, progress: Callable[[str], None]
    ) -> LiveMirror:
        folder = self.folder(mirror)
        began = time.monotonic()
        said = ""
        while time.monotonic() - began < START_TIMEOUT_S:
            state = str(folder.read("supervisor.json").get("state", "starting"))
            if state in ("failed", "superseded", "stopped") or folder.number("supervisor.json", "restarts"):
                raise self._not_startable(mirror, state)
            found = self._status_if_it_answers(mirror)
            if (
                found is not None
                and found.state is JobState.RUNNING
                and found.fingerprint == fingerprint
                and (found.started_at_ms or 0) >= asked_at_ms  # an earlier application's record may still be there
            ):
                progress(f"mirror {mirror} runs as {found.application_id}")
                return found
            word = "Spark is up, lanes are being taken" if folder.read("driver.json") else "Spark is starting"
            if word != said:
                progress(f"mirror {mirror}: {word}")
                said = word
            time.sleep(0.3)
        raise RunnerError(
            f"mirror {mirror} did not report itself running within {START_TIMEOUT_S:.0f} s",
            f"Its log ends with:\n{folder.log_tail()}",
            f"Look into {folder.path / 'job.log'}; it goes on trying. Stop it with: reconciler mirror stop.",
        )

    def _status_if_it_answers(self, mirror: str) -> LiveMirror | None:
        try:
            return self.status(mirror)
        except ClusterError:
            return None  # asked again in a moment; the deadline of the start decides

    def _not_startable(self, mirror: str, state: str) -> RunnerError:
        folder = self.folder(mirror)
        master = self.mirrors[mirror].master
        return RunnerError(
            f"mirror {mirror} could not start on Spark master {master!r} (spark-submit {state})",
            f"Nothing is mirrored by it. Its log ends with:\n{folder.log_tail()}",
            f"Mend the cause, then run apply again. The whole log: {folder.path / 'job.log'}",
        )

    def stop(self, mirror: str, progress: Callable[[str], None]) -> None:
        folder = self.folder(mirror)
        reported = self.status(mirror)
        pids = [p for p in (self.supervisor_pid(folder), self.driver_pid(folder, reported)) if p is not None]
        if not pids:
            self._refuse_remote(mirror, reported)
            return
        progress(f"mirror {mirror}: stopping, open transactions are committed first")
        (folder.path / "stop").touch()
        for pid in pids:
            terminate(pid, signal.SIGTERM)
        began = time.monotonic()
        while self.supervisor_pid(folder) is not None or self.driver_pid(folder, None) is not None:
            waited = time.monotonic() - began
            if waited > STOP_TIMEOUT_S:
                for pid in pids:
                    terminate(pid, signal.SIGKILL)
                progress(f"mirror {mirror}: did not leave in {STOP_TIMEOUT_S:.0f} s and was killed; no record is lost")
                return
            time.sleep(0.1)
        progress(f"mirror {mirror}: stopped")

    def _refuse_remote(self, mirror: str, reported: LiveMirror | None) -> None:
        if reported is not None and reported.state is JobState.RUNNING:
            raise RunnerError(
                f"mirror {mirror} runs as {reported.application_id}, but no process of it is on this host "
                f"({socket.gethostname()})",
                "It was started somewhere else, so it cannot be stopped from here.",
                f"Stop it where it was started ({reported.detail or 'see its status record'}).",
            )
