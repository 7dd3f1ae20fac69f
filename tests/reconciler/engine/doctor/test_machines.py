"""What doctor makes of Spark masters, of executors that were looked at, and of what tasks reported about theirs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.engine.doctor.machines import executor_findings, master_findings, task_findings
from reconciler.errors import RunnerError, Unknown
from reconciler.model.environment.topology import Mirror
from reconciler.model.live import JobState, LiveMirror
from reconciler.model.reports.doctor import DoctorVerdict, ExecutorLook, Finding, SparkMaster
from reconciler.replication.status import FlowState, FlowStatus, ReportedCondition
from tests.support.documents.live_values import condition

STANDALONE = Mirror("west", ("f",), master="spark://h:7077", parallelism=4)
OK, WARNING, PROBLEM, UNKNOWN = DoctorVerdict.OK, DoctorVerdict.WARNING, DoctorVerdict.PROBLEM, DoctorVerdict.UNKNOWN
YARN = Mirror("west", ("f",), master="yarn")
MIRROR = Mirror("west", ("f",), master="spark://h:7077")
NOT_FIT = condition("executor_unfit", "executor a has crc32c 1, the driver has 2", "Fix it")
OTHER = condition("source_unreachable", "east does not answer", "Check east")


@pytest.mark.parametrize(
    ("free", "own", "verdict"),
    [(4, 0, OK), (9, 4, OK), (3, 0, PROBLEM), (0, 3, PROBLEM), (0, 4, WARNING), (3, 4, WARNING)],
)
def test_cores_are_those_that_are_free_and_those_that_the_mirror_has(
    free: int, own: int, verdict: DoctorVerdict
) -> None:
    """A mirror that runs needs no more; a restart beside it does."""
    master = SparkMaster("spark://h:7077", "h:7077 takes connections", 2, free, own)
    reached, cores = master_findings(STANDALONE, master)
    assert (reached.verdict, reached.text) == (OK, "spark://h:7077: h:7077 takes connections")
    assert cores.verdict is verdict
    held = f"; the mirror holds {own}" if own else ""
    assert cores.text == f"{free} free on 2 workers{held}; it runs 4 leases, one core each"


def test_a_master_that_cannot_be_reached_is_a_problem_and_nothing_else_is_said() -> None:
    lost = SparkMaster("spark://h:7077", Unknown("spark master", "cannot be used", "Start it"))
    [finding] = master_findings(STANDALONE, lost)
    assert (finding.verdict, finding.text, finding.todo) == (PROBLEM, "cannot be used", ("Start it",))


def test_a_page_that_does_not_answer_leaves_the_cores_unknown() -> None:
    unread = SparkMaster("spark://h:7077", "h:7077", free_cores=Unknown("free cores", "no page"))
    assert [finding.verdict for finding in master_findings(STANDALONE, unread)] == [OK, UNKNOWN]


@pytest.mark.parametrize(("name", "tool"), [("yarn", "yarn node"), ("k8s://https://h", "kubectl")])
def test_of_yarn_and_kubernetes_it_is_said_who_knows(name: str, tool: str) -> None:
    _, cores = master_findings(Mirror("west", ("f",), master=name), SparkMaster(name, "it is there"))
    assert cores.verdict is UNKNOWN
    assert tool in cores.todo[0]


def test_fit_executors_are_counted_by_machine() -> None:
    looks = (ExecutorLook("n1", "3.11.2"), ExecutorLook("n1", "3.11.2"), ExecutorLook("n2", "3.11.7"))
    (finding,) = executor_findings(YARN, looks)
    assert (finding.subject, finding.check, finding.verdict) == ("mirror west", "executors", DoctorVerdict.OK)
    assert finding.text.startswith("3 executors on n1 (Python 3.11.2), n2 (Python 3.11.7): ")


def test_each_problem_is_reported_once_beside_the_fit() -> None:
    looks = (
        ExecutorLook("n1", "3.11", ("n1 lacks a",)),
        ExecutorLook("n1", "3.11", ("n1 lacks a",)),
        ExecutorLook("n2", "3"),
    )
    problem, fit = executor_findings(YARN, looks)
    assert (problem.verdict, problem.text) == (DoctorVerdict.PROBLEM, "n1 lacks a")
    assert problem.why
    assert problem.todo
    assert fit.text.startswith("1 executor on n2")


def test_what_is_not_known_is_not_fine() -> None:
    (failed,) = executor_findings(YARN, RunnerError("it failed", "no Python", "install it"))
    assert (failed.verdict, failed.text, failed.todo) == (
        DoctorVerdict.PROBLEM,
        "it failed. no Python",
        ("install it",),
    )
    (nobody,) = executor_findings(YARN, Unknown("executors", "no core", "free some"))
    assert (nobody.verdict, nobody.text) == (DoctorVerdict.UNKNOWN, "no core")
    assert list(executor_findings(YARN, ())) == [], "an application without a lease looks at nothing"


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


def test_of_many_problems_three_are_reported_once_each() -> None:
    many = [replace(NOT_FIT, text=f"executor {name} lacks structlog") for name in "aabcde"]
    text = finding(mirror(JobState.RUNNING, "running", *many)).text
    assert [text.count(f"executor {name} ") for name in "abcde"] == [1, 1, 1, 0, 0]
    assert text.endswith("; and 2 more: reconciler status ENV")


@pytest.mark.parametrize(
    ("there", "here", "verdict"),
    [
        ("4.3.1", "pyspark 4.3.0", DoctorVerdict.OK),
        ("4.2.0", "pyspark 4.3.0", DoctorVerdict.PROBLEM),
        ("", "pyspark 4.3.0", DoctorVerdict.OK),
        ("4.2.0", "spark-submit of SPARK_HOME: /opt/spark", DoctorVerdict.OK),
        ("3.5.8", "Spark 3.5.9 of SPARK_HOME: /opt/spark/bin/spark-submit", DoctorVerdict.OK),
        ("4.3.0", "Spark 3.5.9 of SPARK_HOME: /opt/spark/bin/spark-submit", DoctorVerdict.PROBLEM),
    ],
)
def test_a_master_of_another_release_is_a_problem(there: str, here: str, verdict: DoctorVerdict) -> None:
    master = SparkMaster("spark://h:7077", "h:7077 takes connections", 1, 4, 0, there)
    first, *_ = master_findings(MIRROR, master, here)
    assert first.verdict is verdict
    assert there in first.text
