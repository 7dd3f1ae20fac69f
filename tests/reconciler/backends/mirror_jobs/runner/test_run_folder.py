"""A state folder that is removed (a cleaned checkout) or made read-only costs the running job nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import git
import pytest

from reconciler.backends.mirror_jobs.runner.run_folder import (
    SUPERVISOR,
    RunFolder,
    is_running,
    private_files,
    required,
    state_folder,
)
from reconciler.backends.mirror_jobs.runner.spark_submit import SparkRunner
from reconciler.backends.state.audit import AuditFile
from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import Mirror
from reconciler.model.live import JobState, LiveMirror
from reconciler.replication.kept_files import write_json
from reconciler.replication.runs import run_folders as succession
from tests.support.waiting import until

JOB = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path(sys.argv[1] + ".asked").touch(), sys.exit(0)))
pathlib.Path(sys.argv[1] + ".pid").write_text(str(os.getpid()))
pathlib.Path(sys.argv[1], "driver.json").touch()
while True:
    time.sleep(0.02)
"""


def started(run: Path) -> tuple[subprocess.Popen[bytes], int]:
    """The supervisor and the pid of its job, once the run folder is gone."""
    run.mkdir(parents=True)
    write_json(run / "command.json", [sys.executable, "-c", JOB, str(run)])
    process = subprocess.Popen([sys.executable, "-m", SUPERVISOR, str(run)], stderr=subprocess.PIPE)
    until((run / "driver.json").exists, 60)
    pid = int(Path(f"{run}.pid").read_text())
    until(lambda: RunFolder(run).word("supervisor.json", "state") == "running", 60)
    shutil.rmtree(run)
    return process, pid


def test_a_job_whose_folder_is_gone_can_still_be_stopped(tmp_path: Path) -> None:
    run = tmp_path / "run"
    process, _ = started(run)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert Path(f"{run}.asked").exists()
    assert b"Traceback" not in said


def test_a_job_that_dies_without_a_folder_cannot_be_started_again_and_that_is_said(tmp_path: Path) -> None:
    process, pid = started(tmp_path / "run")
    os.kill(pid, signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"Traceback" not in said
    assert b"No such file or directory" in said


@pytest.mark.parametrize("folder", ["home", "second"])
def test_stop_finds_a_job_whose_folders_are_gone_and_waits_for_its_end(tmp_path: Path, folder: str) -> None:
    home = tmp_path / "west"
    run = home if folder == "home" else home / succession.SECOND
    supervised, pid = started(run)
    shutil.rmtree(home, ignore_errors=True)
    reported = LiveMirror("west", JobState.RUNNING, application_id="app", pid=pid)
    said: list[str] = []
    runner = SparkRunner(tmp_path, {"west": Mirror("west", ("f",), master="local[1]")}, lambda _: reported)
    runner.stop("west", said.append)
    assert not is_running(pid, str(run))
    assert said[-1] == "mirror west: stopped"
    supervised.communicate(timeout=60)


@pytest.mark.parametrize("folder", ["home", "second"])
def test_no_job_takes_lost_folders_for_the_word_of_a_successor(tmp_path: Path, folder: str) -> None:
    home = tmp_path / "west"
    run = home if folder == "home" else home / succession.SECOND
    run.mkdir(parents=True)
    succession.settle(run, home, ())
    place = succession.place_of(run)
    place.take()
    shutil.rmtree(home)
    assert place.is_current()


def test_a_new_application_waits_for_its_turn_though_none_was_ever_named(tmp_path: Path) -> None:
    """The first application of a mirror, started by a release that names none."""
    beside = tmp_path / succession.SECOND
    beside.mkdir()
    succession.settle(beside, tmp_path, ())
    assert not succession.place_of(beside).is_current()
    assert succession.current(tmp_path) == tmp_path


def test_what_is_made_while_two_threads_want_private_files_is_private_until_both_have_left(tmp_path: Path) -> None:
    """The umask belongs to the process: who left first put it back while the other was still writing."""
    before = os.umask(0o022)
    try:
        first, second = private_files(), private_files()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        (tmp_path / "log").touch()
        second.__exit__(None, None, None)
        (tmp_path / "report").touch()
        assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("log", "report")] == [0o600, 0o644]
        required(tmp_path / "state" / "prod")
        AuditFile(tmp_path / "other" / "prod")
        made = [tmp_path / name for name in ("state", "state/prod", "other", "other/prod")]
        assert [folder.stat().st_mode & 0o777 for folder in made] == [0o700] * 4
    finally:
        os.umask(before)


@pytest.mark.parametrize("brought", ["file", "link"])
def test_a_state_folder_that_an_edit_brings_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, brought: str
) -> None:
    """Its files would say which processes are signalled and which definitions run."""
    monkeypatch.delenv("RECONCILER_STATE", raising=False)
    origin = git.Repo.init(tmp_path / "origin")
    environment, state = tmp_path / "origin" / "environments" / "prod", tmp_path / "origin" / "environments/.reconciler"
    environment.mkdir(parents=True)
    assert state_folder(environment) == state / "prod", "our own .gitignore there is not tracked"
    if brought == "file":
        (state / "prod").mkdir()
        (state / "prod" / "place.json").write_text("{}")
    else:
        shutil.rmtree(state)
        state.symlink_to(tmp_path)
    origin.git.add("--all", "--force", "environments/.reconciler")
    with pytest.raises(ReconcilerError, match=r"git tracks environments/\.reconciler") as refused:
        state_folder(environment)
    assert "rm -r --cached environments/.reconciler" in refused.value.todo
    monkeypatch.setenv("RECONCILER_STATE", str(tmp_path / "elsewhere"))
    assert state_folder(environment) == tmp_path / "elsewhere" / "prod"
