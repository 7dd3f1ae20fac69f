"""A status record as a LiveMirror: every field, staleness by its own clock, and words for what is malformed."""

from __future__ import annotations

import json

import pytest

from reconciler.backends.mirror_jobs.status.records import MalformedStatusError, mirror_from_record
from reconciler.model.live import JobState, LiveMirror
from reconciler.replication.names import FORMER_NAMES, runbook_of
from reconciler.replication.status import FlowStatus, PartitionLag, PathCount, ReportedCondition
from tests.support.jobs.status_records import FLOW, NOW, record


def test_every_field_arrives() -> None:
    mirror = mirror_from_record(record(), NOW)
    expected = FlowStatus(
        "east-to-west",
        "f" * 16,
        "degraded",
        3,
        24,
        1000,
        10.5,
        2048.0,
        7,
        0.5,
        conditions=(ReportedCondition(code="target_topic_missing", text="t", todo="d", since_ms=NOW, stops=True),),
        lanes=2,
    )
    assert dict(mirror.flows) == {"east-to-west": expected}
    assert mirror == LiveMirror(
        "west",
        JobState.RUNNING,
        "local-1",
        "a" * 16,
        NOW - 60_000,
        NOW,
        4711,
        "host driver.example",
        mirror.flows,
        host="driver.example",
    )


def test_what_newer_jobs_add_arrives_and_older_jobs_may_leave_out() -> None:
    paths = [{"path": "record", "reason": "filter", "partitions": 3}]
    worst = [{"topic": "orders", "partition": 1, "records_lag": 9, "seconds_lag": None}]
    newer = FLOW | {"transactions": 5, "retries": 1, "paths": paths, "worst_partitions": worst}
    told = mirror_from_record(record(flows={"f": newer}), NOW).flows["f"]
    assert (told.transactions, told.retries) == (5, 1)
    assert (told.paths, told.worst_partitions) == (
        (PathCount("record", "filter", 3),),
        (PartitionLag("orders", 1, 9, None),),
    )
    older = mirror_from_record(record(flows={"f": FLOW}), NOW).flows["f"]
    assert (older.transactions, older.retries, older.paths, older.worst_partitions) == (None, None, (), ())


def test_what_the_last_release_knew_of_an_unknown_lag_came_in_a_header() -> None:
    lags = {"flows": {"f": {"records_lag_at_least": 5, "lag_unknown_partitions": 2, "stalled_partitions": 1}}}
    flows = {"f": FLOW | {"records_lag": None}, "g": FLOW}
    told = mirror_from_record(record(flows=flows), NOW, json.dumps(lags).encode()).flows
    figures = [
        (f.records_lag, f.records_lag_at_least, f.lag_unknown_partitions, f.stalled_partitions) for f in told.values()
    ]
    assert figures == [(None, 5, 2, 1), (7, 0, 0, 0)]
    with pytest.raises(MalformedStatusError, match="Expecting"):
        mirror_from_record(record(), NOW, b"{")


@pytest.mark.parametrize(("former", "now"), FORMER_NAMES.items())
def test_what_a_job_of_the_last_release_wrote_has_the_names_of_now(former: str, now: str) -> None:
    told = {"code": former, "text": "t", "todo": "d", "since_ms": 1, "stops": True}
    counts = [{"code": former, "stops": True, "conditions": 3}]
    lags = {"flows": {"f": {"records_lag_at_least": 5, "lag_unknown_partitions": 2, former: 4}}}
    older = FLOW | {"conditions": [told], "condition_counts": counts}
    flow = mirror_from_record(record(flows={"f": older}), NOW, json.dumps(lags).encode()).flows["f"]
    assert [each.code for each in flow.conditions] == [now]
    assert flow.counted_conditions == {(now, True): 3}
    assert getattr(flow, now, 4) == 4
    assert runbook_of(former) == runbook_of(now)


def test_fields_of_a_later_release_are_left_aside() -> None:
    told = mirror_from_record(record(later=1, flows={"f": FLOW | {"later": 2}}), NOW)
    assert told.flows["f"] == mirror_from_record(record(flows={"f": FLOW}), NOW).flows["f"]


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ("starting", JobState.STARTING),
        ("running", JobState.RUNNING),
        ("stopping", JobState.RUNNING),
        ("stopped", JobState.STOPPED),
        ("superseded", JobState.STOPPED),
        ("failed", JobState.FAILED),
    ],
)
def test_states(told: str, state: JobState) -> None:
    assert mirror_from_record(record(state=told), NOW).state is state


@pytest.mark.parametrize(
    ("told", "interval_ms", "silent_ms", "state"),
    [
        ("running", 2_000, 30_000, JobState.RUNNING),
        ("running", 2_000, 30_001, JobState.STALE),
        ("starting", 2_000, 30_001, JobState.STALE),
        ("stopping", 2_000, 30_001, JobState.STALE),
        ("running", 60_000, 600_000, JobState.RUNNING),
        ("running", 60_000, 600_001, JobState.STALE),
        ("running", 100, -5_000, JobState.RUNNING),
        ("stopped", 2_000, 10_000_000, JobState.STOPPED),
        ("failed", 2_000, 10_000_000, JobState.FAILED),
    ],
)
def test_a_job_that_is_silent_too_long_is_stale(told: str, interval_ms: int, silent_ms: int, state: JobState) -> None:
    value = record(state=told, status_interval_ms=interval_ms, updated_at_ms=NOW - silent_ms)
    assert mirror_from_record(value, NOW).state is state


def test_a_report_is_late_after_two_intervals() -> None:
    assert mirror_from_record(record(), NOW + 4_000).late_ms == 0
    assert mirror_from_record(record(), NOW + 11_000).late_ms == 7_000
    assert mirror_from_record(record(status_interval_ms=30_000), NOW + 61_000).late_ms == 1_000
    assert mirror_from_record(record(state="stopped"), NOW + 99_000).late_ms == 0
    assert mirror_from_record(record(), NOW - 99_000).late_ms == 0, "a clock that is behind"


def test_lag_that_is_not_known_stays_unknown() -> None:
    flow = FLOW | {"records_lag": None, "seconds_lag": None}
    status = mirror_from_record(record(flows={"f": flow}), NOW).flows["f"]
    assert (status.records_lag, status.seconds_lag) == (None, None)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (b"not json", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", "object"),
        (record(format_version=2), "format_version"),
        (record(state="dancing"), "dancing"),
        (record(flows={"f": {}}), "flows"),
    ],
)
def test_what_is_malformed_is_named(value: bytes, hint: str) -> None:
    with pytest.raises(MalformedStatusError, match=hint):
        mirror_from_record(value, NOW)


def test_what_a_job_said_last_ends_with_one_stop_only() -> None:
    told = mirror_from_record(record(state="failed", detail="It is gone. Run apply."), NOW).detail
    assert told == "It is gone. Run apply; host driver.example"
