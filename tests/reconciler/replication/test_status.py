"""The status record: what is written is read as it was, readers of the last release can read it, and it theirs."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from reconciler.model.schemas import schema
from reconciler.replication.json_codec import MalformedError
from reconciler.replication.names import with_former_names
from reconciler.replication.status import (
    CatchUpStatus,
    ConditionCount,
    Filling,
    FlowStatus,
    GroupSyncStatus,
    LastLag,
    PartitionLag,
    PathCount,
    PauseCounts,
    ReportedCondition,
    ReportedLoss,
    ReportedPause,
    SameOffsetsStatus,
    StatusRecord,
    document,
    loads,
)
from tests.support.jobs.status_records import FLOW, record
from tests.support.paths import ROOT

QUIET = FlowStatus("quiet", "f", "running", 1, 2, 3, 4.0, 5.0, 0, 0.0, 7, 0, lanes=1)
EVERYTHING = FlowStatus(
    "orders", "f", "degraded", 1, 2, 3, 4.5, 5.5, None, None, 6, 1,
    filtered=1,
    returning=2,
    groups=GroupSyncStatus(groups=2, cpu_seconds=0.5),
    paths=(PathCount("batch", "", 2),),
    worst_partitions=(PartitionLag("t", 0, 3, None),),
    conditions=(ReportedCondition(code="x", topic="t", partition=0, text="t", todo="d", since_ms=1, stops=True),),
    condition_counts=(ConditionCount("x", True, 9),),
    pauses=(ReportedPause(topic="t", since_ms=1, by="ann", reason="", partitions=1, paused_partitions=1),),
    pause_counts=PauseCounts(9, 9, 9),
    resuming_partitions=1,
    lost=(ReportedLoss("c", 1, 2, 3, 0, "t"),),
    rate_limit=9,
    throttled_seconds=0.5,
    catch_up=CatchUpStatus(1, 0, None, 3),
    records_lag_at_least=5,
    lag_unknown_partitions=2,
    stalled_partitions=1,
    same_offsets=SameOffsetsStatus(1, 2, 3, Filling(1, 2, 3.5)),
    last_lag=LastLag(5, 6, 1, (PartitionLag("t", 1, 5, None),)),
    lanes=4,
    oldest_unread_seconds=7.5,
)  # fmt: skip
RECORD = StatusRecord(
    environment="prod", mirror="west", state="running", detail="why", application_id="app-1", fingerprint="f",
    started_at_ms=1, updated_at_ms=2, status_interval_ms=2_000, host="h", pid=3, run="r1",
    flows={"quiet": QUIET, "orders": EVERYTHING},
)  # fmt: skip


def written() -> Any:
    return json.loads(json.dumps(document(RECORD)))


def test_what_is_written_is_read_as_it_was_and_follows_its_schema() -> None:
    assert loads(json.dumps(written()).encode()) == RECORD
    Draft202012Validator(schema("status")).validate(written())


def test_every_figure_of_a_flow_is_written_in_the_record_and_described_in_both_schemas() -> None:
    named = {field.metadata.get("name", field.name) for field in fields(FlowStatus)} - {"name"}
    assert named <= written()["flows"]["orders"].keys(), "else this test does not see it written"
    assert named <= schema("status")["properties"]["flows"]["additionalProperties"]["properties"].keys()
    assert named - {"lanes"} <= schema("status-report")["$defs"]["flow"]["properties"].keys()


def test_readers_of_the_last_release_can_read_it() -> None:
    """They leave aside what they do not know, and take figures from the fields that came in a header then."""
    last = json.loads((ROOT / "tests/golden/release/status.schema.json").read_text("utf-8"))
    problems = list(Draft202012Validator(last).iter_errors(written()))
    assert {problem.validator for problem in problems} <= {"additionalProperties"}
    with_former = with_former_names({"stalled_partitions": EVERYTHING.stalled_partitions})
    assert with_former.items() <= written()["flows"]["orders"].items()


def test_a_figure_that_a_job_of_an_older_release_does_not_write_has_its_default() -> None:
    flow = loads(record()).flows["east-to-west"]
    assert (flow.transactions, flow.rate_limit, flow.same_offsets, flow.stalled_partitions) == (None, None, None, 0)


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"topics": "many"}, "flows.f.topics is 'many'"),
        ({"topics": 2.0}, "flows.f.topics is 2.0"),
        ({"records_total": 2**63}, "flows.f.records_total is 9223372036854775808"),
        ({"seconds_lag": 1e300}, r"flows.f.seconds_lag is 1e\+300"),
        ({"state": "dancing"}, "flows.f.state is 'dancing'"),
        ({"conditions": [{"code": "x"}]}, "flows.f.conditions.0 lacks the field"),
        ({"conditions": ["x"]}, "no object with flows"),
    ],
)
def test_what_no_job_wrote_is_refused_with_its_place(fields: dict[str, Any], hint: str) -> None:
    with pytest.raises(MalformedError, match=hint):
        loads(record(flows={"f": FLOW | fields}))


def test_conditions_and_pauses_that_are_not_reported_in_full_are_counted() -> None:
    assert EVERYTHING.counted_conditions == {("x", True): 9}
    assert EVERYTHING.counted_pauses == (9, 9)
    told = replace(EVERYTHING, condition_counts=(), pause_counts=None)
    assert (told.counted_conditions, told.counted_pauses) == ({("x", True): 1}, (1, 1))
