"""The run folder of a driver that runs elsewhere: its files are read and written here in the driver's stead."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from reconciler.replication.runs.driver_records import DriverReport, RunDefinition
from reconciler.replication.runs.run_folders import RunPlace


@dataclass(frozen=True, slots=True)
class Folder:
    """The run folder on this machine, and its place among the two of the mirror."""

    place: RunPlace

    @property
    def path(self) -> Path:
        return self.place.run_folder

    def definition(self) -> RunDefinition:
        """Raises OSError."""
        goal = self.path / "goal.json"
        return RunDefinition(
            (self.path / "handover.json").read_text(encoding="utf-8"),
            goal.read_text(encoding="utf-8") if goal.exists() else "",
            beside=not self.place.is_current(),
            needs=self.place.needs,
        )

    def stop_asked(self) -> bool:
        return (self.path / "stop").exists()

    def tell(self, report: DriverReport) -> None:
        """``pid`` is of this process, which is here as long as the driver is followed. Never raises."""
        content = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "application_id": report.application_id,
            "started_at_ms": report.started_at_ms,
            "phase": report.phase,
            "driver": {"host": report.host, "pid": report.pid},
        }
        with contextlib.suppress(OSError):
            draft = self.path / "driver.json.new"
            draft.write_text(json.dumps(content), encoding="utf-8")
            draft.replace(self.path / "driver.json")
