"""The two clusters of a benchmark: a sandbox of its own that keeps its data between runs, or the user's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from reconciler_sandbox.brokers import processes
from reconciler_sandbox.brokers.up_down import Launch, bring_up, take_down
from reconciler_sandbox.handles import Sandbox
from reconciler_sandbox.paths import home_of
from reconciler_sandbox.profiles import PROFILES

from bench.copy.figures import Clusters
from bench.processes.cpu import MARK_VARIABLE
from bench.processes.tether import tethered

PORT = 26_100
READ_BYTES = 4 << 20
HEAP = "1g"
SERVER_JVM = (
    "-server",
    "-Xms1g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
)
"""What Kafka's own kafka-server-start.sh gives a broker; the sandbox's flags are for a quick start."""


@contextlib.contextmanager
def clusters(port: int, keep: bool, progress: Callable[[str], None]) -> Iterator[Clusters]:
    """One broker a cluster; loaded topics stay on disk. Unless ``keep``, the brokers end with us, however we end."""
    home = home_of("bench")
    with contextlib.nullcontext() if keep else tethered(f"clusters-{os.getpid()}") as environ:
        sandbox = _up(Launch(replace(PROFILES["plain"], jvm=SERVER_JVM), home, port, HEAP), environ, progress)
        try:
            pids = {found.node: found.pid for found in processes.find(home)}
            east, west = sandbox["east"], sandbox["west"]
            yield Clusters(east.bootstrap_servers, west.bootstrap_servers, pids, east.folder / "broker-1" / "data")
        finally:
            if not keep:
                take_down(home)


def settle(clusters: Clusters, topic: str) -> None:
    """Before a copy: what earlier copies wrote is on disk, and the source's log is in the page cache, as that of a
    topic that is being written is. Else one copy would pay for another's writes, or read from a cold disk."""
    os.sync()
    for log in clusters.source_data.glob(f"{topic}-*/*.log"):
        with log.open("rb") as file:
            while file.read(READ_BYTES):
                pass


def _up(launch: Launch, environ: Mapping[str, str] | None, progress: Callable[[str], None]) -> Sandbox:
    """The brokers inherit our environment, and with it the mark of the tether."""
    if environ is not None:
        os.environ[MARK_VARIABLE] = environ[MARK_VARIABLE]
    try:
        return bring_up(launch, progress)
    finally:
        os.environ.pop(MARK_VARIABLE, None)
