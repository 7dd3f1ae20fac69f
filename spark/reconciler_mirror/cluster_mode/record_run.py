"""A run with its driver on a machine of the cluster: definition, orders and reports are records, not files."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace

from reconciler.replication.handover import HandoverError, StatusPlace
from reconciler.replication.records.compacted_topic import CompactedTopic
from reconciler.replication.runs import driver_records
from reconciler.replication.runs.driver_records import PARTS, Part, run_key, run_of
from reconciler_mirror import log_lines as logs
from reconciler_mirror.clients.own import FAILURES, KeptCluster, follow
from reconciler_mirror.driver.driver import DriverOutcome, Exit
from reconciler_mirror.driver.until_caught_up import Goal, goal_of
from reconciler_mirror.report.status import Application

BEAT_S, AGAIN_S = 2.0, 1.0
"""Seconds between reports of an idle driver, and before a failed write of a report is repeated."""
KNOWN_S = 120.0
"""Seconds for which the status topic may be unreachable at the start; then the exit code tells the submitter."""
_WRITTEN_WITHIN_S = 10.0
"""Seconds for which an ending driver waits until its report is written: otherwise the follower counts it as lost."""


class RecordRun:
    """A ``JobRun`` over the status topic. A separate thread writes the reports, so that a silent cluster delays nothing
    else."""

    def __init__(self, address: driver_records.RunAddress, topic: RunTopic) -> None:
        self._address, self._topic = address, topic
        self.run = address.run
        self._definition: driver_records.RunDefinition | None = None
        self._guard = threading.Condition()
        self._report = driver_records.DriverReport(address.digest, socket.gethostname(), os.getpid())
        self._written = -1
        """The number of the newest written report."""
        self._number = 0
        self._over = threading.Event()

    def handover(self) -> str:
        """The hand-over's text. Raises HandoverError if the run was withdrawn, or its definition cannot be read."""
        if not self._topic.await_known(KNOWN_S):
            place = self._address.status
            raise HandoverError(
                f"the definition of this run could not be read in {KNOWN_S:.0f} s from {place.topic} at "
                f"{place.cluster.cluster} ({', '.join(place.cluster.bootstrap_servers)}) by the driver on "
                f"{socket.gethostname()}: {self._topic.trouble or 'no answer'}. Secrets and brokers have to be within "
                "reach of each machine on which Spark may run the driver."
            )
        value = self._topic.value(self.run, "definition")
        if value is None:
            raise HandoverError(f"run {self.run} was withdrawn: its definition is gone from the status topic")
        definition = driver_records.loads_definition(value)
        if definition.digest != self._address.digest:
            raise HandoverError(
                f"the definition of run {self.run} has the digest {definition.digest}, and {self._address.digest} was "
                "submitted: another writer wrote it. Check which principals may write to the status topic"
            )
        self._definition = definition
        threading.Thread(target=self._keep_reporting, name="reports", daemon=True).start()
        return definition.handover

    def place(self) -> RecordPlace:
        definition = self._definition or driver_records.RunDefinition("")
        return RecordPlace(self, definition.beside, definition.needs)

    def goal(self) -> Goal | None:
        return goal_of(self._definition.goal or None) if self._definition is not None else None

    def stop_asked(self) -> bool:
        return self.orders().stop

    def orders(self) -> driver_records.RunOrders:
        return driver_records.orders_in(self._topic.value(self.run, "orders"))

    def announce(self, who: Application, phase: str) -> None:
        self.report(0.0, application_id=who.application_id, started_at_ms=who.started_at_ms, phase=phase)

    def ended(self, outcome: DriverOutcome, *, signalled: bool) -> int:
        """Returns 0 after a requested end, because the cluster would restart the driver after any other code. A signal
        is no such request: the cluster takes the machine away, and the mirror must continue elsewhere."""
        if self._definition is None:
            return driver_records.NO_DEFINITION
        if signalled and outcome.code is Exit.STOPPED and not self.stop_asked():
            outcome = DriverOutcome("failed", Exit.FAILED, "the cluster asked its driver to end")
        self.report(_WRITTEN_WITHIN_S, exit_code=int(outcome.code), detail=outcome.detail, left=True)
        self._over.set()
        return 0 if outcome.code in (Exit.STOPPED, Exit.SUPERSEDED) else int(outcome.code)

    def report(self, patience_s: float, **changes: object) -> bool:
        """Changes the report; waits up to ``patience_s`` until it is written, and returns whether it is."""
        with self._guard:
            self._report = replace(self._report, **changes)  # type: ignore[arg-type]
            self._number += 1
            number = self._number
            self._guard.notify_all()
            return self._guard.wait_for(lambda: self._written >= number, patience_s)

    def _keep_reporting(self) -> None:
        """The only writer of the report. Writes it after each change, and otherwise every ``BEAT_S`` with a higher
        ``beat``: the follower counts a driver with an unchanged beat as dead. After a failure it writes the newest
        report."""
        while not self._over.is_set():
            with self._guard:
                self._report = replace(self._report, beat=self._report.beat + 1)
                report, number = self._report, self._number
            written = not self._topic.write(self.run, "report", driver_records.REPORT.dumps(report))
            if not written:
                self._over.wait(AGAIN_S)
                continue
            with self._guard:
                self._written = number
                self._guard.notify_all()
                self._guard.wait_for(lambda: self._number > self._written or self._over.is_set(), BEAT_S)


@dataclass(slots=True)
class RecordPlace:
    """Like ``run_folders.RunPlace``; the run's follower passes on the changes of the folders on its machine."""

    _run: RecordRun
    beside: bool
    needs: tuple[str, ...]
    _taken: bool = False

    def is_current(self) -> bool:
        return (self._taken or not self.beside) and not self._run.orders().replaced

    def take(self) -> None:
        """Reports that this run has taken over. If no follower is alive, fencing in Kafka replaces the handshake, only
        more slowly."""
        self._taken = True
        self._run.report(_WRITTEN_WITHIN_S, taken=True)

    def predecessor_left(self) -> bool:
        return self._run.orders().predecessor_left

    def leave(self) -> None:
        self._run.report(_WRITTEN_WITHIN_S, left=True)


# The records of a mirror's runs in the status topic: read continuously, written one at a time.

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
