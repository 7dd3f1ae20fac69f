"""What the runner says of a job between two applications, when the status record still tells of the earlier one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.edges.run_folders import RunFolder
from reconciler.edges.spark import SparkRunner
from reconciler.edges.supervisor import write_json
from reconciler.live import JobState, LiveMirror

EARLIER = LiveMirror("west", JobState.STOPPED, application_id="local-1", fingerprint="old")


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[RunFolder]:
    """A real supervisor whose job has not reached Spark, started with the hand-over ``new``."""
    folder = RunFolder(tmp_path / "west")
    folder.path.mkdir()
    write_json(folder.path / "handover.json", {"fingerprint": "new"})
    write_json(folder.path / "command.json", [sys.executable, "-c", "import time; time.sleep(60)"])
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "reconciler.edges.supervisor", str(folder.path)], start_new_session=True
    )
    while "job_pid" not in folder.read("supervisor.json") or folder.number("supervisor.json", "job_pid") is None:
        assert supervisor.poll() is None
        time.sleep(0.02)
    job = folder.number("supervisor.json", "job_pid")
    assert job is not None
    yield folder
    supervisor.kill()
    os.killpg(job, signal.SIGKILL)
    supervisor.wait()


def observed(folder: RunFolder, reported: LiveMirror | None) -> LiveMirror:
    return SparkRunner(folder.path.parent, {}, lambda _: reported).observe("west")


def test_a_job_that_starts_has_the_fingerprint_it_was_handed_and_not_its_predecessors(supervised: RunFolder) -> None:
    for reported in (None, EARLIER):
        found = observed(supervised, reported)
        assert (found.state, found.fingerprint) == (JobState.STARTING, "new")


def test_a_job_that_was_asked_to_stop_does_not_count_as_running(supervised: RunFolder) -> None:
    running = LiveMirror("west", JobState.RUNNING, application_id="local-1", fingerprint="new")
    assert observed(supervised, running).state is JobState.RUNNING
    (supervised.path / "stop").touch()
    assert observed(supervised, running).state is JobState.STOPPED
