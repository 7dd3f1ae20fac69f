"""A job that runs and whose status topic was deleted is no job that starts: the topic is named, and what makes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.backends.mirror_jobs.runner.run_folder import RunFolder
from reconciler.backends.mirror_jobs.status.records import StatusRecords
from reconciler.engine.observe.read_all import observe
from reconciler.model.environment.topology import Principal
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.operations.session.session import Session
from reconciler.render.reports.status.status import status_text
from tests.support.builders import flow, topology


@pytest.mark.parametrize("missing", [True, False])
def test_a_status_topic_that_is_gone_is_named(missing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunFolder, "supervisor_pid", lambda _: 4711)
    monkeypatch.setattr(StatusRecords, "read", lambda *_: None)
    declared = topology(flow("east", "west", "orders"))
    session = Session(tmp_path, declared, Principal.PLAN)
    session.records["west"].topic_missing = missing
    mirrors = observe({}, session.runner, declared.mirrors).mirrors
    mirror = mirrors["west"]
    assert isinstance(mirror, LiveMirror)
    assert mirror.state is JobState.STARTING, "so a plan leaves it alone, and creates the topic"
    text = status_text(declared, LiveState({}, mirrors), 0)
    if missing:
        assert text.startswith("0 of 1 mirror running; lag unknown; 0 conditions; 1 unknown\n")
        assert (
            "mirror west: unknown: its process runs, but its status topic __mirror_status does not exist at west, so "
            "what the job does cannot be seen. Run reconciler apply, which creates the topic."
        ) in text
    else:
        assert "mirror west: starting" in text
    session.close()
