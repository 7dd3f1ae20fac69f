"""MirrorMaker 2 in dedicated mode, from the sandbox's jars: as it comes, tuned, and tuned with exactly once.

Tuned: as many tasks as cores, 512 KiB batches, lz4, five requests in flight, big fetches, given both as the worker's
producer and as the connector's override, because the connector's own ``producer.`` keys do not reach the data producer.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Mapping
from enum import StrEnum

from reconciler_sandbox.install import jars, prerequisites
from reconciler_sandbox.releases import MIRRORMAKER

from bench.copy.figures import Run
from bench.processes.cpu import MARK_VARIABLE

HEAP = "2g"  # with 1 GiB it runs out of memory behind a long line
_LOG4J = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n%throwable
"""
_FACTORS = (
    "",
    "checkpoints.topic.",
    "heartbeats.topic.",
    "offset-syncs.topic.",
    "offset.storage.",
    "status.storage.",
    "config.storage.",
)


class Tuning(StrEnum):
    DEFAULT = "default"
    TUNED = "tuned"
    EXACTLY_ONCE = "tuned + exactly once"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def properties(run: Run, tuning: Tuning, tasks: int, rest_port: int) -> dict[str, str]:
    """The whole ``mm2.properties`` of a run."""
    alias, flow = run.alias, f"{run.alias}->{run.target_alias}"
    settings = {
        "clusters": f"{alias},{run.target_alias}",
        f"{alias}.bootstrap.servers": run.source,
        f"{run.target_alias}.bootstrap.servers": run.target,
        f"{flow}.enabled": "true",
        f"{run.target_alias}->{alias}.enabled": "false",
        f"{flow}.topics": ",".join(run.topics),
        **{f"{prefix}replication.factor": "1" for prefix in _FACTORS},
    }
    if tuning is Tuning.DEFAULT:
        return settings
    consumer = {"fetch.max.bytes": 52428800, "max.partition.fetch.bytes": 10485760, "max.poll.records": 20000}
    producer = {"batch.size": 524288, "linger.ms": 20, "compression.type": "lz4"}
    worker = {**producer, "max.in.flight.requests.per.connection": 5, "buffer.memory": 134217728}
    settings["tasks.max"] = str(tasks)
    for key, value in consumer.items():
        settings[f"{alias}.consumer.{key}"] = settings[f"{flow}.consumer.{key}"] = str(value)
    settings |= {f"{run.target_alias}.producer.{key}": str(value) for key, value in worker.items()}
    settings |= {f"{flow}.producer.override.{key}": str(value) for key, value in producer.items()}
    if tuning is Tuning.EXACTLY_ONCE:
        settings[f"{run.target_alias}.exactly.once.source.support"] = "enabled"
        settings["dedicated.mode.enable.internal.rest"] = "true"
        settings["listeners"] = f"http://127.0.0.1:{rest_port}"
    return settings


class MirrorMaker2:
    """A ``System``: one Java process. ``more``: settings beyond those of its tuning."""

    def __init__(self, tuning: Tuning, tasks: int = 2, more: Mapping[str, str] | None = None) -> None:
        self.tuning = tuning
        self.tasks = tasks
        self._more = dict(more or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return f"MM2 {self.tuning}" + (", one task" if self.tasks == 1 else "")

    @property
    def exactly_once(self) -> bool:
        return self.tuning is Tuning.EXACTLY_ONCE

    def start(self, run: Run) -> None:
        settings = properties(run, self.tuning, self.tasks, _free_port()) | self._more
        config, log4j = run.folder / "mm2.properties", run.folder / "log4j2.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        log4j.write_text(_LOG4J)
        command = [prerequisites.java(), f"-Xmx{HEAP}", "-XX:+UseG1GC", f"-Dlog4j2.configurationFile={log4j}"]
        command += [
            "-cp",
            f"{jars.ensure(release=MIRRORMAKER)}{os.sep}*",
            "org.apache.kafka.connect.mirror.MirrorMaker",
            str(config),
        ]
        with (run.folder / "mm2.log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, MARK_VARIABLE: run.mark},
            )

    def alive(self, run: Run) -> str | None:
        if self._process is not None and self._process.poll() is None:
            return None
        return "\n".join((run.folder / "mm2.log").read_text(errors="replace").splitlines()[-12:])

    def stop(self, run: Run) -> None:  # noqa: ARG002 - of the protocol
        if self._process is None or self._process.poll() is not None:
            return
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
