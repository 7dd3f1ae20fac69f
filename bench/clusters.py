"""The two clusters of a benchmark: a sandbox of its own that keeps its data between runs, or the user's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping

from bench.cpu import MARK_VARIABLE
from bench.figures import Clusters
from bench.tether import tethered
from sandbox import processes
from sandbox.brokers import Launch, bring_up, take_down
from sandbox.handles import Sandbox
from sandbox.places import home_of
from sandbox.profiles import PROFILES

PORT = 26_100
HEAP = "1g"


@contextlib.contextmanager
def clusters(port: int, keep: bool, progress: Callable[[str], None]) -> Iterator[Clusters]:
    """One broker a cluster; loaded topics stay on disk. Unless ``keep``, the brokers end with us, however we end."""
    home = home_of("bench")
    with contextlib.nullcontext() if keep else tethered(f"clusters-{os.getpid()}") as environ:
        sandbox = _up(Launch(PROFILES["plain"], home, port, HEAP), environ, progress)
        try:
            pids = {found.node: found.pid for found in processes.find(home)}
            east, west = sandbox["east"], sandbox["west"]
            yield Clusters(east.bootstrap_servers, west.bootstrap_servers, pids, east.folder / "broker-1" / "data")
        finally:
            if not keep:
                take_down(home)


def _up(launch: Launch, environ: Mapping[str, str] | None, progress: Callable[[str], None]) -> Sandbox:
    """The brokers inherit our environment, and with it the mark of the tether."""
    if environ is not None:
        os.environ[MARK_VARIABLE] = environ[MARK_VARIABLE]
    try:
        return bring_up(launch, progress)
    finally:
        os.environ.pop(MARK_VARIABLE, None)
