"""What doctor makes of what a mirror's tasks have said of their executors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.engine.doctor import master_findings, task_findings
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Mirror
from reconciler.model.live import JobState, LiveMirror
from reconciler.model.reports.doctor import DoctorVerdict, Finding, SparkMaster
from reconciler.replication.status import FlowState, FlowStatus, ReportedCondition
from tests.support.documents.live_values import condition

MIRROR = Mirror("west", ("f",), master="spark://h:7077")
NOT_FIT = condition("executor_unfit", "executor a has crc32c 1, the driver has 2", "Mend it")
OTHER = condition("source_unreachable", "east does not answer", "Check east")


def finding(live: LiveMirror | Unknown | None) -> Finding:
    [made] = task_findings(MIRROR, live)
    return made


def mirror(state: JobState, flow: FlowState, *conditions: ReportedCondition) -> LiveMirror:
    return LiveMirror("west", state, flows={"f": FlowStatus("f", "x", flow, partitions=1, conditions=conditions)})


@pytest.mark.parametrize(
    ("live", "verdict", "text"),
    [
        (None, DoctorVerdict.UNKNOWN, "it has not run yet"),
        (mirror(JobState.STOPPED, "running", NOT_FIT), DoctorVerdict.UNKNOWN, "the mirror is stopped"),
        (mirror(JobState.STALE, "running"), DoctorVerdict.UNKNOWN, "the mirror is stale"),
        (mirror(JobState.STARTING, "starting"), DoctorVerdict.UNKNOWN, "not every flow runs"),
        (mirror(JobState.RUNNING, "starting"), DoctorVerdict.UNKNOWN, "not every flow runs"),
        (mirror(JobState.RUNNING, "running", OTHER), DoctorVerdict.OK, "its tasks have their packages"),
        (mirror(JobState.STARTING, "starting", NOT_FIT), DoctorVerdict.PROBLEM, NOT_FIT.text),
        (mirror(JobState.RUNNING, "running", OTHER, NOT_FIT), DoctorVerdict.PROBLEM, NOT_FIT.text),
        (Unknown("mirror west", "it cannot be read", "Look"), DoctorVerdict.UNKNOWN, "it cannot be read"),
    ],
)
def test_what_no_task_has_said_is_unknown(live: LiveMirror | Unknown | None, verdict: DoctorVerdict, text: str) -> None:
    made = finding(live)
    assert (made.verdict, text in made.text) == (verdict, True), made
    assert made.todo if verdict is not DoctorVerdict.OK else not made.todo


def test_of_many_problems_three_are_told_once_each() -> None:
    many = [replace(NOT_FIT, text=f"executor {name} lacks structlog") for name in "aabcde"]
    text = finding(mirror(JobState.RUNNING, "running", *many)).text
    assert [text.count(f"executor {name} ") for name in "abcde"] == [1, 1, 1, 0, 0]
    assert text.endswith("; and 2 more: reconciler status")


@pytest.mark.parametrize(
    ("there", "here", "verdict"),
    [
        ("4.3.1", "pyspark 4.3.0", DoctorVerdict.OK),
        ("4.2.0", "pyspark 4.3.0", DoctorVerdict.PROBLEM),
        ("", "pyspark 4.3.0", DoctorVerdict.OK),
        ("4.2.0", "spark-submit of SPARK_HOME: /opt/spark", DoctorVerdict.OK),
    ],
)
def test_a_master_of_another_release_is_a_problem(there: str, here: str, verdict: DoctorVerdict) -> None:
    master = SparkMaster("spark://h:7077", "h:7077 takes connections", 1, 4, 0, there)
    first, *_ = master_findings(MIRROR, master, here)
    assert first.verdict is verdict
    assert there in first.text
