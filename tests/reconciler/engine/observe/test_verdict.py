"""One verdict, and every reason for it: what is not known is never fine, and what waits is not said to go on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.engine.observe.verdict import verdict_of
from reconciler.errors import ExitCode, Unknown
from reconciler.model.environment.topology import Mirror
from reconciler.model.live import LAG_LATE_MS, JobState, LiveCluster, LiveState
from reconciler.model.reports.health import Health, Verdict
from reconciler.render.reports.status import check_code, headline
from reconciler.replication.names import CONDITION_CODES, WAITING
from reconciler.replication.status import ConditionCount, FlowStatus, ReportedCondition, ReportedPause
from tests.support.builders import flow, topology
from tests.support.documents.live_values import live_cluster, live_mirror, live_topic

DECLARED = topology(flow("east", "west", "orders"), flow("east", "west", "clicks", name="clicks"))
CLUSTERS: dict[str, LiveCluster | Unknown] = {name: live_cluster(name, {}) for name in ("east", "west")}


def status(name: str = "east-to-west", **fields: Any) -> FlowStatus:
    known: dict[str, Any] = {"state": "running", "records_lag": 0, "seconds_lag": 0.0}
    return FlowStatus(name, "f" * 16, **{**known, **fields})


CALM = status("clicks")


def condition(code: str, *, stops: bool = True, **fields: Any) -> ReportedCondition:
    todo = "Continue: reconciler mirror seek ENV FLOW --topic orders --partition 0 --to 7."
    return ReportedCondition(**{"code": code, "text": "t", "todo": todo, "since_ms": 1, "stops": stops, **fields})


def pause(reason: str = "", **fields: Any) -> ReportedPause:
    return ReportedPause(
        **{"since_ms": 1_000, "by": "ann@host", "reason": reason, "partitions": 6, "paused_partitions": 6, **fields}
    )


def seen(*flows: FlowStatus, state: JobState = JobState.RUNNING, **fields: Any) -> LiveState:
    mirror = replace(live_mirror("west", flows or (status(), CALM), state), **fields)
    return LiveState(CLUSTERS, {"west": mirror})


def verdict(live: LiveState) -> Verdict:
    return verdict_of(DECLARED, live, "environments/prod")


def test_what_runs_is_caught_up_and_has_no_condition_is_ok() -> None:
    assert verdict(seen()) == Verdict()
    assert headline(verdict(seen()), "1 of 1 mirror running") == "OK: 1 of 1 mirror running"


def test_a_partition_that_a_condition_stops_is_stopped_with_the_exact_command() -> None:
    stopped = verdict(seen(status(conditions=(condition("source_truncated", topic="orders", partition=0),)), CALM))
    [cause] = stopped.causes
    assert (stopped.health, cause.brief) == (Health.STOPPED, "flow east-to-west: source_truncated on orders-0")
    wanted = "reconciler mirror seek environments/prod east-to-west --topic orders --partition 0 --to 7."
    assert cause.todo == f"Continue: {wanted}"


@pytest.mark.parametrize("code", WAITING)
@pytest.mark.parametrize(
    "fields", [{"records_lag": None}, {"records_lag": 5, "stalled_partitions": 1}, {"lag_unknown_partitions": 1}]
)
def test_what_ends_by_itself_does_not_continue_meanwhile(code: str, fields: dict[str, Any]) -> None:
    """A source that is stopped as a whole: `source_unreachable` stops no partition for good, and nothing is copied."""
    waiting = status(conditions=(condition(code, stops=False),), **fields)
    [cause] = verdict(seen(waiting, CALM)).causes
    assert (cause.health, cause.heals) == (Health.STOPPED, True)


@pytest.mark.parametrize(
    "fields", [{"state": JobState.STALE, "gone": True}, {"state": JobState.STOPPED}, {"late_ms": LAG_LATE_MS + 1}]
)
def test_conditions_of_a_job_that_reports_nothing_now_are_those_of_its_last_record(fields: dict[str, Any]) -> None:
    """They may have ended since, with what caused them; and what ends by itself needs a job for it."""
    waiting = status(records_lag=None, conditions=(condition("source_unreachable", stops=False),))
    updated: dict[str, Any] = {"updated_at_ms": 1_764_000_000_000}
    [cause] = [cause for cause in verdict(seen(waiting, CALM, **fields, **updated)).causes if cause.code]
    assert cause.text == "source_unreachable: in the last record of its job, of 2025-11-24 16:00:00 UTC: t"
    assert not cause.heals
    [now] = verdict(seen(waiting, CALM, **updated)).causes
    assert (now.text, now.heals) == ("source_unreachable: t", True)


def test_a_source_in_maintenance_stops_nothing_of_a_flow_that_is_paused() -> None:
    """As alerts see it: a planned failover or pause, and then the source is taken down."""
    waiting = status(records_lag=None, state="paused", conditions=(condition("source_unreachable", stops=False),))
    [cause] = verdict(seen(waiting, CALM)).causes
    assert (cause.health, cause.code) == (Health.DEGRADED, "source_unreachable")


def test_a_condition_beside_copying_degrades() -> None:
    assert verdict(seen(status(conditions=(condition("groups_not_synced", stops=False),)), CALM)).health == "DEGRADED"
    assert set(WAITING) < set(CONDITION_CODES)


def test_a_failover_is_paused_with_who_when_why_and_the_way_back() -> None:
    paused = status(state="paused", records_lag=1_161, pauses=(pause("failover to west; started for it: back"),))
    found = verdict(seen(paused, CALM))
    [cause] = found.causes
    assert headline(found, "") == "PAUSED: flow east-to-west is failed over to west; "
    for words in ("1970-01-01 00:00:01 UTC", "ann@host", "failover to west", "6 of 6 partitions", "1,161 records"):
        assert words in cause.text
    assert cause.todo.endswith("reconciler failback environments/prod east-to-west")


def test_a_pause_of_one_partition_is_reported_with_what_resumes_it() -> None:
    paused = status(pauses=(pause("maintenance", topic="orders", partition=3),))
    [cause] = verdict(seen(paused, CALM)).causes
    assert cause.health is Health.PAUSED
    assert cause.todo == (
        "Resume it: reconciler mirror resume environments/prod east-to-west --topic orders --partition 3"
    )


def test_the_worst_counts_and_all_are_reported() -> None:
    """One flow paused, another stopped, a cluster silent."""
    stopped = status("clicks", conditions=(condition("record_refused"), condition("groups_refused", stops=False)))
    live = seen(status(state="paused", pauses=(pause(),)), stopped)
    silent = Unknown("cluster east", "cluster east does not answer", "Check that the brokers run.")
    found = verdict(LiveState({**CLUSTERS, "east": silent}, live.mirrors))
    assert [cause.health.value for cause in found.causes] == ["STOPPED", "UNKNOWN", "DEGRADED", "PAUSED"]
    assert found.of("flow clicks") is Health.STOPPED
    assert found.of("flow east-to-west") is Health.PAUSED
    assert "reconciler failover environments/prod east-to-west --unplanned --dry-run" in found.causes[1].todo


@pytest.mark.parametrize(
    ("live", "health", "words"),
    [
        (seen(state=JobState.ABSENT), Health.STOPPED, "reconciler apply environments/prod"),
        (seen(state=JobState.STOPPED), Health.STOPPED, "reconciler mirror start environments/prod east-to-west"),
        (seen(state=JobState.FAILED, detail="no memory"), Health.STOPPED, "no memory"),
        (seen(state=JobState.STALE, gone=True), Health.STOPPED, "its job ended unexpectedly"),
        (seen(state=JobState.STALE), Health.UNKNOWN, "has said nothing for too long"),
        (seen(state=JobState.STALE), Health.UNKNOWN, "may write its status: reconciler doctor environments/prod"),
        (seen(state=JobState.STARTING), Health.DEGRADED, "starting"),
        (
            seen(state=JobState.STARTING, started_at_ms=None, detail="starts again after a crash"),
            Health.STOPPED,
            "its job starts again after a crash",
        ),
        (seen(late_ms=LAG_LATE_MS + 1), Health.UNKNOWN, "overdue"),
        (seen(unkept="its supervisor is gone"), Health.DEGRADED, "its supervisor is gone"),
        (seen(CALM), Health.STOPPED, "the running job does not carry it"),
        (seen(status(records_lag=None, lag_unknown_partitions=2), CALM), Health.UNKNOWN, "of 2 partitions"),
        (seen(status(state="starting", records_lag=None), CALM), Health.DEGRADED, "is starting"),
        (seen(status(resuming_partitions=3), CALM), Health.DEGRADED, "not copied yet: 3 partitions"),
    ],
)
def test_a_job_that_may_not_copy_is_not_ok(live: LiveState, health: Health, words: str) -> None:
    found = verdict(live)
    assert found.health is health
    assert words in " ".join(f"{cause.text}. {cause.todo}" for cause in found.causes)


def test_a_hosted_mirror_without_a_host_says_so() -> None:
    declared = replace(DECLARED, mirrors={"west": Mirror("west", ("clicks", "east-to-west"), hosted=True)})
    found = verdict_of(declared, seen(unkept="no mirror host keeps it"), "environments/prod")
    assert "reconciler mirror host environments/prod" in found.causes[0].todo


def test_a_status_that_only_a_silent_cluster_has_is_reported_once() -> None:
    silent = Unknown("cluster west", "cluster west does not answer at w:9092", "Check that the brokers run.")
    found = verdict(LiveState({**CLUSTERS, "west": silent}, {"west": silent}))
    assert found.health is Health.UNKNOWN
    assert [cause.text for cause in found.causes].count(f"unknown: {silent.error}") == 1
    assert found.causes[1].text.startswith("unknown, as cluster west is")


def test_a_cluster_with_partitions_amiss_is_degraded() -> None:
    short = live_cluster("east", {"orders": live_topic("orders", replicas=(1, 2), leader=-1)})
    found = verdict(LiveState({**CLUSTERS, "east": short}, seen().mirrors))
    assert found.of("cluster east") is Health.DEGRADED
    assert found.causes[0].text == "1 partition without a leader, 1 under-replicated partition"
    assert found.causes[0].todo == "Check that all brokers of east run, and their disks."
    hosted = {**DECLARED.clusters, "east": replace(DECLARED.clusters["east"], service="confluent-cloud")}
    found = verdict_of(
        replace(DECLARED, clusters=hosted), LiveState({**CLUSTERS, "east": short}, seen().mirrors), "env"
    )
    assert found.causes[0].todo.startswith("Confluent keeps its brokers: ask Confluent support")


def test_a_job_that_no_file_declares_is_reported() -> None:
    live = seen()
    stray = live_mirror("old", (status("gone", conditions=(condition("record_refused"),)),))
    found = verdict(LiveState(CLUSTERS, {**live.mirrors, "old": stray}))
    assert [cause.subject for cause in found.causes] == ["flow gone", "mirror old"]


@pytest.mark.parametrize(
    ("health", "code"),
    [
        (Health.OK, ExitCode.DONE),
        (Health.UNKNOWN, ExitCode.ERROR),
        (Health.STOPPED, ExitCode.CHANGES),
        (Health.DEGRADED, ExitCode.CHANGES),
        (Health.PAUSED, ExitCode.BLOCKED),
    ],
)
def test_exit_codes_distinguish_the_states(health: Health, code: ExitCode) -> None:
    assert check_code(health) is code


def test_mirrors_that_were_not_checked_are_not_fine() -> None:
    unread = Unknown("mirror west", "it was not read yet", "Wait for the first answer.")
    assert verdict(LiveState(CLUSTERS, {"west": unread})).health is Health.UNKNOWN


def test_of_what_a_record_only_counts_the_worst_counts() -> None:
    counts = (
        ConditionCount("quota_throttled", False, 9),
        ConditionCount("x", True, 1),
    )
    told = condition("quota_throttled", stops=False)
    live = seen(status(conditions=(told,), condition_counts=counts), CALM)
    assert verdict(live).health is Health.STOPPED


def test_an_environment_without_flows_and_clusters_is_ok() -> None:
    assert verdict_of(topology(), LiveState({}, {})) == Verdict()


def test_in_a_folder_of_clusters_alone_jobs_are_judged_by_what_they_report() -> None:
    """Such as a mirror host has: no job is wanted or unwanted by it, and its folder can start none."""
    bare = replace(DECLARED, flows={}, mirrors={})
    folder = "environments/prod"
    assert verdict_of(bare, seen(), folder) == Verdict()
    late = verdict_of(bare, seen(late_ms=LAG_LATE_MS + 1), folder)
    assert (late.health, len(late.causes)) == (Health.UNKNOWN, 1)
    for state, health in ((JobState.STALE, Health.UNKNOWN), (JobState.FAILED, Health.STOPPED)):
        [cause] = verdict_of(bare, seen(state=state), folder).causes
        assert cause.health is health
        assert folder not in cause.todo
    assert verdict_of(bare, seen(state=JobState.STOPPED), folder) == Verdict(), "on request, for all that is known"
    broken = seen(status(conditions=(condition("record_refused"),)))
    assert verdict_of(bare, broken, folder).of("flow east-to-west") is Health.STOPPED
    declares = replace(bare, access_declared=True)
    assert verdict_of(declares, seen(), folder).causes[0].text == "runs, and no file declares it"
