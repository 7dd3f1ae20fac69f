"""Reports as one page: the same verdict as text and JSON, every finding, and names that stay text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from reconciler.model.reports.doctor import Checkup, DoctorVerdict, Finding
from reconciler.model.reports.failover import (
    FailoverCheck,
    FailoverFacts,
    FailoverStep,
    GroupMove,
    GroupOffset,
    GroupState,
    Level,
    Report,
    StepResult,
    TranslatedPartition,
    Way,
)
from reconciler.model.reports.verify import (
    ComparedPartition,
    Equality,
    FieldDigest,
    FirstDifference,
    ShownRecord,
    Verification,
    VerificationRequest,
)
from reconciler.operations.failover.decide import move_of
from reconciler.render.reports.doctor import checkup_html, checkup_verdict
from reconciler.render.reports.failover import failover_html, failover_verdict
from reconciler.render.reports.verify import verify_html, verify_verdict
from tests.support.builders import flow, topology
from tests.support.documents.pages import NASTY, elements, words

CHECKUP = Checkup(
    NASTY,
    (
        Finding(
            "cluster east", "certificate", DoctorVerdict.PROBLEM, f"expired {NASTY}", "it is refused", ("renew it",)
        ),
        Finding("cluster west", "clock", DoctorVerdict.UNKNOWN, "no answer", todo=("ask again",)),
        Finding("flow f", "sizes", DoctorVerdict.WARNING, "west takes smaller messages"),
        Finding("cluster hub", "address", DoctorVerdict.OK, "answers", "nobody reads this", ("nor this",)),
    ),
)
EQUAL = ComparedPartition("f", "orders", "east.orders", 0, Equality.EQUAL, "records", equal=12_345, lag=7)
RECORD = ShownRecord(FieldDigest(4, "aa" * 16), FieldDigest(None, ""), FieldDigest(1, "bb" * 16), 1_700_000_000_000)
DIFFERENT = replace(
    EQUAL,
    partition=1,
    state=Equality.DIFFERENT,
    difference=FirstDifference(41, ("missing",), 50, 61, RECORD, RECORD, 3),
)
UNKNOWN = replace(EQUAL, partition=2, state=Equality.UNKNOWN, compared="nothing", reason=NASTY, todo="Wait.")
VERIFICATION = Verification(NASTY, VerificationRequest(), (EQUAL, DIFFERENT, UNKNOWN), ("local-1",), 3.0)
MOVE = move_of(topology(flow("east", "west", "orders")), Way.FAILOVER, "east-to-west")
MOVED = GroupMove(
    NASTY,
    GroupState("consumer", "Empty", 0),
    GroupState(),
    (GroupOffset(("orders", 0), ("east.orders", 0), 50, "", TranslatedPartition(48, exact=False, end=60), None),),
    "left alone",
)
REPORT = Report(
    "e",
    FailoverFacts(MOVE, True, "", None, (MOVED,)),
    (
        FailoverCheck("origin", Level.STOPS, f"it is lost {NASTY}", "pass --unplanned"),
        FailoverCheck("lag", Level.WARNS, "7 records are not copied"),
        FailoverCheck("groups", Level.FINE, "all can be moved"),
    ),
    (FailoverStep("offsets", StepResult.PLANNED, "of 1 group"),),
    dry=True,
)


@pytest.mark.parametrize(
    ("page", "verdict"),
    [
        (checkup_html(CHECKUP), checkup_verdict(CHECKUP)),
        (verify_html(VERIFICATION), verify_verdict(VERIFICATION)),
        (failover_html(REPORT), failover_verdict(REPORT)),
    ],
    ids=["doctor", "verify", "failover"],
)
def test_the_verdict_is_that_of_the_text_and_names_are_text(page: str, verdict: str) -> None:
    found = elements(page)
    assert verdict in "".join(found.text)
    assert [tag for tag, _ in found.tags].count("script") == 1
    assert {tag for tag, _ in found.tags}.isdisjoint({"img", "iframe", "link", "form", "object", "base"})
    assert not re.search(r"url\(|@import", page)
    links = {attributes["href"] for tag, attributes in found.tags if tag == "a"}
    assert {f"#{attributes['id']}" for _, attributes in found.tags if "id" in attributes} >= links


def test_doctor_says_what_to_do_first_and_nothing_of_what_is_in_order() -> None:
    page = words(checkup_html(CHECKUP))
    assert page.index("cluster east, certificate: expired") < page.index("cluster west, clock: no answer")
    assert "why: it is refused" in page
    assert "do: renew it" in page
    assert "cluster hub, address: answers" in page
    assert "nobody reads this" not in page
    assert "nor this" not in page


def test_verify_has_every_partition_and_no_content() -> None:
    page = words(verify_html(VERIFICATION))
    assert "missing at the target (3 in a row)" in page
    assert "forders-0east.orders-012,345 records7equal" in page
    assert "Wait." in page
    assert "Partitions" not in words(verify_html(replace(VERIFICATION, partitions=())))


def test_failover_tells_what_stops_it_and_what_is_not_known() -> None:
    page = words(failover_html(REPORT))
    assert page.index("it is lost") < page.index("7 records are not copied") < page.index("of 1 group")
    assert "pass --unplanned" in page
    assert "dry run: nothing was changed" in page
    assert "unknownunknownleft alone" in page
    assert "dry run" not in words(failover_html(replace(REPORT, dry=False)))
