"""The two clusters of a benchmark: a sandbox of its own that keeps its data between runs, or the user's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from bench.figures import Clusters
from sandbox import processes
from sandbox.brokers import Launch, bring_up, take_down
from sandbox.places import home_of
from sandbox.profiles import PROFILES

PORT = 26_100
HEAP = "1g"


@contextlib.contextmanager
def clusters(port: int, keep: bool, progress: Callable[[str], None]) -> Iterator[Clusters]:
    """One broker a cluster. Stopped after the block unless ``keep``; loaded topics stay on disk."""
    home = home_of("bench")
    sandbox = bring_up(Launch(PROFILES["plain"], home, port, HEAP), progress)
    try:
        pids = {found.node: found.pid for found in processes.find(home)}
        yield Clusters(
            sandbox["east"].bootstrap_servers,
            sandbox["west"].bootstrap_servers,
            pids,
            sandbox["east"].folder / "broker-1" / "data",
        )
    finally:
        if not keep:
            take_down(home)
