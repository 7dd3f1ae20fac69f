"""Reports as one page: the same verdict as text and JSON, every finding, and names that stay text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from reconciler.render.reports.checkups import checkup_html, checkup_verdict
from reconciler.render.reports.failover import failover_html, failover_verdict
from reconciler.render.reports.verify import verify_html, verify_verdict
from tests.support.documents.pages import elements, words
from tests.support.documents.reports import CHECKUP, REPORT, VERIFICATION


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


def test_a_failover_page_has_what_stops_it_and_what_is_unknown() -> None:
    page = words(failover_html(REPORT))
    assert page.index("it is lost") < page.index("7 records are not copied") < page.index("of 1 group")
    assert "pass --unplanned" in page
    assert "dry run: nothing was changed" in page
    assert "??left alone" in page
    assert "dry run" not in words(failover_html(replace(REPORT, dry=False)))
