"""Characters that look like a space, a quote or a hyphen, or do not show: named, with their place."""

from __future__ import annotations

import pytest

from reconciler.environment.load import load
from reconciler.errors import TopologyError

TEXT = """clusters:
  east: {bootstrap_servers: [e:9092]}
  west: {bootstrap_servers: [w:9092]}
topics:
  orders: {clusters: [east]}  # a no-break space\u00a0in a comment, and \u201cquotes\u201d
flows:
  all: {source: east, target: west, topics: ['orders.*'], labels: {note: "10\u00a0000 \u2013 or \u2018more\u2019"}}
"""


def problems(text: str) -> list[str]:
    try:
        load({"t.yaml": text}, "env")
    except TopologyError as error:
        return [str(problem) for problem in error.problems]
    return []


def test_quotes_and_comments_may_hold_them() -> None:
    assert problems(TEXT) == []


@pytest.mark.parametrize(
    ("before", "after", "place", "name"),
    [
        ("orders: {clusters", "orders:\u00a0{clusters", "5:10", "U+00A0 (no-break space)"),
        ("orders: {clusters", "orders:\u2003{clusters", "5:10", "U+2003 (em space)"),
        ("orders: {clusters", "orders:\u202f{clusters", "5:10", "U+202F (narrow no-break space)"),
        ("orders: {clusters", "orders\uff1a{clusters", "5:9", "U+FF1A (fullwidth colon)"),
        ("  orders: {", "\u00a0 orders: {", "5:1", "U+00A0 (no-break space)"),
        ("source: east", "source:\u3000east", "7:16", "U+3000 (ideographic space)"),
        ("orders: {clusters", "or\u200bders: {clusters", "5:5", "U+200B (zero width space)"),
        ("[east]", "[ea\u00adst]", "5:25", "U+00AD (soft hyphen)"),
        ("'orders.*'", "\u2018orders.*\u2019", "7:46", "U+2018 (left single quotation mark)"),
        ("'orders.*'", "\u201corders.*\u201d", "7:46", "U+201C (left double quotation mark)"),
        ("source: east", "source: east\u20131", "7:21", "U+2013 (en dash)"),
        ("orders: {clusters", "or\u2011ders: {clusters", "5:5", "U+2011 (non-breaking hyphen)"),
    ],
)
def test_each_is_named_with_its_place(before: str, after: str, place: str, name: str) -> None:
    assert before in TEXT
    said = problems(TEXT.replace(before, after))
    assert any(one.startswith(f"t.yaml:{place}: the character {name} in text without quotes.") for one in said), said
    assert not any("put a space after each colon" in one for one in said)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TEXT.replace("orders: {clusters", '"o\u0440ders": {clusters'), "U+0440 (cyrillic small letter er)"),
        (TEXT.replace("[east]", '["e\u0430st"]'), "names the unknown cluster e\u0430st, which holds U+0430 (cyrillic"),
        (TEXT.replace("'orders.*'", "'orders\u2013.*'"), "none has U+2013 (en dash)"),
    ],
)
def test_a_name_in_quotes_that_looks_right_is_reported_by_its_characters(text: str, words: str) -> None:
    assert any(words in one for one in problems(text)), problems(text)
