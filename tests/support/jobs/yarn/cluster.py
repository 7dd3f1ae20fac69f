"""A ResourceManager and NodeManagers of this machine, from Maven's jars, with folders of the machine for HDFS."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from reconciler_sandbox.install import jars
from reconciler_sandbox.paths import STATE
from reconciler_sandbox.releases import Release

VERSION = "3.5.0"
"""As Spark's own client of it (hadoop-client-api)."""
_HERE = Path(__file__).parent
HADOOP = Release(VERSION, STATE / "jars" / f"yarn-{VERSION}", _HERE / "jars.sha256", _HERE / "pom.xml", product="YARN")
_SERVER = "org.apache.hadoop.yarn.server"
_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx200m", "--add-opens", "java.base/java.lang=ALL-UNNAMED")
_LOG = """\
log4j.rootLogger=INFO,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss} %p %c{1}: %m%n
"""


def _configuration(settings: Mapping[str, str]) -> str:
    lines = (
        f"<property><name>{key}</name><value>{escape(value)}</value></property>" for key, value in settings.items()
    )
    return "\n".join(("<configuration>", *lines, "</configuration>\n"))


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        return [held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(count)]


@dataclass
class NodeManager:
    """``folder``: below it are the folders of its containers."""

    process: subprocess.Popen[bytes]
    folder: Path
    address: str

    def containers(self, word: str = "") -> list[int]:
        """Processes that work in its folders, with ``word`` in their command line: shells, JVMs, Pythons."""
        mark, found = f"{self.folder}/local".encode(), []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) in (os.getpid(), self.process.pid):
                continue
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes()
                place = os.fsencode((entry / "cwd").readlink())
                if (mark in words or place.startswith(mark)) and word.encode() in words:
                    found.append(int(entry.name))
        return found

    def kill_executors(self) -> int:
        """As kill -9 of each; returns how many there were."""
        return _killed(self.containers("org.apache.spark.executor.YarnCoarseGrainedExecutorBackend"))

    def kill(self) -> None:
        """The daemon alone; its containers go on."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(20)

    def lose(self) -> None:
        """As the loss of its machine."""
        self.kill()
        while _killed(self.containers()):
            time.sleep(0.1)


def _killed(pids: list[int]) -> int:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


@dataclass
class Yarn:
    """``stop`` it, whatever happens. ``conf``: what HADOOP_CONF_DIR of its clients names."""

    folder: Path
    nodes: dict[str, NodeManager] = field(default_factory=dict)
    _manager: subprocess.Popen[bytes] | None = None
    _web: int = 0
    _shared: dict[str, str] = field(default_factory=dict)

    @property
    def conf(self) -> Path:
        return self.folder / "conf"

    def start(self) -> Yarn:
        jars.ensure(release=HADOOP)
        client, scheduler, tracker, admin, self._web = _free_ports(5)
        name = "yarn.resourcemanager"
        ports = {"": client, "scheduler.": scheduler, "resource-tracker.": tracker, "admin.": admin}
        self._shared = {
            **{f"{name}.{part}address": f"127.0.0.1:{port}" for part, port in ports.items()},
            f"{name}.hostname": "127.0.0.1",
            f"{name}.webapp.address": f"127.0.0.1:{self._web}",
            f"{name}.scheduler.class": f"{_SERVER}.resourcemanager.scheduler.fifo.FifoScheduler",
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.nm.liveness-monitor.expiry-interval-ms": "10000",
            "yarn.resourcemanager.nm.liveness-monitor.interval-ms": "1000",
        }
        self._configure(self.conf, self._shared)
        self._manager = self._daemon("manager", self.conf, "resourcemanager.ResourceManager")
        self._until("the ResourceManager answers", lambda: self.metrics() is not None)
        return self

    def node(self, name: str, memory_mb: int, cores: int) -> NodeManager:
        ports, folder = _free_ports(4), self.folder / name
        own = {
            **{
                f"yarn.nodemanager.{part}address": f"127.0.0.1:{port}"
                for part, port in zip(("", "localizer.", "webapp.", "collector-service."), ports, strict=True)
            },
            "yarn.nodemanager.local-dirs": str(folder / "local"),
            "yarn.nodemanager.log-dirs": str(folder / "logs"),
            "yarn.nodemanager.resource.memory-mb": str(memory_mb),
            "yarn.nodemanager.resource.cpu-vcores": str(cores),
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
        }
        self._configure(folder / "conf", {**self._shared, **own})
        process = self._daemon(name, folder / "conf", "nodemanager.NodeManager")
        self.nodes[name] = NodeManager(process, folder, f"127.0.0.1:{ports[0]}")
        self._until(f"{name} is registered", lambda: "Registered with ResourceManager" in self.log(name))
        return self.nodes[name]

    def metrics(self) -> Mapping[str, Any] | None:
        """As the ResourceManager tells; None while it does not."""
        with contextlib.suppress(OSError, ValueError):
            url = f"http://127.0.0.1:{self._web}/ws/v1/cluster/metrics"
            with urllib.request.urlopen(url, timeout=5) as answer:
                found: Mapping[str, Any] = json.load(answer)["clusterMetrics"]
                return found
        return None

    def stop(self) -> None:
        for node in self.nodes.values():
            node.lose()
        if self._manager is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._manager.pid, signal.SIGKILL)
            self._manager.wait(20)

    def log(self, name: str) -> str:
        return (self.folder / name / "log").read_text(errors="replace")

    def _configure(self, folder: Path, settings: Mapping[str, str]) -> None:
        folder.mkdir(parents=True)
        core = {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(folder / "tmp")}
        (folder / "core-site.xml").write_text(_configuration(core))
        (folder / "yarn-site.xml").write_text(_configuration(settings))
        (folder / "log4j.properties").write_text(_LOG)

    def _daemon(self, name: str, conf: Path, of: str) -> subprocess.Popen[bytes]:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java"
        environment = {"PATH": f"{Path(java).parent}:/usr/bin:/bin", "HOME": str(folder), "USER": "test"}
        if home:
            environment["JAVA_HOME"] = home
        words = [java, *_JAVA, f"-Dhadoop.log.dir={folder}", "-cp", f"{conf}:{HADOOP.jars}/*", f"{_SERVER}.{of}"]
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=folder,
                env=environment,
            )

    def _until(self, what: str, holds: Callable[[], bool], seconds: float = 180.0) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, f"{what}\n{[self.log(name)[-1500:] for name in ('manager', *self.nodes)]}"
            time.sleep(0.3)
