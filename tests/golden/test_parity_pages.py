"""The parity report in its four formats: kept as files, fit for a comment, and harmless whatever it holds."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from reconciler.errors import Unknown
from reconciler.model.reports.drift import Disparity, Parity
from reconciler.render.markup import Format
from reconciler.render.plan.markdown import GITHUB_LIMIT, marker
from reconciler.render.reports.drift import parity_in
from tests.support.documents.pages import FOREIGN, NASTY, elements, undressed, unescaped, words
from tests.support.documents.plans import agrees

DRIFTED = "config sync keeps it equal, so this is drift"
OWN = "not synced: sync_topic_configs.exclude has segment\\.ms"


def apart(number: int, field: str, allowed: bool = False, why: str = DRIFTED) -> Disparity:
    pair = f"east/orders-{number}", f"west/east.orders-{number}"
    return Disparity("east-to-west", *pair, field, "1h", "1m", allowed, why)


DIFFERENT = Parity(
    "sandbox",
    12,
    (
        *(apart(number, "retention.ms") for number in range(3)),
        replace(apart(7, "partitions", why="records of the others have no place"), here="6", there="3"),
        *(apart(number, "segment.ms", True, OWN) for number in range(9)),
    ),
    (Unknown("configs of west/east.orders-8", "west does not allow it", "Let plan describe the configs."),),
)
EQUAL = Parity("sandbox", 12, (), ())
FORMS = {Format.TEXT: "txt", Format.JSON: "json", Format.MARKDOWN: "md", Format.HTML: "html"}


@pytest.mark.parametrize(("form", "ending"), FORMS.items())
def test_each_format(form: Format, ending: str) -> None:
    agrees(f"different.parity.{ending}", undressed(parity_in(DIFFERENT, form)))
    agrees(f"equal.parity.{ending}", undressed(parity_in(EQUAL, form)))


@pytest.mark.parametrize("form", [Format.MARKDOWN, Format.HTML])
def test_every_difference_is_on_the_page_and_what_no_rule_allows_comes_first(form: Format) -> None:
    whole = parity_in(DIFFERENT, form)
    text = unescaped(whole) if form is Format.MARKDOWN else words(whole)
    for one in DIFFERENT.disparities:
        assert f"{one.source} -> {one.remote}" in text
        assert one.why in text
    assert "west does not allow it" in text
    assert "Let plan describe the configs." in text
    assert text.index(DRIFTED) < text.index("west does not allow it") < text.index(OWN)


def test_a_comment_fits_and_says_where_all_of_it_is() -> None:
    many = replace(DIFFERENT, disparities=tuple(apart(number, f"key-{number % 300}") for number in range(5_000)))
    text = parity_in(many, Format.MARKDOWN)
    assert len(text.encode("utf-16-le")) // 2 <= GITHUB_LIMIT
    assert "too long" in text
    assert "--format json" in text
    assert text.startswith(marker("parity", "sandbox"))


def test_nothing_breaks_out_of_the_pages() -> None:
    nasty = replace(DIFFERENT, disparities=(apart(1, NASTY, why=NASTY),), unknown=(Unknown(NASTY, NASTY, NASTY),))
    markdown = parity_in(nasty, Format.MARKDOWN).partition("\n")[2]
    assert not re.search(r"<img|@octocat|#12\b|https://|\*\*b\*\*|\u202e", markdown)
    found = elements(parity_in(nasty, Format.HTML))
    assert {tag for tag, _ in found.tags}.isdisjoint(FOREIGN)
