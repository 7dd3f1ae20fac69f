"""An expression that is made to hang what reads it is refused, or matched at once; those that people write stay."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.replication.expressions.match import ValueTooLongError, expressions, of_value
from reconciler.replication.expressions.unfit import unfit, unfit_for_values

CLUSTERS = "clusters:\n  east: {bootstrap_servers: ['e:1']}\n  west: {bootstrap_servers: ['w:1']}\n"

N6 = ("(?:|a){60}b", "(?:a?){3000}a{30}", "(?=(a+)+$)a*")
LEAST, MOST_CPU = 1 << 16, 1.0
"""Bytes of a value, and seconds of CPU that no expression may take; RE2 takes milliseconds of them."""
EXPONENTIAL = (
    "(a+)+b", "(.*)*x", r"([a-z]+)*\d", "(a|b*)*x", "(a|aa)+b", "(a?a)*b", "(x+x+)+y", "((a*)*)*b", "(.*a){9}",
    "(?:.*,?)*z", "(a|a)*b", "(?:(?:a?)*c)*d", "(?:" * 30 + "a*" + ")*" * 30,
    "(?:|a){60}b", "(?:a?){3000}a{30}", "(?:a?){900}a{30}", "(?:|a|){900}b", "(?=(a+)+$)a*", "(?!(a+)+$)a*",
    "(?<!a)(a+)+b", "((?!(a+)+b).)*", "(?(1)a|(a+)+)b", r"(a+)+\1b", "(?>(a+)+)b", "(a+)++b", "(?i:(a+)+b)",
    "((((a?){9}){9}){9}){9}b", "((a{100}){100}){100}", "(?:a{1000}){1000}", "a{0,65535}b", "[\u0000-\U0010ffff]{900}b",
    r"(?:\w|\d|[^\W\d])*b", "(?:.*a){500}b", "(" * 2000 + "a" + ")" * 2000, "(|" * 400 + "a" + ")" * 400 + "b",
    "(?:(?!a)|a)*b", "(?:a" * 200 + ")*" * 200, "(?:(?!a" * 60 + "))" * 60,
    "(?>" * 300 + "a" + ")" * 300, "[a-z]{1000}" * 9,
    "|".join(f"(?!a{n})x{n}" for n in range(100)), "(?:a|b)" * 3000, "((a|b)?c)" * 60 + "(?!x).*", "(?:(?!x))" * 200,
    "(?:a|(?=a)a|(?!b)a){20}b",
)  # fmt: skip
COSTLY = (
    ".*.*.*.*.*.*x", "a*a*a*a*a*b", ".*-.*-.*-.*-.*-.*-x", "[^a]*" * 12, "a?" * 30 + "a" * 30, "(a?){60}a{60}",
    "(a+)+" + "b" * 200, ".*ab.*ab.*ab.*ab.*ab.*x", ".*a.{20}", ".*a.{14}b.*", "(?:[ab]*a[ab]{12})|x.*y.*z",
)  # fmt: skip
PLAIN = (
    ".*", r"orders(\..*)?", r"(\.[a-z]+)*", r"([a-z]+\.)+x", r"([a-z]+\.){9}x", "a*a*b", "(a|b)*", "(ab|a)*b",
    "(?!test).*", r"[a-z]{1,3}(\.[a-z]{1,30})*", "(a+){3}b", r"(eu|us|ap)\.(orders|payments)(\..*)?", ".*-.*-.*",
    "a{1,300}b", ".*eu.*", "order-[0-9]+", "[a-z]{1,249}", "x?y?z?", r".*\..*\..*\..*\..*",
    "|".join(f"topic-{number}" for number in range(900)),
    r"(?:eu|us)\.(?:" + "|".join(f"t{n}" for n in range(200)) + r")(\..*)?",
)  # fmt: skip
NAMES = ("a" * 249, "a" * 40, "ab" * 124, "ab-" * 83, "-" * 249, ".a" * 124, "b" * 249)
PLACES = (
    "flows: {f: {source: east, target: west, topics: [%s]}}\ntopics: {" + "a" * 200 + ": {clusters: [east]}}\n",
    "flows: {f: {source: east, target: west, topics: [x], exclude_topics: [%s]}}\n",
    "flows: {f: {source: east, target: west, topics: [x], groups: {include: [%s]}}}\n",
    "flows: {f: {source: east, target: west, topics: [x], sync_topic_configs: {exclude: [%s]}}}\n",
    "flows: {f: {source: east, target: west, topics: [x], where: {key: {matches: %s}}}}\n",
    "flows: {f: {source: east, target: west, topics: [x], where: {header: {name: h, matches: %s}}}}\n",
    "protected: [%s]\ntopics: {" + "a" * 200 + ": {clusters: [east], deleted: true}}\n",
    "clusters: {west: {bootstrap_servers: ['w:1'], prune: {topics: [%s]}}}\n",
)


def _cpu(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


@pytest.mark.parametrize("text", [*EXPONENTIAL, *COSTLY])
def test_no_expression_can_keep_a_command_waiting(text: str) -> None:
    """Refused or matched: at once, with each name that hurts ``re`` most."""

    def used() -> None:
        if unfit(text) is None:
            assert [expressions([text, "b"]).match(name) for name in NAMES]

    assert _cpu(used) < MOST_CPU


@pytest.mark.parametrize(
    "text", ["a" * 200_000, "." * 40_000, "a?" * 100_000, "|".join(["abc"] * 70_000), "(?!a)" * 40_000]
)
def test_an_expression_that_is_too_long_is_refused_by_its_length_before_it_is_read(text: str) -> None:
    for judge in (unfit, unfit_for_values):
        assert _cpu(lambda: judge(text)) < 0.05  # noqa: B023 - called at once
        found = judge(text)
        assert found is not None
        assert f"it has {len(text):,} characters, at most 32,768 are allowed" in found.what


@pytest.mark.parametrize(
    "unit", ["a", ".", "a?", "a|", "[ab]", "(a)", "(?i:a)", "(?:|a)", "a{9}", "\\\\pL", "(?!a)", "[^a]*"]
)
def test_the_longest_expression_takes_a_time_that_one_waits_for(unit: str) -> None:
    text = (unit * 32_768)[: 32_768 // len(unit) * len(unit)]
    assert _cpu(lambda: (unfit(text), unfit_for_values(text))) < 3 * MOST_CPU


def test_thousands_of_plain_names_are_judged_without_a_program_for_each() -> None:
    names = [f"topic.number.{number}.v1" for number in range(10_000)]
    assert _cpu(lambda: [unfit(name) for name in names]) < 2 * MOST_CPU
    both = expressions(names)
    assert both.match("topic.number.9999.v1")
    assert both.match("topic-number-9999-v1")
    assert not both.match("topic.number.10000.v1")
    assert both.first("topic.number.17.v1") == names[17]


@pytest.mark.parametrize("text", [*EXPONENTIAL, *COSTLY])
def test_no_value_can_keep_a_lane_waiting(text: str) -> None:
    def used() -> None:
        if unfit_for_values(text) is None:
            test = of_value(text)
            for again in (b"a", b"ab", b"ab-"):
                with suppress(ValueTooLongError):
                    test(again * LEAST)

    assert _cpu(used) < 3 * MOST_CPU


@pytest.mark.parametrize("text", PLAIN)
def test_those_that_people_write_stay(text: str) -> None:
    assert unfit(text) is None
    assert unfit_for_values(text) is None or text.startswith(("topic-0", r"(?:eu|us)"))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", [*N6, "(a+)+b", ".*a.{20}", "(|" * 400 + ")" * 400, "(?:a" * 200 + ")*" * 200])
def test_validate_ends_wherever_it_is(text: str, place: str) -> None:
    def used() -> None:
        with suppress(TopologyError):
            clusters = "" if place.startswith("clusters") else CLUSTERS
            load({"e.yaml": clusters + place % json.dumps(text)}, "e")

    assert _cpu(used) < 3 * MOST_CPU


PIECES = ("", ".*", "a*", "[ab]+", "a?", "b{0,9}", "-", "ab", "a{2}", "(?=a)", "(?!b)", ".", r"\w+", "(?i:A)", "^", "$")


@given(
    st.recursive(
        st.sampled_from(PIECES),
        lambda inner: st.one_of(
            st.builds("{}{}".format, inner, inner),
            st.builds("(?:{}|{})".format, inner, inner),
            st.builds("(?:{}){}".format, inner, st.sampled_from(("*", "+", "?", "{30}", "{0,99}", "*+", "{900,}"))),
            st.builds("({}{})".format, st.sampled_from(("?=", "?!", "?<=", "?<!", "?>", "")), inner),
        ),
        max_leaves=10,
    ),
    st.text("ab-", min_size=1, max_size=4),
)
def test_whatever_is_let_through_is_matched_in_time(text: str, again: str) -> None:
    name = (again * 249)[:249]

    def used() -> None:
        if unfit(text) is None:
            expressions([text]).match(name)
        if unfit_for_values(text) is None:
            with suppress(ValueTooLongError):
                of_value(text)((again * 16_384).encode())

    assert _cpu(used) < 2 * MOST_CPU


def test_ten_thousand_names_and_two_hundred_expressions() -> None:
    texts = [f"(?:a|b)*{letter}(?:a|b){{{count}}}" for letter in "ab" for count in range(1, 101)]
    names = [f"{number:014b}".replace("0", "a").replace("1", "b") for number in range(10_000)]
    assert _cpu(lambda: [expressions(texts).match(name) for name in names]) < 5 * MOST_CPU
