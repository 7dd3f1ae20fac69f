"""Mirror jobs in memory: they run as soon as they are started, and can be told to fail."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace

from reconciler.errors import RunnerError
from reconciler.model.live import JobState, LiveMirror
from reconciler.replication.status import FlowStatus


class FakeRunner:
    """A ``MirrorRunner`` whose jobs are entries of a dict; a started job reports what its hand-over says."""

    def __init__(self) -> None:
        self.jobs: dict[str, LiveMirror] = {}
        self.log: list[str] = []
        self.handovers: dict[str, str] = {}
        self._starts = itertools.count(1)
        self._failures: dict[str, RunnerError | KeyboardInterrupt] = {}

    def fail(self, what: str, error: RunnerError | KeyboardInterrupt) -> None:
        """``what``: ``start west``, ``restart west`` or ``stop west``; once."""
        self._failures[what] = error

    def observe(self, mirror: str) -> LiveMirror:
        return self.jobs.get(mirror, LiveMirror(mirror, JobState.ABSENT))

    def start(self, mirror: str, handover: str, progress: Callable[[str], None]) -> LiveMirror:
        self._log(f"start {mirror}")
        return self._begun(mirror, handover, progress)

    def _begun(self, mirror: str, handover: str, progress: Callable[[str], None]) -> LiveMirror:
        told = json.loads(handover)
        flows = {f["name"]: FlowStatus(f["name"], f["fingerprint"], "running") for f in told["flows"]}
        progress("submitted")
        self.handovers[mirror] = handover
        self.jobs[mirror] = LiveMirror(
            mirror, JobState.RUNNING, f"local-{next(self._starts)}", told["fingerprint"], 0, 0, 4711, "", flows
        )
        return self.jobs[mirror]

    def restart(self, mirror: str, handover: str, progress: Callable[[str], None]) -> LiveMirror:
        self._log(f"restart {mirror}")
        return self._begun(mirror, handover, progress)

    def stop(self, mirror: str, progress: Callable[[str], None]) -> None:
        self._log(f"stop {mirror}")
        progress("stopping")
        self.jobs[mirror] = replace(self.observe(mirror), state=JobState.STOPPED)

    def _log(self, what: str) -> None:
        self.log.append(what)
        if error := self._failures.pop(what, None):
            raise error
