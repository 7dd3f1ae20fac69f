"""The audit record of an apply on a disk that fills up: no end says more than its lines do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.backends.state.audit import AuditFile, read_lines
from reconciler.backends.state.lock import this_process
from reconciler.engine.plan.build import plan
from reconciler.errors import ReconcilerError
from reconciler.model.plan import Outcome, Result
from reconciler.model.reports.probe import Probe
from reconciler.model.state.audit_chain import PREVIOUS
from reconciler.operations.apply.audit import Audit, Line, Recorder, ended
from reconciler.operations.apply.execution import Execution
from tests.support.builders import topology, world


class Silent:
    def outcome(self, outcome: Outcome) -> None: ...
    def note(self, change_id: str, text: str) -> None: ...
    def moving(self, change_id: str, text: str) -> None: ...
    def probed(self, probe: Probe) -> None: ...


class Disk:
    """Has room for short lines alone while it is full, as a disk has in its last block."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        write = AuditFile.write

        def limited(file: AuditFile, line: Mapping[str, Any]) -> None:
            if self.full and line["kind"] == "change":
                raise ReconcilerError("the audit record cannot be written: No space left", "", "Check the space left.")
            write(file, line)

        monkeypatch.setattr(AuditFile, "write", limited)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    empty = plan(topology(), world().look(topology()))
    return Recorder(Audit(AuditFile(tmp_path)), "r", empty, Silent())


def end(recorder: Recorder) -> Line:
    return ended(recorder.run, 1.0, recorder.outcomes, "")


def kinds(state: Path) -> list[str]:
    return [str(line.get("id", line["kind"])) for line in read_lines(state)]


def test_an_end_does_not_hide_changes_that_found_no_room(disk: Disk, recorder: Recorder, tmp_path: Path) -> None:
    recorder.outcome(Outcome("a", Result.DONE))
    disk.full = True
    for name in ("b", "c"):
        recorder.outcome(Outcome(name, Result.DONE))
        assert recorder.stopped(), "no further step begins"
    recorder.write(end(recorder))
    assert kinds(tmp_path) == ["a"], "a run without an end, as one that was killed has it"
    assert recorder.unwritten == (
        "the audit record cannot be written: No space left\nIt lacks 3 lines of this run. What is done holds, and "
        "a new plan shows what is left. Check the space left."
    )


def test_a_record_is_whole_once_there_is_room_again(disk: Disk, recorder: Recorder, tmp_path: Path) -> None:
    disk.full = True
    recorder.outcome(Outcome("a", Result.DONE))
    disk.full = False
    recorder.outcome(Outcome("b", Result.DONE))
    recorder.write(end(recorder))
    assert not recorder.unwritten
    assert kinds(tmp_path) == ["a", "b", "end"]
    assert [line[PREVIOUS] is None for line in read_lines(tmp_path)] == [True, False, False]


@pytest.mark.parametrize(("gone", "cut_off"), [("bo took the lock over", ""), ("", "the lock could not be renewed")])
def test_no_step_of_a_command_begins_once_its_lock_is_lost(tmp_path: Path, gone: str, cut_off: str) -> None:
    """``mirror start`` of many mirrors waits minutes for each; another run may act by now."""
    lock = SimpleNamespace(gone="", cut_off="", lost_because="", environment="e", steal=None, holder=this_process(""))
    lock.cluster, lock.lost = SimpleNamespace(name="west"), lambda: lock.lost_because
    session: Any = SimpleNamespace(topology=topology(), folder=tmp_path)
    execute = Execution("mirror start", session, cast("Any", lock), Audit(AuditFile(tmp_path)))
    started: list[str] = []
    execute.perform("start:a", lambda: started.append("a"))
    lock.gone, lock.cut_off, lock.lost_because = gone, cut_off, gone or cut_off
    with pytest.raises(ReconcilerError, match=gone or cut_off):
        execute.perform("start:b", lambda: started.append("b"))
    assert (started, kinds(tmp_path)) == (["a"], ["begin", "start:a", "end"])
