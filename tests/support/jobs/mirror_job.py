"""The mirror job as a test starts it: spark-submit with a bundle, a hand-over file and a run directory."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_sandbox.handles import ClusterHandle

from reconciler.backends.mirror_jobs.runner.command_line import QUICK_START, bundle, job_script, submit_command
from reconciler.backends.mirror_jobs.runner.run_folder import SUPERVISOR
from reconciler.model.environment.topology import Mirror
from tests.support.reading import to_the_end

SUBMIT = Path(sys.executable).parent / "spark-submit"
FINGERPRINT = "00000000000000aa"


def cluster(handle: ClusterHandle) -> dict[str, Any]:
    client = handle.client()
    return {"name": handle.name, "bootstrap_servers": client.pop("bootstrap.servers").split(","), "client": client}


def flow(name: str, source: ClusterHandle, target: ClusterHandle, topics: list[str], **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "fingerprint": FINGERPRINT,
        "source": cluster(source),
        "target": cluster(target),
        "topics": topics,
        "exclude_topics": [],
        "naming": {"policy": "default", "separator": "."},
        "delivery": "exactly_once",
        "isolation": "read_committed",
        "start": {"kind": "earliest"},
        "lanes": 3,
    } | changes


def handover(target: ClusterHandle, mirror: str, flows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "format_version": 1,
        "environment": "test",
        "mirror": mirror,
        "fingerprint": FINGERPRINT,
        "parallelism": 2,
        "refresh_interval_ms": 300,
        "status_interval_ms": 500,
        "status": {"cluster": cluster(target), "topic": "__mirror_status", "key": f"test/{mirror}"},
        "flows": flows,
    }


def create_topics(target: ClusterHandle, *names: str, partitions: int = 1, **configs: str) -> None:
    """One that is there already, such as the status topic, stays as it is."""
    admin = AdminClient(target.client())
    for name in names:
        made = admin.create_topics([NewTopic(name, partitions, 1, config=configs)], operation_timeout=20)
        try:
            made[name].result(30)
        except KafkaException as error:
            if "already exists" not in str(error):
                raise


@dataclass
class Job:
    """One run of the application. ``kill_group`` at the end leaves no process behind, whatever the test did.
    ``mirror``: it is submitted as this one would be, else to a local master. ``supervised``: a supervisor starts it
    again, as one does for ``apply``."""

    folder: Path
    content: Mapping[str, Any]
    process: subprocess.Popen[bytes] | None = None
    environment: dict[str, str] = field(default_factory=dict)
    mirror: Mirror | None = None
    supervised: bool = False

    def start(self) -> Job:
        self.folder.mkdir(parents=True)
        (self.folder / "handover.json").write_text(json.dumps(self.content))
        bundle(self.folder / "bundle.zip")
        command = self._local() if self.mirror is None else submit_command(self.mirror, self.folder)
        if self.supervised:
            (self.folder / "command.json").write_text(json.dumps(list(map(str, command))))
            command = [sys.executable, "-m", SUPERVISOR, str(self.folder)]
        with (self.folder / "job.log").open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.folder,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, **self.environment},
            )
        return self

    def _local(self) -> list[str]:
        command = [SUBMIT, "--master", "local[2]", "--driver-memory", "480m", "--conf", "spark.ui.enabled=false"]
        command += ["--conf", f"spark.driver.extraJavaOptions={QUICK_START}"]
        command += ["--conf", f"spark.local.dir={self.folder / 'spark'}", "--py-files", self.folder / "bundle.zip"]
        command += [
            job_script("mirror_job.py"),
            "--handover",
            self.folder / "handover.json",
        ]
        return [*map(str, command), "--run-dir", str(self.folder)]

    @property
    def log(self) -> str:
        return (self.folder / "job.log").read_text(errors="replace")

    @property
    def driver_pid(self) -> int:
        return int(json.loads((self.folder / "driver.json").read_text())["pid"])

    @property
    def application_id(self) -> str:
        return str(json.loads((self.folder / "driver.json").read_text())["application_id"])

    def worker_pids(self) -> list[int]:
        """Python workers that run tasks: children of the PySpark daemon of this session."""
        assert self.process is not None
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes()
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parent_words = Path(f"/proc/{fields[1]}/cmdline").read_bytes()
            except OSError:
                continue
            if b"pyspark.daemon" in words and b"pyspark.daemon" in parent_words and self._ours(int(fields[1])):
                found.append(int(entry.name))
        return found

    def _ours(self, pid: int) -> bool:
        while pid > 1:
            if self.process is not None and pid == self.process.pid:
                return True
            try:
                pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                return False
        return False

    def wait(self, seconds: float = 60.0) -> int:
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the job did not end; its log:\n{self.log[-3000:]}") from None

    def stop(self) -> int:
        (self.folder / "stop").touch()
        return self.wait()

    def kill_driver(self) -> None:
        """With its JVM, as kill -9 of all that the machine of the driver has, but for the supervisor."""
        os.killpg(os.getpgid(self.driver_pid), signal.SIGKILL)

    def kill_group(self) -> None:
        if self.supervised and self.process is not None:
            self.process.kill()  # first, else it would start the next one
            with contextlib.suppress(OSError, ValueError, TypeError):
                os.killpg(json.loads((self.folder / "supervisor.json").read_text())["job_pid"], signal.SIGKILL)
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            self.process.wait(20)


def status(target: ClusterHandle, mirror: str) -> dict[str, Any] | None:
    """The newest status record of the mirror."""
    newest: dict[str, Any] | None = None
    for message in to_the_end(target, "__mirror_status"):
        if message.key() == f"test/{mirror}".encode():
            newest = json.loads(message.value())
    return newest


def until(what: str, wanted: Callable[[], Any], job: Job, seconds: float = 60.0) -> Any:
    """The first true answer. Fails with the end of the job's log."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = wanted()
        if got:
            return got
        assert job.process is None or job.process.poll() is None, f"the job ended: {job.log[-3000:]}"
        time.sleep(0.5)  # a look connects, and often reads a topic from its beginning
    raise AssertionError(f"never seen: {what}; the job's log:\n{job.log[-3000:]}")


def command_lines() -> dict[str, str]:
    """Of every process of this machine but this one, by its id."""
    lines = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and process.name != str(os.getpid()):
            with contextlib.suppress(OSError):
                lines[process.name] = (process / "cmdline").read_bytes().decode(errors="replace")
    return lines
