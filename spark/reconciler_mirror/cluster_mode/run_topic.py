"""The records of a mirror's runs in the status topic: read continuously, written one at a time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError

from reconciler.replication.handover import StatusPlace
from reconciler.replication.records.compacted_topic import CompactedTopic
from reconciler.replication.runs.driver_records import PARTS, Part, run_key, run_of
from reconciler_mirror import log_lines as logs
from reconciler_mirror.clients.own import FAILURES, KeptCluster, follow

_log = logs.logger("run")


class RunTopic:
    """``start`` it once, ``close`` it once. Safe for several threads."""

    def __init__(self, place: StatusPlace) -> None:
        self._place = place
        # By run and part: the newest record, and the monotonic time at which this process saw it change. The age of a
        # beat is measured by this machine's clock, not by the writer's.
        self._values: dict[tuple[str, Part], bytes] = {}
        self._moved: dict[tuple[str, Part], float] = {}
        self._guard = threading.Condition()
        # One write at a time: overlapping writes of one key could arrive in the wrong order, and the last one counts.
        self._writing = threading.Lock()
        self._end = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._kept = KeptCluster(place.cluster)
        self._known = False
        # Since then the topic has been read without a gap. Earlier changes say nothing about silence.
        self._out_of_touch = time.monotonic()
        self.trouble = ""
        """Why the topic cannot be read; empty otherwise."""

    def start(self) -> RunTopic:
        work = follow(self._place, self._end, self._heard, self._lost)
        threading.Thread(target=self._loop.run_until_complete, args=(work,), name="run records", daemon=True).start()
        return self

    def await_known(self, patience_s: float) -> bool:
        """Waits until all records from before the start have been read."""
        with self._guard:
            return self._guard.wait_for(lambda: self._known, patience_s)

    def wait(self, seconds: float) -> None:
        """Waits until a record arrives, for ``seconds`` at most."""
        with self._guard:
            self._guard.wait(seconds)

    def value(self, run: str, part: Part) -> bytes | None:
        with self._guard:
            return self._values.get((run, part))

    def values(self, part: Part) -> Mapping[str, bytes]:
        """Values by run."""
        with self._guard:
            return {run: value for (run, each), value in self._values.items() if each == part}

    def silent_s(self, run: str, part: Part) -> float:
        """Seconds without such a record while the topic was readable, so that the silence is the writer's."""
        with self._guard:
            return time.monotonic() - max(self._moved.get((run, part), 0.0), self._out_of_touch)

    def write(self, run: str, part: Part, value: bytes | None, patience_s: float = 10.0) -> str:
        """Writes ``value``, or deletes for None. Returns the reason of a failure; empty after success."""
        key = run_key(self._place.key, run, part)
        with self._writing:
            written = asyncio.run_coroutine_threadsafe(self._write(key, value), self._loop)
            try:
                written.result(patience_s)
            except FutureTimeoutError:
                written.cancel()
                return "no answer"
            except FAILURES as error:
                return str(error)
        return ""

    def delete(self, run: str) -> None:
        """Deletes the run's records, as far as possible; another run deletes the rest."""
        for part in PARTS:
            if self.value(run, part) is not None and self.write(run, part, None):
                return

    def close(self) -> None:
        self._end.set()

    async def _write(self, key: str, value: bytes | None) -> None:
        async with self._kept.use() as cluster:
            await CompactedTopic(cluster, self._place.topic).append([(key, value)])

    def _lost(self, error: Exception) -> None:
        why = str(error)
        with self._guard:
            if why != self.trouble:
                _log.warning("the records of this run cannot be read; retrying", topic=self._place.topic, why=why)
            self.trouble = why

    def _heard(self, topic: CompactedTopic, moved: frozenset[str]) -> None:
        """Takes the whole topic, and the keys that moved since the last call, in the reader thread. At first, and after
        trouble, silence is measured from now on: a driver may have reported while the topic was unreadable."""
        now = time.monotonic()
        with self._guard:
            if self.trouble or not self._known:
                self._out_of_touch, self._known, self.trouble = now, True, ""
            if moved:
                named = ((run_of(self._place.key, key), value) for key, value in topic.values().items())
                self._values = {name: value for name, value in named if name is not None}
                self._moved |= {name: now for key in moved if (name := run_of(self._place.key, key)) is not None}
            self._guard.notify_all()
