"""Spark that cannot start: said in words before anything is changed, or with the end of its own log."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.mirror_jobs.runner import replace as replacing
from reconciler.backends.mirror_jobs.runner.spark_submit import SparkRunner
from reconciler.errors import ClusterError, RunnerError
from reconciler.model.environment.topology import Mirror
from reconciler.model.live import JobState, LiveMirror
from tests.support.commands import Ended, Write, two_clusters


def runner(folder: Path, master: str = "local[1]") -> SparkRunner:
    return SparkRunner(folder, {"west": Mirror("west", ("f",), master=master)}, lambda _: None)


def test_without_java_the_package_to_install_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert shutil.which("java") is None
    with pytest.raises(RunnerError, match="openjdk-17"):
        runner(tmp_path).start("west", "{}", lambda _: None)
    assert not (tmp_path / "west").exists()


def test_a_spark_home_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(RunnerError, match="SPARK_HOME"):
        runner(tmp_path).start("west", "{}", lambda _: None)


@pytest.mark.parametrize("master", ["local[2", "mesos://host:5050", "http://host:7077", ""])
def test_a_word_that_is_no_master_is_refused_before_spark_is_asked(tmp_path: Path, master: str) -> None:
    with pytest.raises(RunnerError, match="no master URL"):
        runner(tmp_path, master).start("west", "{}", lambda _: None)


def test_a_job_that_ends_at_once_gives_the_end_of_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text("#!/bin/sh\necho 'Could not connect to the cluster manager' >&2\nexit 1\n")
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(RunnerError) as caught:
        runner(tmp_path).start("west", json.dumps({"fingerprint": "0" * 16}), lambda _: None)
    assert "Could not connect to the cluster manager" in str(caught.value)
    assert "job.log" in str(caught.value)


RUNS = LiveMirror("west", JobState.RUNNING, "app-1", pid=1, host="rack7")


@pytest.mark.parametrize(
    ("reported", "way"),
    [
        (RUNS, "beside it"),
        (replace(RUNS, late_ms=12_000), "at once"),
        (replace(RUNS, state=JobState.STALE), "at once"),
        (replace(RUNS, run="run-1"), "at once"),
        (None, "at once"),
        (ClusterError("west", "timeout", "west does not answer", "", ""), "at once"),
    ],
    ids=["copies", "its machine was lost", "stale", "a driver on the cluster is followed", "never ran", "not known"],
)
def test_a_host_takes_over_from_an_application_that_copies_on_another_machine(
    reported: LiveMirror | ClusterError | None, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was fenced at once, and nothing was copied until the new one had its tasks: 13 s on a busy machine."""
    ways: list[str] = []

    def taken(name: str) -> Callable[..., LiveMirror]:
        return lambda *_: ways.append(name) or RUNS  # type: ignore[func-returns-value]

    monkeypatch.setattr(replacing, "replace", taken("beside it"))
    monkeypatch.setattr(SparkRunner, "start", taken("at once"))
    mirrors = {"west": Mirror("west", ("f",), master="local[1]")}

    def status(_: str) -> LiveMirror | None:
        if isinstance(reported, ClusterError):
            raise reported
        return reported

    SparkRunner(tmp_path, mirrors, status, for_host=True).restart("west", "{}", lambda _: None)
    assert ways == [way]
    if way == "beside it":
        with pytest.raises(RunnerError, match="was started somewhere else"):
            SparkRunner(tmp_path, mirrors, status).restart("west", "{}", lambda _: None)


def test_apply_changes_no_topic_when_the_mirror_could_not_start(
    cli: Callable[..., Ended],
    write: Write,
    plain: Sandbox,
    unique: str,
) -> None:
    text = two_clusters(plain) + (
        f"topics:\n  {unique}: {{clusters: [east], partitions: 1, replication_factor: 1}}\n"
        f"flows:\n  f{unique}: {{source: east, target: west, topics: [{unique}], replication_factor: 1}}\n"
        "mirrors:\n  west: {master: 'mesos://host:5050'}\n"
    )
    ended = cli("apply", write(text, unique), "--yes")
    assert ended.code == 1
    assert "mesos://host:5050" in ended.words
    for cluster in plain.clusters.values():
        topics = AdminClient(cluster.client()).list_topics(timeout=30).topics
        assert not [name for name in topics if unique in name]
