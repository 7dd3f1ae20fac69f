"""Reads whole clusters ahead, on a separate thread, while the program still loads its YAML.

An optimisation only: what cannot be read this way is None, and the caller reads it again and reports the error.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future

from reconciler.backends.clusters.topics.read_fast import reading_in_bulk
from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import LiveCluster

LEAVES_WITHIN = 1.0
"""Seconds. To close connections takes none; the name of a server may still be looked up."""
CONNECTIONS = 1
"""To each cluster. Nothing waits for these answers yet, and two requests at a time could take time from others."""
SWITCH_SECONDS = 0.0005
"""How long the thread that reads YAML may keep the interpreter from this one, which wants it for a moment each time a
broker has said something. By Python's own 5 ms to connect alone takes 0.3 s."""


class ReadAhead:
    """Begins at once; for one principal. ``close`` breaks off what is still under way."""

    def __init__(self, clusters: Mapping[str, Cluster], principal: Principal) -> None:
        self._clusters = clusters
        self._principal = principal
        self._found: dict[str, Future[LiveCluster | None]] = {name: Future() for name in clusters}
        self._loop = asyncio.new_event_loop()
        self._enough = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="read-ahead", daemon=True)
        self._thread.start()

    def reads(self, cluster: Cluster) -> bool:
        """False also where a cluster of this name is read with other settings."""
        return self._clusters.get(cluster.name) == cluster

    def take(self, name: str) -> LiveCluster | None:
        """Waits for it. None when it cannot be read this way, or was broken off."""
        return self._found[name].result()

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):  # all is read, and the loop is closed
            self._loop.call_soon_threadsafe(self._enough.set)
        self._thread.join(LEAVES_WITHIN)

    def _run(self) -> None:
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._read())
        finally:
            sys.setswitchinterval(before)
            for future in self._found.values():
                if not future.done():
                    future.set_result(None)

    async def _read(self) -> None:
        enough = asyncio.create_task(self._enough.wait())
        reads = asyncio.gather(*(self._one(cluster) for cluster in self._clusters.values()))
        await asyncio.wait((enough, reads), return_when=asyncio.FIRST_COMPLETED)
        for item in (enough, reads):
            item.cancel()
        await asyncio.gather(enough, reads, return_exceptions=True)

    async def _one(self, cluster: Cluster) -> None:
        future = self._found[cluster.name]
        try:
            future.set_result(await reading_in_bulk(cluster, self._principal, connections=CONNECTIONS))
        except ReconcilerError:
            future.set_result(None)
        except Exception as error:  # noqa: BLE001 - a slip of ours, for the thread that asks
            future.set_exception(error)
