"""Where a mirror runs: with hosts where it is declared so or one keeps it, else on the machine that runs apply."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.backends.mirror_jobs.host import ask
from reconciler.backends.mirror_jobs.runner.run_folder import RunFolder
from reconciler.backends.mirror_jobs.runner.spark_submit import SparkRunner
from reconciler.errors import RunnerError
from reconciler.model.environment.topology import Principal
from reconciler.model.live import JobState, LiveMirror
from reconciler.model.state.mirror_control import DESIRED, DesiredState
from reconciler.operations.session import mirror_runners
from reconciler.operations.session.mirror_runners import MirrorRunners
from reconciler.replication.names import desired_key
from tests.support.builders import flow, topology
from tests.support.fakes.control import MIRROR, FakeControl, desired

Make = Callable[..., MirrorRunners]


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> FakeControl:
    """On which no host answers; that is known at once."""
    made = FakeControl()
    monkeypatch.setattr(mirror_runners, "ControlTopic", lambda *_: made)
    monkeypatch.setattr(ask, "TAKEN_S", 0.0)
    return made


@pytest.fixture
def runners(control: FakeControl, tmp_path: Path) -> Make:
    def make(*, hosted: bool, master: str = "local[2]") -> MirrorRunners:
        declared = topology(flow("east", "west", "orders"))
        mirror = replace(declared.mirrors[MIRROR], hosted=hosted, master=master)
        declared = replace(declared, environment="test", mirrors={MIRROR: mirror})
        here = SparkRunner(tmp_path, declared.mirrors, lambda _: None)
        return MirrorRunners(tmp_path, declared, Principal.APPLY, here, lambda: None)

    return make


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
@pytest.mark.parametrize("how", ["start", "restart"])
def test_a_hosted_mirror_is_never_started_on_this_machine(
    runners: Make, master: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkRunner, how, lambda *_: pytest.fail("a job was started here"))
    with pytest.raises(RunnerError, match="no host took mirror west"):
        getattr(runners(hosted=True, master=master), how)(MIRROR, json.dumps(desired(1).handover), lambda _: None)


def test_a_job_on_this_machine_is_asked_for_without_a_host(
    runners: Make, control: FakeControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment whose control topic does not answer is not held up by it."""
    control.silent = True
    runs = LiveMirror(MIRROR, JobState.RUNNING, "app-1")
    for name in ("start", "restart", "observe"):
        monkeypatch.setattr(SparkRunner, name, lambda *_: runs)
    runner = runners(hosted=False)
    assert runner.start(MIRROR, "{}", lambda _: None) == runner.restart(MIRROR, "{}", lambda _: None) == runs


def test_one_that_was_hosted_before_is_stopped_where_a_host_keeps_it(
    runners: Make, control: FakeControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``hosted`` was taken away before ``mirror stop``. A job of this machine goes before."""
    stopped: list[str] = []
    monkeypatch.setattr(SparkRunner, "stop", lambda *_: stopped.append("here"))
    control.write(desired_key("test", MIRROR), DESIRED.dumps(desired(1)))
    with pytest.raises(RunnerError, match="no host took mirror west"):
        runners(hosted=False).stop(MIRROR, lambda _: None)
    monkeypatch.setattr(RunFolder, "supervisor_pid", lambda _: 4711)
    runners(hosted=False).stop(MIRROR, lambda _: None)
    monkeypatch.undo()
    assert stopped == ["here"]
    assert b'"state":"stopped"' in control.entries[desired_key("test", MIRROR)]


def test_what_hosts_keep_cannot_end_by_itself(runners: Make, control: FakeControl) -> None:
    assert runners(hosted=False).on_this_machine([MIRROR]).mirrors[MIRROR].name == MIRROR
    control.write(desired_key("test", MIRROR), DESIRED.dumps(desired(1)))
    for hosted in (True, False):
        with pytest.raises(RunnerError, match="cannot run it until it has caught up"):
            runners(hosted=hosted).on_this_machine([MIRROR])
    control.write(desired_key("test", MIRROR), DESIRED.dumps(desired(2, DesiredState.STOPPED)))
    assert runners(hosted=False).on_this_machine([MIRROR])


def test_the_definition_before_is_that_of_a_host_else_of_the_run_folder(
    runners: Make, control: FakeControl, tmp_path: Path
) -> None:
    (tmp_path / MIRROR).mkdir()
    (tmp_path / MIRROR / "handover.json").write_text('{"fingerprint": "here"}')
    here, hosted = runners(hosted=False), runners(hosted=True)
    mirror = hosted.here.mirrors[MIRROR]
    assert here.handover_before(here.here.mirrors[MIRROR]) == hosted.handover_before(mirror) == {"fingerprint": "here"}
    control.write(desired_key("test", MIRROR), DESIRED.dumps(desired(1)))
    assert hosted.handover_before(mirror) == desired(1).handover
    control.silent = True
    assert hosted.handover_before(mirror) == {"fingerprint": "here"}
