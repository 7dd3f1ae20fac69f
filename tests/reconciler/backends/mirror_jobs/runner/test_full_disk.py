"""A full disk costs words, never a lock, a supervisor or a traceback."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Never

import pytest

from reconciler.backends.mirror_jobs.runner import supervisor
from reconciler.backends.mirror_jobs.runner.foreground_job import ForegroundRun, run_in_foreground
from reconciler.backends.mirror_jobs.runner.spark_submit import SparkRunner
from reconciler.backends.mirror_jobs.runner.supervisor import Supervisor
from reconciler.backends.state.lock import environment_lock
from reconciler.errors import LockHeld, RunnerError
from reconciler.model.environment.topology import Mirror
from reconciler.replication.kept_files import write_json

HANDOVER = '{"fingerprint": "00000000000000aa"}'


def full(*_: object, **__: object) -> Never:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_the_lock_holds_though_it_cannot_say_whose_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.backends.state.lock.os.write", full)
    with (
        environment_lock(tmp_path / "e", "apply"),
        pytest.raises(LockHeld, match="another process"),
        environment_lock(tmp_path / "e", "run"),
    ):
        pass


def test_a_job_that_crashes_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(tmp_path / "command.json", ["true"])
    monkeypatch.setattr("reconciler.backends.mirror_jobs.runner.supervisor.write_json", full)
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_S", 0.01)
    codes = iter((1, 1, 0))
    watched = Supervisor(tmp_path)

    def run_once(_: list[str], __: object) -> int:
        (tmp_path / "driver.json").touch()
        return next(codes)

    monkeypatch.setattr(watched, "run_once", run_once)
    assert watched.run() == 0
    assert watched.now.restarts == 2


def test_a_long_log_is_cut_though_it_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "copyfile", full)
    monkeypatch.setattr(supervisor, "LOG_LIMIT_BYTES", 10)
    log = tmp_path / "job.log"
    log.write_bytes(b"x" * 100)
    supervisor._rotate(log)
    assert log.read_bytes() == b""
    assert not (tmp_path / "job.log.1").exists()


def test_a_mirror_that_cannot_be_started_for_want_of_space_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.backends.mirror_jobs.runner.command_line.bundle", full)
    runner = SparkRunner(tmp_path, {"west": Mirror("west", ("f",), master="local[1]")}, lambda _: None)
    with pytest.raises(RunnerError, match="No space left on device") as told:
        runner.start("west", HANDOVER, lambda _: None)
    assert str(tmp_path / "west") in str(told.value)


@pytest.mark.parametrize("fails", ["tempfile.mkdtemp", "command_line.bundle"])
def test_a_comparison_that_cannot_be_started_for_want_of_space_says_so_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    monkeypatch.setattr(f"reconciler.backends.mirror_jobs.runner.foreground_job.{fails}", full)
    run = ForegroundRun(Mirror("west", ("f",), master="local[1]"), tmp_path, HANDOVER, {})
    with pytest.raises(RunnerError, match=r"nothing was verified.*No space left on device"):
        run_in_foreground(run, print, print)
    assert list((tmp_path / "west").iterdir()) == []
