"""The runner's view of a job between two applications, while the status record is still of the earlier one."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.backends.mirror_jobs.runner.run_folder import SUPERVISOR, RunFolder, is_running
from reconciler.backends.mirror_jobs.runner.spark_submit import SparkRunner
from reconciler.cli.main import main
from reconciler.errors import ClusterError, Unknown
from reconciler.model.environment.topology import Mirror
from reconciler.model.live import JobState, LiveMirror
from reconciler.operations.session import session as wiring
from reconciler.replication.kept_files import write_json
from tests.support.waiting import until

EARLIER = LiveMirror("west", JobState.STOPPED, application_id="local-1", fingerprint="old")


TWO_CLOSED_PORTS = """
clusters:
  east: {bootstrap_servers: ['127.0.0.1:1']}
  west: {bootstrap_servers: ['127.0.0.1:2']}
flows:
  f: {source: east, target: west, topics: [t]}
"""


LASTING = "import time; time.sleep(60)"
LEAVING = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.02)"


@contextlib.contextmanager
def supervising(state: Path, job: str) -> Iterator[RunFolder]:
    """A real supervisor whose job has not reached Spark, started with the hand-over ``new``."""
    folder = RunFolder(state / "west")
    folder.path.mkdir()
    write_json(folder.path / "handover.json", {"fingerprint": "new"})
    write_json(folder.path / "command.json", [sys.executable, "-c", job, str(folder.path / "stop")])
    supervisor = subprocess.Popen(
        [sys.executable, "-m", SUPERVISOR, str(folder.path)],
        start_new_session=True,
    )
    while "job_pid" not in folder.read("supervisor.json") or folder.number("supervisor.json", "job_pid") is None:
        assert supervisor.poll() is None
        time.sleep(0.02)
    pid = folder.number("supervisor.json", "job_pid")
    assert pid is not None
    yield folder
    supervisor.kill()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    supervisor.wait()


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[RunFolder]:
    with supervising(tmp_path, LASTING) as folder:
        yield folder


@pytest.fixture
def obedient(tmp_path: Path) -> Iterator[RunFolder]:
    """Its job leaves when it is asked to."""
    with supervising(tmp_path, LEAVING) as folder:
        yield folder


def observed(folder: RunFolder, reported: LiveMirror | None) -> LiveMirror:
    return SparkRunner(folder.path.parent, {}, lambda _: reported).observe("west")


def test_a_job_that_starts_has_the_fingerprint_it_was_handed_and_not_its_predecessors(supervised: RunFolder) -> None:
    for reported in (None, EARLIER):
        found = observed(supervised, reported)
        assert (found.state, found.fingerprint) == (JobState.STARTING, "new")


def test_a_job_that_ran_and_whose_driver_hangs_does_not_start(supervised: RunFolder) -> None:
    """It said "starting", for ever, and that one should wait for it."""
    said = LiveMirror("west", JobState.STALE, application_id="local-2", fingerprint="new", detail="host here")
    write_json(supervised.path / "driver.json", {"pid": os.getpid(), "application_id": "local-2"})
    found = observed(supervised, said)
    assert (found.state, found.gone) == (JobState.STALE, False)
    assert found.detail == "host here; its process here hangs, or cannot write its status"
    earlier = replace(said, application_id="local-1")
    assert observed(supervised, earlier).state is JobState.STARTING, "that was the application before it"


def test_a_job_that_runs_and_whose_status_topic_is_gone_is_not_seen(supervised: RunFolder, tmp_path: Path) -> None:
    why = Unknown("mirror west", "its status topic is gone", "Run reconciler apply.")
    runner = SparkRunner(supervised.path.parent, {}, lambda _: None, lambda _: why)
    assert runner.observe("west").unseen == why
    assert runner.observe("east").unseen is None, "nothing runs"
    assert observed(supervised, None).unseen is None, "it only starts"


def test_a_job_that_was_asked_to_stop_does_not_count_as_running(supervised: RunFolder) -> None:
    running = LiveMirror("west", JobState.RUNNING, application_id="local-1", fingerprint="new")
    assert observed(supervised, running).state is JobState.RUNNING
    (supervised.path / "stop").touch()
    assert observed(supervised, running).state is JobState.STOPPED


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.STARTING, JobState.STALE])
def test_a_job_whose_process_here_is_gone_is_not_alive_whatever_it_said_last(tmp_path: Path, state: JobState) -> None:
    folder = RunFolder(tmp_path / "west")
    folder.path.mkdir()
    pid = ended()
    write_json(folder.path / "driver.json", {"pid": pid, "application_id": "local-2"})
    said = LiveMirror("west", state, application_id="local-2", pid=pid, detail="host here")
    found = observed(folder, said)
    assert (found.state, found.gone, found.detail) == (JobState.STALE, True, "host here; its process is gone")
    elsewhere = LiveMirror("west", state, application_id="local-3", pid=pid)
    assert observed(folder, elsewhere) == elsewhere, "it is not of this folder"


def test_a_job_that_lives_here_is_alive(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "west")
    folder.path.mkdir()
    with subprocess.Popen([sys.executable, "-c", LASTING, str(folder.path)]) as job:
        write_json(folder.path / "driver.json", {"pid": job.pid, "application_id": "local-2"})
        said = LiveMirror("west", JobState.RUNNING, application_id="local-2", pid=job.pid)
        until(lambda: is_running(job.pid, str(folder.path)))  # its command line is there a moment after the process
        found = observed(folder, said)
        assert replace(found, unkept="") == said
        assert "supervisor is gone" in found.unkept, "it copies, and nothing would start it again"
        job.kill()
    assert observed(folder, said).gone


def test_a_job_that_crashed_under_its_supervisor_starts_again_and_reports_what_keeps_it(supervised: RunFolder) -> None:
    """Its last record says running until the next application has written one."""
    said = LiveMirror("west", JobState.RUNNING, application_id="local-2", pid=ended(), host=socket.gethostname())
    assert observed(supervised, said) == said, "the supervisor has not begun another one"
    write_json(supervised.path / "supervisor.json", {**supervised.read("supervisor.json"), "restarts": 1})
    found = observed(supervised, said)
    assert (found.state, found.detail) == (JobState.STARTING, "starts again after a crash")
    (supervised.path / "job.log").write_text("many words\nThe mirror job cannot run: Spark did not start: no space.\n")
    assert observed(supervised, said).detail == "starts again after a crash: Spark did not start: no space"
    of_spark = "26/11/22 11:13:45 ERROR DiskBlockManager: Failed to create any local dir.\n"
    (supervised.path / "job.log").write_text(f"java.io.IOException: no\n{of_spark}")
    detail = "starts again after a crash: DiskBlockManager: Failed to create any local dir"
    assert observed(supervised, said).detail == detail
    elsewhere = replace(said, host="elsewhere.example")
    assert observed(supervised, elsewhere) == elsewhere, "it may run there"
    with subprocess.Popen([sys.executable, "-c", LASTING, str(supervised.path)]) as job:
        until(lambda: is_running(job.pid, str(supervised.path)))  # its command line is there a moment after the process
        alive = replace(said, pid=job.pid)
        assert observed(supervised, alive) == alive
        job.kill()


def ended() -> int:
    """The number of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def silent(_: str) -> LiveMirror | None:
    raise ClusterError("cluster west does not answer", "Its status topic cannot be read.", "Check it.")


def test_a_job_of_this_machine_is_stopped_while_its_status_cannot_be_read(obedient: RunFolder) -> None:
    SparkRunner(obedient.path.parent, {}, silent).stop("west", lambda _: None)
    assert obedient.pids() == []


def test_a_job_that_is_not_here_is_not_called_stopped_while_its_status_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ClusterError):
        SparkRunner(tmp_path, {}, silent).stop("west", lambda _: None)


@pytest.mark.slow
def test_the_command_stops_it_while_no_cluster_answers(obedient: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = obedient.path.parent / "e"
    folder.mkdir()
    (folder / "e.yaml").write_text(TWO_CLOSED_PORTS, encoding="utf-8")
    monkeypatch.setattr(wiring, "state_folder", lambda _: obedient.path.parent)
    with pytest.raises(SystemExit) as left:
        main(["mirror", "stop", str(folder)])
    assert (left.value.code, obedient.pids()) == (0, [])


def test_a_job_that_starts_already_is_waited_for_and_not_started_again(
    supervised: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told apart from a job that keeps failing: who mended the cause wants it to begin anew."""
    write_json(supervised.path / "asked.json", {"at_ms": 5_000})
    runs = LiveMirror("west", JobState.RUNNING, application_id="local-2", fingerprint="new", started_at_ms=6_000)
    launched: list[str] = []

    def launch(*_: object) -> int:
        launched.append("launch")
        return 5_000

    monkeypatch.setattr(SparkRunner, "require_startable", lambda *_: None)
    monkeypatch.setattr(SparkRunner, "stop", lambda *_: launched.append("stop"))
    monkeypatch.setattr(SparkRunner, "launch", launch)
    assert observed(supervised, None).started_at_ms == 5_000
    runner = SparkRunner(supervised.path.parent, {"west": Mirror("west", ("f",))}, lambda _: runs)
    words: list[str] = []
    assert runner.start("west", '{"fingerprint": "new"}', words.append) == runs
    assert (launched, words[0]) == ([], "mirror west: it is starting already")
    (supervised.path / "stop").touch()
    runner.start("west", '{"fingerprint": "new"}', words.append)
    assert launched == ["stop", "launch"], "it was asked to leave"
