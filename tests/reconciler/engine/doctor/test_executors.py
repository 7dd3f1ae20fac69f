"""What doctor says of executors that were looked at, of those that could not be, and of those that nobody asked."""

from __future__ import annotations

from reconciler.engine.doctor import executor_findings
from reconciler.errors import RunnerError, Unknown
from reconciler.model.environment.topology import Mirror
from reconciler.model.reports.doctor import DoctorVerdict, ExecutorLook

MIRROR = Mirror("west", ("f",), master="yarn")


def test_fit_executors_are_counted_by_machine() -> None:
    looks = (ExecutorLook("n1", "3.11.2"), ExecutorLook("n1", "3.11.2"), ExecutorLook("n2", "3.11.7"))
    (finding,) = executor_findings(MIRROR, looks)
    assert (finding.subject, finding.check, finding.verdict) == ("mirror west", "executors", DoctorVerdict.OK)
    assert finding.text.startswith("3 executors on n1 (Python 3.11.2), n2 (Python 3.11.7): ")


def test_each_problem_is_told_once_beside_the_fit() -> None:
    looks = (
        ExecutorLook("n1", "3.11", ("n1 lacks a",)),
        ExecutorLook("n1", "3.11", ("n1 lacks a",)),
        ExecutorLook("n2", "3"),
    )
    problem, fit = executor_findings(MIRROR, looks)
    assert (problem.verdict, problem.text) == (DoctorVerdict.PROBLEM, "n1 lacks a")
    assert problem.why
    assert problem.todo
    assert fit.text.startswith("1 executor on n2")


def test_what_is_not_known_is_not_fine() -> None:
    (failed,) = executor_findings(MIRROR, RunnerError("it failed", "no Python", "install it"))
    assert (failed.verdict, failed.text, failed.todo) == (
        DoctorVerdict.PROBLEM,
        "it failed. no Python",
        ("install it",),
    )
    (nobody,) = executor_findings(MIRROR, Unknown("executors", "no core", "free some"))
    assert (nobody.verdict, nobody.text) == (DoctorVerdict.UNKNOWN, "no core")
    assert list(executor_findings(MIRROR, ())) == [], "an application without a lease looks at nothing"
