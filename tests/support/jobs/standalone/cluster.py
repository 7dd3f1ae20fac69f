"""A standalone Spark cluster of this machine: a master and workers of pyspark's own jars, each in a folder of its own.

Workers do not see the packages that are installed here: executors have what the mirror brings along.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from reconciler.backends.mirror_jobs.runner.python_archive import pack
from reconciler.model.environment.topology import Mirror
from reconciler.replication.handover import Deployment, ExecutorPython
from tests.support.jobs.standalone.network_namespace import NetworkNamespace

PYSPARK = Path(pyspark.__file__).parent
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_DEPLOY = "org.apache.spark.deploy"


@dataclass
class Daemon:
    """A master or a worker: a process group with what it has started, but for Python."""

    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """As the loss of its machine: at once, with its executors."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(20)

    def executors(self) -> list[int]:
        """Java processes that this worker has started; each of its threads may be the one that did."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        found = set()
        with contextlib.suppress(OSError):
            for task in tasks.iterdir():
                with contextlib.suppress(OSError):
                    found |= {int(child) for child in (task / "children").read_text().split()}
        return sorted(found)

    def kill_executors(self) -> None:
        for pid in self.executors():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@dataclass
class Standalone:
    """``stop`` it, whatever happens."""

    folder: Path
    port: int = 0
    page: int = 0
    """Port of the master's web page."""
    secret: str = ""
    """Of master, workers and all applications; empty: everybody is let in."""
    host: str = "127.0.0.1"
    """Of the master, and of workers that are given no other machine."""
    spark: Path = PYSPARK
    """Unpacked, or a package; of those that are given no other machine."""
    daemons: list[Daemon] = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"spark://{self.host}:{self.port}"

    def start(self) -> Standalone:
        with socket.create_server((self.host, 0)) as listening, socket.create_server((self.host, 0)) as web:
            self.port, self.page = int(listening.getsockname()[1]), int(web.getsockname()[1])
        self.start_master()
        return self

    def start_master(self) -> Daemon:
        """On its port, also again after it was killed."""
        words = ("--port", str(self.port), "--webui-port", str(self.page))
        return self._daemon("master", f"{_DEPLOY}.master.Master", *words)

    def worker(self, name: str, cores: int = 1, machine: NetworkNamespace | None = None) -> Daemon:
        words = ("--cores", str(cores), "--memory", f"{600 * cores}m", "--work-dir", str(self.folder / name / "work"))
        return self._daemon(name, f"{_DEPLOY}.worker.Worker", "--webui-port", "0", *words, self.master, machine=machine)

    @property
    def properties(self) -> Path:
        return self.folder / "spark.properties"

    def _properties(self) -> list[str]:
        if not self.secret:
            return []
        if not self.properties.exists():
            self.properties.touch(0o600)
            lines = ("spark.authenticate true", f"spark.authenticate.secret {self.secret}")
            self.properties.write_text("\n".join((*lines, "spark.network.crypto.enabled true", "")))
        return ["--properties-file", str(self.properties)]

    def stop(self) -> None:
        for daemon in self.daemons:
            daemon.kill()

    def log(self, name: str) -> str:
        return (self.folder / name / "log").read_text(errors="replace")

    def _daemon(self, name: str, of: str, *words: str, machine: NetworkNamespace | None = None) -> Daemon:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        java = shutil.which("java") or "java"
        host = machine.there if machine else self.host
        environment = {
            "PATH": f"{Path(java).parent}:/usr/bin:/bin",
            "HOME": str(folder),
            "SPARK_LOCAL_IP": host,
            **({"SPARK_HOME": str(machine.spark)} if machine else {}),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_DAEMON_MEMORY": "160m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            **({"JAVA_HOME": home} if (home := os.environ.get("JAVA_HOME")) else {}),
        }
        given = (
            [*words[:-1], *self._properties(), *words[-1:]] if of.endswith("Worker") else [*words, *self._properties()]
        )
        command = [str((machine.spark if machine else self.spark) / "bin" / "spark-class")]
        command += [of, "--host", host, *given]
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command if machine is None else machine.inside(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=folder,
                env=environment,
            )
        self.daemons.append(Daemon(process))
        return self.daemons[-1]


def mirror_on(cluster: Standalone, name: str, folder: Path, executors: int = 2) -> Mirror:
    """Executors of one core, with Python from the archive."""
    return Mirror(
        name,
        (name,),
        master=cluster.master,
        parallelism=executors,
        deployment=Deployment(
            executors=executors, cores=1, memory="480m", python=ExecutorPython(str(pack(folder / "python.tar.gz").path))
        ),
        spark_conf={
            "spark.driver.host": cluster.host,
            "spark.driver.bindAddress": cluster.host,
            "spark.ui.enabled": "false",
            "spark.executor.extraJavaOptions": QUICK,
        },
    )
