"""A start is waited for while something moves, in words, and ends with the reason that the job itself gave."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from reconciler.backends.mirror_jobs.runner import replace as replacing
from reconciler.backends.mirror_jobs.runner.replace import NotRunningError, StartedAs, await_running
from reconciler.backends.mirror_jobs.runner.run_folder import RunFolder
from reconciler.errors import ClusterError, RunnerError
from reconciler.model.live import JobState, LiveMirror
from reconciler.replication.status import FlowStatus, ReportedCondition

EXPECTED = StartedAs("f" * 16, 1_000)
STOPS = ReportedCondition(
    code="target_unreachable",
    text="orders is not copied yet: no answer",
    todo="Check it.",
    since_ms=1,
    stops=True,
)
STARTING = LiveMirror("west", JobState.STARTING, "app-2", "f" * 16, started_at_ms=2_000)
BEFORE = replace(STARTING, state=JobState.RUNNING, started_at_ms=500)


class Source:
    """Answers in turn, the last one for ever; ``look`` moves the clock."""

    def __init__(self, *answers: LiveMirror | ClusterError | None, look: Callable[[], None] = lambda: None) -> None:
        self.answers = list(answers)
        self.look = look

    def status(self, _mirror: str) -> LiveMirror | None:
        self.look()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, ClusterError):
            raise answer
        return answer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    monkeypatch.setattr(replacing, "_POLL_S", 0.0)
    (tmp_path / "driver.json").write_text("{}")
    write(tmp_path, "driver.json", pid=1)
    write(tmp_path, "supervisor.json", state="running")
    return RunFolder(tmp_path)


def write(path: Path, name: str, **values: object) -> None:
    (path / name).write_text(json.dumps(values))


def test_it_says_what_is_waited_for_until_the_new_application_runs(folder: RunFolder) -> None:
    flow = FlowStatus("orders", "f" * 16, "starting", conditions=(STOPS,))
    told = replace(STARTING, flows=MappingProxyType({"orders": flow}))
    silent = ClusterError("west", "unreachable", "cluster west does not answer")
    runs = replace(STARTING, state=JobState.RUNNING)
    said: list[str] = []
    source = Source(silent, None, BEFORE, STARTING, told, runs)
    assert await_running(source.status, "west", folder, EXPECTED, said.append) == runs
    assert said == [
        "mirror west: Spark is up; its status cannot be read: cluster west does not answer",
        "mirror west: Spark is up; it has written no status record yet",
        "mirror west: Spark is up; lanes are being taken",
        "mirror west: Spark is up; lanes are being taken; orders: orders is not copied yet: no answer",
    ]


def test_progress_is_waited_for_longer_than_a_standstill(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine each step may take long."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def later() -> None:
        now[0] += replacing.STALLED_S * 0.9

    runs = replace(STARTING, state=JobState.RUNNING)
    assert (
        await_running(Source(None, STARTING, None, runs, look=later).status, "west", folder, EXPECTED, lambda _: None)
        == runs
    )
    assert now[0] > 3 * replacing.STALLED_S
    (folder.path / "job.log").write_text("the last line")
    with pytest.raises(NotRunningError) as stalled:
        await_running(Source(STARTING, look=later).status, "west", folder, EXPECTED, lambda _: None)
    assert "lanes are being taken" in stalled.value.why
    assert "the last line" in stalled.value.why
    assert not stalled.value.ended


def test_an_end_is_reported_with_what_the_job_said(folder: RunFolder) -> None:
    (folder.path / "job.log").write_text("noise\nThe mirror job cannot run: Spark has no free core.\nmore noise\n")
    write(folder.path, "supervisor.json", state="failed")
    with pytest.raises(NotRunningError) as ended:
        await_running(Source(None).status, "west", folder, EXPECTED, lambda _: None)
    assert (ended.value.why, ended.value.ended) == ("It said: Spark has no free core.", True)
    (folder.path / "job.log").write_text("only noise")
    assert replacing.why_ended(folder) == "Its log ends with:\nonly noise"


class Beside:
    """A runner whose new application stands in ``second`` and says what the test lets it say."""

    def __init__(self, home: Path) -> None:
        self.home = RunFolder(home)
        self.second = RunFolder(home / "second")
        self.ended: list[RunFolder] = []

    def status(self, _mirror: str) -> LiveMirror | None:
        return replace(BEFORE, application_id="app-1")

    def folder(self, _mirror: str) -> RunFolder:
        return self.home

    def other_folder(self, _mirror: str) -> RunFolder:
        return self.second

    def launch(self, *_: object) -> int:
        self.second.path.mkdir()
        write(
            self.second.path, "driver.json", pid=1, phase="not ready yet: flow orders: lane 1: Spark has no free core"
        )
        write(self.second.path, "supervisor.json", state="failed")
        (self.second.path / "job.log").write_text("The mirror job cannot run: flow orders: lane 1: no free core\n")
        return 0

    def end(self, folder: RunFolder, _reported: int | None = None) -> bool:
        self.ended.append(folder)
        return True

    def await_gone(self, *_: object) -> bool:
        return True


def test_a_new_application_that_was_not_ready_ends_with_its_reason(tmp_path: Path) -> None:
    text = json.dumps({"fingerprint": "f" * 16, "flows": []})
    with pytest.raises(RunnerError) as refused:
        replacing.replace(Beside(tmp_path), "west", text, lambda _: None)
    assert refused.value.why == (
        "app-1 keeps copying with the definition it had. It said: flow orders: lane 1: no free core"
    )
    assert "reconciler mirror stop ENV FLOW, then apply" in refused.value.todo
