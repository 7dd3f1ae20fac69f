"""What a driver reads of its run and tells of it: the files of a run folder, on the machine that started it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

from reconciler.replication.runs.run_folders import place_of
from reconciler_mirror.driver.driver import DriverOutcome, DriverPlace
from reconciler_mirror.driver.until_caught_up import Goal, goal_of
from reconciler_mirror.report.status import Application


class JobRun(Protocol):
    """One run of the application, as ``mirror_job`` sees it."""

    @property
    def run(self) -> str:
        """Of deploy mode cluster; else empty."""
        ...

    def handover(self) -> str:
        """Its text. Raises HandoverError or OSError."""
        ...

    def place(self) -> DriverPlace: ...
    def goal(self) -> Goal | None: ...
    def stop_asked(self) -> bool: ...

    def tell(self, who: Application, phase: str) -> None:
        """Who runs, and what goes on before the first status record."""
        ...

    def ended(self, outcome: DriverOutcome, *, signalled: bool) -> int:
        """The last word; returns the exit code of the process. ``signalled``: the process was told to end."""
        ...


class FolderRun:
    """Deploy mode client, or by hand: ``folder`` gets driver.json; a file ``stop`` in it ends the job."""

    run = ""

    def __init__(self, handover: Path, folder: Path) -> None:
        self._handover, self._folder = handover, folder

    def handover(self) -> str:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._handover.read_text(encoding="utf-8")

    def place(self) -> DriverPlace:
        return place_of(self._folder)

    def goal(self) -> Goal | None:
        return goal_of(self._folder)

    def stop_asked(self) -> bool:
        return (self._folder / "stop").exists()

    def tell(self, who: Application, phase: str) -> None:
        content = {
            "pid": who.pid,
            "host": who.host,
            "application_id": who.application_id,
            "started_at_ms": who.started_at_ms,
            "phase": phase,
        }
        draft = self._folder / "driver.json.new"
        draft.write_text(json.dumps(content), encoding="utf-8")
        draft.replace(self._folder / "driver.json")

    def ended(self, outcome: DriverOutcome, *, signalled: bool) -> int:  # noqa: ARG002  # which is a wish to stop here
        return int(outcome.code)
