"""``apply`` asks hosts on a control topic in memory: what it waits for, and what it says when nobody answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from reconciler.backends.mirror_jobs.host.ask import Asker, HostedMirror
from reconciler.backends.mirror_jobs.host.jobs import JobLook
from reconciler.errors import RunnerError
from reconciler.model.live import JobState, LiveMirror
from reconciler.model.state.mirror_control import LEASE_MS, PRESENCE, DesiredState, HostPresence, read_desired
from reconciler.replication.names import desired_key, presence_key
from tests.support.fakes.control import ENVIRONMENT, MIRROR, SUBMISSION, FakeHost, HostWorld, desired, document

BY = Asker("ann", "c0ffee")


@dataclass
class Asked:
    """An ``apply`` beside ``hosts``, which go on while it sleeps. ``at``: what happens after so many seconds."""

    world: HostWorld
    hosts: list[FakeHost]
    at: dict[int, Callable[[], object]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    slept: float = 0.0

    def mirror(self) -> HostedMirror:
        return HostedMirror(
            ENVIRONMENT, MIRROR, self.world.control, self.status, lambda: self.world.now, self.sleep, lambda: 1
        )

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.world.now += seconds
        if (act := self.at.pop(int(self.slept), None)) is not None:
            act()
        for host in self.hosts:
            host.step()

    def status(self) -> LiveMirror | None:
        for host in self.hosts:
            job = host.jobs.look_now
            if job.alive:
                return LiveMirror(MIRROR, JobState.RUNNING, job.application_id, job.fingerprint, host=host.name)
        return None

    def run(self, **changes: Any) -> LiveMirror:
        handover = json.dumps(desired(1, handover=document(**changes)).handover)
        return self.mirror().run(handover, SUBMISSION, BY, self.said.append)

    def written(self) -> int:
        found = read_desired(self.world.control.entries.get(desired_key(ENVIRONMENT, MIRROR)), ENVIRONMENT, MIRROR)
        assert found is not None
        return found.generation


@pytest.fixture
def asked() -> Asked:
    world = HostWorld()
    return Asked(world, [world.host("a")])


def test_it_returns_when_the_job_itself_runs_with_the_fingerprint(asked: Asked) -> None:
    live = asked.run()
    assert (live.state, live.fingerprint, live.host) == (JobState.RUNNING, desired(1).fingerprint, "a")
    assert asked.said[0].endswith(f"generation 1 is written, fingerprint {desired(1).fingerprint}")
    asked.run(lanes=2)
    assert asked.written() == 2
    assert asked.hosts[0].jobs.log == ["begin 1", "begin 2"]


def test_stop_returns_when_it_has_left_and_start_counts_on(asked: Asked) -> None:
    asked.run()
    asked.mirror().stop(BY, asked.said.append)
    assert not asked.mirror().is_kept()
    assert asked.status() is None
    asked.run()
    assert asked.written() == 3


def test_without_an_answer_it_fails_after_20_s_with_who_was_asked(asked: Asked) -> None:
    asked.hosts.clear()
    presence = HostPresence(ENVIRONMENT, "id", "rack7", 12, "0.1", 1, "masters yarn")
    asked.world.control.write(presence_key(ENVIRONMENT, "rack7"), PRESENCE.dumps(presence))
    with pytest.raises(RunnerError, match=r"no host took mirror west within 20 s[^$]*rack7, process 12") as error:
        asked.run()
    assert 20 <= asked.slept < 22
    assert "Generation 1 stays written" in str(error.value)
    late = asked.world.host("late")
    asked.world.run(3, late)
    assert late.jobs.log == ["begin 1"]


def test_a_host_that_may_not_announce_itself_is_reported_by_the_rights_it_lacks(asked: Asked) -> None:
    asked.hosts.clear()
    with pytest.raises(RunnerError, match="no host took mirror west within 20 s") as error:
        asked.run()
    assert "none, no host has announced itself" in str(error.value)
    assert "No job is started on this machine" in str(error.value)
    assert f"transactional ids that begin with mirror-host.{ENVIRONMENT}." in str(error.value)


def test_a_refusal_is_reported_within_seconds_with_its_reason(asked: Asked) -> None:
    asked.hosts[:] = [asked.world.host("strict", masters=("yarn",))]
    with pytest.raises(RunnerError, match=r"master 'local\[2\]' is not accepted \(host on strict\)"):
        asked.run()
    assert asked.slept < 3


def test_a_job_that_cannot_start_is_reported_with_its_cause(asked: Asked) -> None:
    asked.hosts[0].jobs.fails = "All masters are unresponsive"
    with pytest.raises(RunnerError, match=r"could not start on the host a[^$]*All masters are unresponsive"):
        asked.run()


def test_a_host_lost_in_the_middle_is_waited_for_until_the_standby_has_it(asked: Asked) -> None:
    first, standby = asked.hosts[0], asked.world.host("b")
    first.jobs.hangs = True
    asked.hosts.append(standby)
    asked.at[4] = lambda: asked.hosts.remove(first)
    assert asked.run().host == "b"
    assert asked.slept < LEASE_MS / 1000 + 10


def test_the_target_silent_for_a_while_is_no_missing_host(asked: Asked) -> None:
    host, control = asked.hosts[0], asked.world.control
    host.jobs.hangs = True

    def silent() -> None:
        asked.hosts.clear()
        control.silent = True

    def again() -> None:
        host.jobs.hangs, host.jobs.look_now = False, JobLook()
        asked.hosts.append(host)
        control.silent = False

    asked.at |= {4: silent, 60: again}
    asked.world.ask(desired(1, DesiredState.STOPPED))
    with pytest.raises(RunnerError, match="could not start"):  # what was begun is gone, and that is told
        asked.run()
    assert asked.slept >= 60
    assert any("does not answer" in line for line in asked.said)


def test_what_is_desired_is_no_news_of_what_runs(asked: Asked) -> None:
    """``apply`` was killed between desired and done: the next plan sees what runs, and what is asked of whom."""
    asked.world.ask(desired(1))
    seen = asked.mirror().observe()
    assert (seen.state, seen.fingerprint, seen.detail) == (JobState.ABSENT, None, "no host has it")
    asked.sleep(1)
    asked.sleep(1)
    seen = asked.mirror().observe()
    assert (seen.state, seen.fingerprint) == (JobState.RUNNING, desired(1).fingerprint)
    assert seen.detail == "kept by the host on a (running generation 1)"


def test_two_applies_at_once_cannot_both_write(asked: Asked) -> None:
    mirror, control = asked.mirror(), asked.world.control
    read = control.read

    def read_before_the_other_wrote() -> Any:
        entries = read()
        asked.world.ask(replace(desired(asked.written() + 1 if entries else 1), who="bob"))
        return entries

    control.read = read_before_the_other_wrote  # type: ignore[method-assign]
    with pytest.raises(RunnerError, match="changed by another writer meanwhile"):
        mirror.run(json.dumps(desired(1).handover), SUBMISSION, BY, asked.said.append)


def test_a_record_of_a_later_release_is_not_written_over(asked: Asked) -> None:
    asked.world.ask(desired(1))
    key = desired_key(ENVIRONMENT, MIRROR)
    later = asked.world.control.entries[key].replace(b'"oldest_reader":1', b'"oldest_reader":9')
    asked.world.control.write(key, later)
    with pytest.raises(RunnerError, match="for readers from 9 on"):
        asked.run()
    assert asked.world.control.entries[key] == later


def test_garbage_is_written_over(asked: Asked) -> None:
    asked.world.control.write(desired_key(ENVIRONMENT, MIRROR), b"\x00garbage")
    assert asked.run().state is JobState.RUNNING


def test_without_the_topic_it_says_what_makes_it(asked: Asked) -> None:
    asked.world.control.missing = True
    asked.hosts.clear()
    with pytest.raises(RunnerError, match="its cluster has no control topic"):
        asked.run()
