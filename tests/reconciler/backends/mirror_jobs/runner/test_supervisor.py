"""The supervisor with small processes in place of spark-submit: no Spark, no Kafka."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.backends.mirror_jobs.runner.run_folder import SUPERVISOR, is_running
from reconciler.replication.kept_files import write_json
from tests.support.waiting import until

JOB = """
import json, os, sys, time, pathlib
run = pathlib.Path(sys.argv[1])
count = run / "count"
count.write_text(str(int(count.read_text() if count.exists() else 0) + 1))
(run / "driver.tmp").write_text(json.dumps({"pid": os.getpid()}))
(run / "driver.tmp").replace(run / "driver.json")  # whole as soon as it is there
code = sys.argv[2]
if code == "wait":
    while not (run / "stop").exists():
        time.sleep(0.02)
    (run / "committed").touch()
    sys.exit(0)
sys.exit(int(code))
"""


def start(run: Path, *words: str) -> subprocess.Popen[bytes]:
    write_json(run / "command.json", [sys.executable, *words])
    return subprocess.Popen([sys.executable, "-m", SUPERVISOR, str(run)])


def state(run: Path) -> dict[str, object]:
    try:
        return json.loads((run / "supervisor.json").read_text())
    except FileNotFoundError:
        return {}


@pytest.fixture
def job(tmp_path: Path) -> str:
    path = tmp_path / "job.py"
    path.write_text(JOB)
    return str(path)


def test_sigterm_lets_the_job_commit_before_it_leaves(tmp_path: Path, job: str) -> None:
    process = start(tmp_path, job, str(tmp_path), "wait")
    until((tmp_path / "driver.json").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert (tmp_path / "committed").exists()
    assert state(tmp_path)["state"] == "stopped"


@pytest.mark.slow
def test_a_job_killed_from_outside_is_started_again(tmp_path: Path, job: str) -> None:
    process = start(tmp_path, job, str(tmp_path), "wait")
    until((tmp_path / "driver.json").exists)
    os.kill(json.loads((tmp_path / "driver.json").read_text())["pid"], signal.SIGKILL)
    until(lambda: (tmp_path / "count").read_text() == "2")
    assert process.poll() is None
    assert state(tmp_path)["restarts"] == 1
    (tmp_path / "stop").touch()
    assert process.wait(60) == 0


def test_a_superseded_job_is_not_started_again(tmp_path: Path, job: str) -> None:
    assert start(tmp_path, job, str(tmp_path), "3").wait(60) == 3
    assert (tmp_path / "count").read_text() == "1"
    assert state(tmp_path)["state"] == "superseded"


def test_what_never_reaches_spark_is_given_up_with_its_output_kept(tmp_path: Path) -> None:
    assert start(tmp_path, "-c", "import sys; sys.exit('no such master')").wait(60) == 1
    assert state(tmp_path)["state"] == "failed"
    assert "no such master" in (tmp_path / "job.log").read_text()


def test_a_stranger_with_the_same_pid_is_not_the_job() -> None:
    assert is_running(os.getpid(), "python") or is_running(os.getpid(), "pytest")
    assert not is_running(os.getpid(), "mirror_job.py --handover /nowhere")
    assert not is_running(None, "python")
