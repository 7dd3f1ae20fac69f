"""What hosts of a mirror do, on a control topic in memory and a clock that only the test moves."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from reconciler.backends.mirror_jobs.host.jobs import JobLook
from reconciler.errors import ClusterError
from reconciler.model.state.mirror_control import DESIRED, LEASE_MS, DesiredState, HostPhase
from reconciler.replication.names import desired_key, host_key
from tests.support.fakes.control import ENVIRONMENT, MIRROR, HostWorld, desired, document

LEASE_S = LEASE_MS / 1000


@pytest.fixture
def world() -> HostWorld:
    return HostWorld()


def test_a_host_takes_what_is_desired_and_says_that_it_runs(world: HostWorld) -> None:
    host = world.host("a")
    host.step()
    assert not host.has_it, "nothing is desired"
    world.ask(desired(1))
    world.run(3, host)
    report = world.lease().report
    assert (report.generation, report.phase, report.fingerprint) == (1, HostPhase.RUNNING, desired(1).fingerprint)
    assert host.jobs.log == ["begin 1"]


def test_a_generation_with_the_same_definition_restarts_nothing_and_another_one_does_once(world: HostWorld) -> None:
    host = world.host("a")
    world.ask(desired(1))
    world.run(2, host)
    world.ask(desired(2))
    world.run(5, host)
    assert (world.lease().report.generation, host.jobs.log) == (2, ["begin 1"])
    world.ask(desired(3, handover=document(lanes=2)))
    world.run(5, host)
    assert host.jobs.log == ["begin 1", "begin 3"]


def test_a_stop_ends_it_and_a_crash_after_that_starts_nothing(world: HostWorld) -> None:
    host = world.host("a")
    world.ask(desired(1))
    world.run(2, host)
    world.ask(desired(2, DesiredState.STOPPED))
    world.run(90, host)
    assert host.jobs.log == ["begin 1", "end"]
    assert world.lease().report.phase is HostPhase.STOPPED


def test_a_crash_is_started_again_with_a_pause_that_grows(world: HostWorld) -> None:
    host = world.host("a")
    world.ask(desired(1))
    world.run(2, host)
    pauses = []
    for _ in range(7):
        host.jobs.crash()
        began, starts = world.now, len(host.jobs.log)
        while len(host.jobs.log) == starts:
            world.run(1, host)
        pauses.append(world.now - began)
    assert pauses == sorted(pauses)
    assert pauses[0] <= 3
    assert 55 <= pauses[-1] <= 62
    assert world.lease().report.restarts == 7


def test_a_start_that_fails_is_reported_and_tried_again(world: HostWorld) -> None:
    host = world.host("a")
    host.jobs.fails = "All masters are unresponsive"
    world.ask(desired(1))
    world.run(3, host)
    report = world.lease().report
    assert (report.phase, report.restarts, report.what) == (HostPhase.PAUSING, 1, "All masters are unresponsive")
    host.jobs.fails = ""
    world.run(10, host)
    assert world.lease().report.phase is HostPhase.RUNNING


def test_the_standby_takes_over_when_the_lease_of_a_killed_host_ends_and_not_before(world: HostWorld) -> None:
    first, standby = world.host("a"), world.host("b")
    world.ask(desired(1))
    world.run(20, first, standby)
    assert first.has_it
    assert not standby.has_it
    world.run(LEASE_S - 6, standby)
    assert not standby.has_it
    world.run(7, standby)
    assert standby.has_it
    assert standby.jobs.log == ["begin 1"]
    assert world.lease().epoch == 2


def test_a_host_that_was_frozen_for_minutes_gives_up_and_ends_its_application(world: HostWorld) -> None:
    frozen, other = world.host("a"), world.host("b")
    world.ask(desired(1))
    world.run(5, frozen, other)
    world.run(300, other)
    assert other.has_it
    frozen.step()
    assert not frozen.has_it
    assert frozen.jobs.log == ["begin 1", "end"]
    world.run(60, frozen, other)
    assert world.lease().machine == "b"
    assert other.jobs.log == ["begin 1"]


def test_a_host_that_ends_hands_over_at_once_and_its_application_continues_meanwhile(world: HostWorld) -> None:
    leaving, other = world.host("a"), world.host("b")
    world.ask(desired(1))
    world.run(5, leaving, other)
    leaving.keeper.leave()
    assert leaving.jobs.log == ["begin 1"]
    assert world.lease().report.phase is HostPhase.LEAVING
    world.run(1, other)
    assert other.has_it
    assert other.jobs.log == ["begin 1"]
    assert leaving.keeper.taken_by_other(world.control)


def test_a_host_that_starts_again_finds_its_application_and_does_not_restart_it(world: HostWorld) -> None:
    before = world.host("a")
    world.ask(desired(1))
    world.run(3, before)
    again = world.host("a2")
    again.jobs.look_now = before.jobs.look_now
    world.run(LEASE_S + 3, again)
    assert again.has_it
    assert again.jobs.log == []
    assert world.lease().report.phase is HostPhase.RUNNING


def test_the_control_topic_deleted_and_made_again_leaves_the_job_alone(world: HostWorld) -> None:
    host = world.host("a")
    world.ask(desired(7))
    world.run(3, host)
    world.control.entries.clear()
    world.run(30, host)
    assert host.jobs.log == ["begin 7"]
    assert world.lease().machine == "a"
    world.ask(desired(8))
    world.run(3, host)
    assert (world.lease().report.generation, host.jobs.log) == (8, ["begin 7"])


@pytest.mark.parametrize("value", [b"", b"\xff\xfe", b"[]", b'{"format_version": 1}', b'{"format_version": "1"}'])
def test_garbage_in_the_desired_record_is_refused_by_name_and_what_runs_continues(
    world: HostWorld, value: bytes
) -> None:
    host = world.host("a")
    world.ask(desired(1))
    world.run(3, host)
    world.control.write(desired_key(ENVIRONMENT, MIRROR), value)
    world.run(3, host)
    report = world.lease().report
    assert report.phase is HostPhase.REFUSED
    assert "desired record" in report.what
    assert host.jobs.log == ["begin 1"]
    assert host.jobs.look_now.alive
    world.ask(desired(2))
    world.run(3, host)
    assert world.lease().report.phase is HostPhase.RUNNING


@pytest.mark.parametrize("value", [None, b"", b"garbage"])
def test_garbage_in_its_own_record_is_written_over(world: HostWorld, value: bytes | None) -> None:
    host = world.host("a")
    world.ask(desired(1))
    world.run(3, host)
    world.control.write(host_key(ENVIRONMENT, MIRROR), value)
    world.run(8, host)
    assert world.lease().machine == "a"
    assert host.jobs.log == ["begin 1"]


def test_an_older_generation_written_back_is_refused_by_name(world: HostWorld) -> None:
    host = world.host("a")
    world.ask(desired(1))
    world.run(2, host)
    world.ask(desired(2, handover=document(lanes=2)))
    world.run(3, host)
    world.ask(desired(1))
    world.run(3, host)
    report = world.lease().report
    assert report.phase is HostPhase.REFUSED
    assert "older than generation 2" in report.what
    assert host.jobs.log == ["begin 1", "begin 2"]
    successor = world.host("b")
    world.run(LEASE_S + 2, successor)
    assert successor.jobs.log == [], "another host refuses it, too"


def test_a_record_of_another_environment_is_refused_by_name(world: HostWorld) -> None:
    host = world.host("a")
    world.ask(replace(desired(1), environment="prod"))
    world.run(2, host)
    assert "environment 'prod'" in world.lease().report.what
    assert host.jobs.log == []


def test_a_record_of_a_later_format_is_refused_and_one_that_still_reads_is_taken(world: HostWorld) -> None:
    host, key = world.host("a"), desired_key(ENVIRONMENT, MIRROR)
    world.ask(desired(1))
    text = world.control.entries[key].decode()
    later = text.replace('"format_version":1,"generation"', '"format_version":2,"generation"')
    world.control.write(key, later.replace('"who"', '"priority":3,"who"').encode())
    world.run(2, host)
    assert world.lease().report.phase is HostPhase.RUNNING, "its fields that are new are left aside"
    world.control.write(key, later.replace('"oldest_reader":1', '"oldest_reader":2').encode())
    world.run(2, host)
    assert "format version 2, for readers from 2 on" in world.lease().report.what


def test_what_one_host_refuses_another_one_takes_that_accepts_it(world: HostWorld) -> None:
    strict, open_one = world.host("a", masters=("spark://never",)), world.host("b")
    world.ask(desired(1))
    world.run(2, strict)
    assert world.lease().report.phase is HostPhase.REFUSED
    world.run(2, strict, open_one)
    assert open_one.has_it
    assert world.lease().report.phase is HostPhase.RUNNING
    world.run(60, strict, open_one)
    assert world.lease().machine == "b"
    assert strict.jobs.log in ([], ["end"])


def test_a_host_that_cannot_reach_the_target_leaves_its_application_alone_and_continues_after(world: HostWorld) -> None:
    host = world.host("a")
    world.ask(desired(1))
    world.run(3, host)
    world.control.silent = True
    for _ in range(120):
        world.now += 1
        with pytest.raises(ClusterError):
            host.step()
    world.control.silent = False
    world.run(3, host)
    assert host.jobs.log == ["begin 1"]
    assert world.lease().machine == "a"


def test_two_hosts_that_ask_at_the_same_moment_do_not_both_have_it(world: HostWorld) -> None:
    hosts = [world.host("a"), world.host("b")]
    world.ask(desired(1))
    entries = world.control.read()
    for host in hosts:
        host.keeper.step(entries)
    assert [host.has_it for host in hosts] == [True, False]


def test_a_stop_is_not_done_before_the_application_has_left(world: HostWorld) -> None:
    host = world.host("a")
    world.ask(desired(1))
    world.run(2, host)
    running = host.jobs.look_now
    world.ask(desired(2, DesiredState.STOPPED))
    host.jobs.end = lambda: host.jobs.log.append("end")  # type: ignore[method-assign]
    world.run(3, host)
    assert world.lease().report.phase is HostPhase.STOPPING
    assert running.alive
    host.jobs.look_now = JobLook()
    world.run(1, host)
    assert world.lease().report.phase is HostPhase.STOPPED


HOSTILE = [
    ("environment", "x" * 2_000_000),
    ("fingerprint", "\x1b[2J"),
    ("generation", 10**400),
    ("generation", int("9" * 4300)),
    ("generation", -1),
    ("handover", {"a": [[[[[]]]]]}),
    ("handover", document(topics=["y" * 2_000_000, 5])),
    ("handover", document(lanes="z" * 2_000_000)),
    ("handover", document(where={"not": {"not": {"not": "\ud800"}}})),
    ("handover", {**document(), "\ud800": 1}),
    ("handover", {**document(), "\x1b[2J\n": float("nan")}),
    ("submission", {"master": "local[2]", "spark_conf": {"spark.app.name": "\udc00"}}),
    ("submission", {"master": "\x00" * 100_000, "spark_conf": {}}),
    ("submission", {"master": ["local"], "spark_conf": None}),
    ("submission", {"master": "local", "spark_conf": {"spark.jars": {"a": "b"}}}),
    ("state", "\u202erunning"),
]


@pytest.mark.parametrize(("field", "value"), HOSTILE, ids=map(str, range(len(HOSTILE))))
def test_a_hostile_record_is_refused_and_the_host_continues(world: HostWorld, field: str, value: object) -> None:
    """As written by whoever may write to the control topic: beside others' mirrors, which this host keeps as well."""
    host = world.host("a")
    record = json.loads(DESIRED.dumps(desired(1))) | {field: value}
    world.control.write(desired_key(ENVIRONMENT, MIRROR), json.dumps(record).encode())
    world.run(3, host)
    report = world.lease().report
    assert (report.phase, host.jobs.log) == (HostPhase.REFUSED, [])
    assert all((report.what, report.why, report.todo))
    assert len(world.control.entries[host_key(ENVIRONMENT, MIRROR)]) < 20_000, "more than that is not written"
    assert max(map(len, host.said)) < 2_000
    world.ask(desired(2))
    world.run(2, host)
    assert host.jobs.log == ["begin 2"]
