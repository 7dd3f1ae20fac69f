"""What doctor makes of a Spark master: cores enough or not, and unknown where nobody tells."""

from __future__ import annotations

import pytest

from reconciler.engine.doctor import master_findings
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Mirror
from reconciler.model.reports.doctor import DoctorVerdict, SparkMaster

STANDALONE = Mirror("west", ("f",), master="spark://h:7077", parallelism=4)
OK, WARNING, PROBLEM, UNKNOWN = DoctorVerdict.OK, DoctorVerdict.WARNING, DoctorVerdict.PROBLEM, DoctorVerdict.UNKNOWN


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
