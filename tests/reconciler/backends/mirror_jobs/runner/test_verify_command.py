"""What verify is submitted with: the mirror's settings, its own over them, none of another kind of master."""

from __future__ import annotations

import itertools
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from reconciler_mirror.jobs.application import waited_for

from reconciler.backends.mirror_jobs.runner import foreground_job
from reconciler.backends.mirror_jobs.runner.command_line import python_path
from reconciler.backends.mirror_jobs.runner.foreground_job import ForegroundRun, _command, run_in_foreground
from reconciler.backends.mirror_jobs.runner.run_folder import is_running
from reconciler.errors import RunnerError
from reconciler.model.environment.topology import Mirror
from reconciler.replication.handover import Deployment, ExecutorPython
from tests.support.waiting import until

MIRROR = Mirror(
    "m",
    ("f",),
    master="spark://h:7077",
    deployment=Deployment(memory="2g", python=ExecutorPython("/p.tar.gz")),
    spark_conf={"spark.a": "1", "spark.b": "1", "spark.executor.memoryOverhead": "1g"},
    verify_conf={"spark.b": "2"},
)


def conf(mirror: Mirror, master: str | None) -> dict[str, str]:
    words = _command(ForegroundRun(mirror, Path("/s"), "{}", {}, master), Path("/f"))
    return dict(word.split("=", 1) for flag, word in itertools.pairwise(words) if flag == "--conf")


def test_verify_has_the_settings_of_its_mirror_and_its_own_over_them() -> None:
    given = conf(MIRROR, None)
    assert (given["spark.a"], given["spark.b"], given["spark.executor.memory"]) == ("1", "2", "2g")
    assert given["spark.archives"] == "/p.tar.gz#environment"
    assert given["spark.cores.max"] == "2", "parallelism: both fit"


def test_a_local_master_gets_nothing_that_only_a_cluster_has() -> None:
    given = conf(MIRROR, "local[1]")
    assert (given["spark.a"], given["spark.b"]) == ("1", "2")
    assert not any(
        key.startswith(("spark.executor.", "spark.pyspark.", "spark.archives", "spark.cores")) for key in given
    )


def test_python_is_first_and_starts_spark_with_what_spark_submit_would_be_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the comparison would wait for a JVM that it does not need to begin."""
    for name in ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.setenv(name, "")
    words = _command(ForegroundRun(replace(MIRROR, master="local[2]"), Path("/s"), "{}", {}), tmp_path)
    assert words[0] == sys.executable
    assert words[1].endswith("jobs/verify_job.py")
    options = words[words.index("--") + 1 :]
    assert options[:2] == ["--master", "local[2]"]
    assert options[-2:] == ["--py-files", str(tmp_path / "bundle.zip")]
    given = waited_for("verify_job.py", "", "", [*words[2 : words.index("--caller")], *words[words.index("--") :]])
    assert given.request == tmp_path / "request.json"
    assert shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"]) == [*options, "pyspark-shell"]
    monkeypatch.setenv("PYSPARK_PYTHON", "/executors/python")
    assert _command(ForegroundRun(MIRROR, Path("/s"), "{}", {}), tmp_path)[0] == sys.executable, (
        "executors have another"
    )


def test_spark_home_brings_its_own_pyspark(tmp_path: Path) -> None:
    library = tmp_path / "python" / "lib"
    library.mkdir(parents=True)
    for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip", "PY4J_LICENSE.txt"):
        (library / name).write_text("")
    path = python_path({"SPARK_HOME": str(tmp_path), "PYTHONPATH": "/mine"})["PYTHONPATH"]
    assert path.split(":") == [str(library / "py4j-0.10.9.9-src.zip"), str(library / "pyspark.zip"), "/mine"]
    assert python_path({"PYTHONPATH": "/mine"}) == {}


def test_the_jvm_of_a_job_that_has_died_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the job's process group, and its output is not waited for."""
    said = "sleep 600 >/dev/null 2>&1 & echo verify: $!; exit 1"
    monkeypatch.setattr(foreground_job, "_command", lambda *_: ["sh", "-c", said])
    progress = list[str]()
    with pytest.raises(RunnerError):
        run_in_foreground(ForegroundRun(Mirror("m", ("f",)), tmp_path, "{}", {}), progress.append, progress.append)
    jvm = int(progress[-1].rpartition(" ")[2])
    until(lambda: not is_running(jvm, "sleep"))


CANCELLED = """
import pathlib, sys
from types import SimpleNamespace
from reconciler.backends.mirror_jobs.runner import foreground_job
from reconciler.model.environment.topology import Mirror
from reconciler.operations.mirror import foreground

run = foreground_job.ForegroundRun(Mirror("m", ("f",)), pathlib.Path(sys.argv[1]), "{}", {})
said = lambda text: print(text, flush=True)
foreground_job._command = lambda *_: ["sh", "-c", "sleep 600 & echo verify: $$ $!; wait"]
foreground.handovers = lambda _: {"m": "{}"}
foreground.unlisted = foreground.request_fields = lambda *_: {}
foreground.run_in_foreground = lambda *_: foreground_job.run_in_foreground(run, said, said)
topology = SimpleNamespace(environment="e", mirrors={"m": run.mirror}, flows_of=lambda _: ())
session = SimpleNamespace(topology=topology, folder=run.state, state=run.state, whole=None)
request = SimpleNamespace(flow=None, master=None)
foreground.prove(session, request, ["m"], print)
"""


def test_a_verify_that_is_terminated_takes_its_application_along(tmp_path: Path) -> None:
    """A CI job that runs out of time ends so."""
    command = [sys.executable, "-c", CANCELLED, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    pids = [int(word) for line in itertools.islice(process.stdout, 2) for word in line.split() if word.isdigit()]
    assert len(pids) == 2
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) != 0
    until(lambda: not any(is_running(pid, "sleep") or is_running(pid, "sh") for pid in pids))
    assert not list(tmp_path.glob("m/verify-*")), "its folder goes, too"


def test_a_warning_is_no_progress_which_the_next_line_replaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "printf 'verify: 1 of 2\\nverify: warning: it cannot be kept\\nverify: 2 of 2\\n'; exit 1"
    monkeypatch.setattr(foreground_job, "_command", lambda *_: ["sh", "-c", said])
    progress, warnings = list[str](), list[str]()
    run = ForegroundRun(Mirror("m", ("f",)), tmp_path, "{}", {})
    with pytest.raises(RunnerError):
        run_in_foreground(run, progress.append, warnings.append)
    assert progress == ["mirror m: Spark is starting", "mirror m: 1 of 2", "mirror m: 2 of 2"]
    assert warnings == ["mirror m: warning: it cannot be kept"]


LEFT_ALONE = """
import pathlib, subprocess, sys, time
from reconciler.backends.mirror_jobs.runner.foreground_job import ForegroundRun, _command
from reconciler.model.environment.topology import Mirror

folder = pathlib.Path(sys.argv[1])
words = _command(ForegroundRun(Mirror("m", ("f",)), folder, "{}", {}), folder)
job = "import sys, time; from reconciler_mirror.jobs import verify_job; verify_job.parse = lambda _: time.sleep(600); "
job += "verify_job.main(sys.argv[1:])"
arguments = words[next(at for at, word in enumerate(words) if word.endswith("verify_job.py")) + 1 :]
print(subprocess.Popen([sys.executable, "-c", job, *arguments]).pid, flush=True)
time.sleep(600)
"""


def test_a_verify_that_is_killed_is_missed_by_its_job(tmp_path: Path) -> None:
    folder = tmp_path / "verify-1"
    folder.mkdir()
    (folder / "handover.json").write_text("{}", encoding="utf-8")
    command = [sys.executable, "-c", LEFT_ALONE, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    time.sleep(2.5)
    assert is_running(pid, str(folder)), "while the command is there, so is its job"
    process.kill()
    process.wait(20)
    until(lambda: not is_running(pid, str(folder)))
    assert not folder.exists()
