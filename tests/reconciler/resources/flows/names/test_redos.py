"""Expressions that would run for ever are refused where they stand; those that people write are not."""

from __future__ import annotations

import contextlib
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.resources.flows.names.redos import backtracks, unfit, unfit_for_values

CLUSTERS = "clusters:\n  east: {bootstrap_servers: ['e:1']}\n  west: {bootstrap_servers: ['w:1']}\n"


@pytest.mark.parametrize(
    "text",
    [
        "(a+)+b",
        "(.*)*x",
        r"([a-z]+)*\d",
        "(a|b*)*x",
        "(a|aa)+b",
        "(a?a)*b",
        "(x+x+)+y",
        "((a*)*)*b",
        "(.*a){9}",
        "(?:.*,?)*z",
        "(a|a)*b",
        "(?:(?:a?)*c)*d",
    ],
)
def test_exponential(text: str) -> None:
    assert backtracks(text)


@pytest.mark.parametrize(
    "text",
    [
        ".*",
        r"orders(\..*)?",
        r"(\.[a-z]+)*",
        r"([a-z]+\.)+x",
        r"([a-z]+\.){9}x",
        "a*a*b",
        "(a|b)*",
        "(ab|a)*b",
        "(?!test).*",
        r"[a-z]{1,3}(\.[a-z]{1,30})*",
        "(a+){3}b",
        r"(eu|us|ap)\.(orders|payments)(\..*)?",
        ".*-.*-.*",
        "a{1,300}b",
    ],
)
def test_not_exponential(text: str) -> None:
    assert unfit(text) is None


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.sampled_from(("a", "b", "[ab]")),
        lambda inner: st.one_of(
            st.builds("{}{}".format, inner, inner),
            st.builds("(?:{}|{})".format, inner, inner),
            st.builds("(?:{})*".format, inner),
            st.builds("(?:{})?".format, inner),
        ),
        max_leaves=5,
    )
)
def test_what_is_let_through_is_matched_in_time(text: str) -> None:
    if backtracks(text):
        return
    used = 0.0
    for name in ("a" * 22 + "c", "ab" * 11 + "c", "b" * 22 + "c"):
        began = time.thread_time()
        re.fullmatch(f"(?:{text})c?d", name)
        used = max(used, time.thread_time() - began)
    assert used < 1.0  # of this thread alone; two to the power of 22 ways take longer


def test_deep_nesting_is_judged_at_once() -> None:
    assert backtracks("(?:" * 30 + "a*" + ")*" * 30)


@pytest.mark.parametrize(
    "text",
    [
        "flows: {f: {source: east, target: west, topics: ['(a+)+b']}}\ntopics: {%s: {clusters: [east]}}\n" % ("a" * 60),
        "flows: {f: {source: east, target: west, topics: [x], exclude_topics: ['(a+)+b']}}\n",
        "flows: {f: {source: east, target: west, topics: [x], groups: {include: ['(a+)+b']}}}\n",
        "flows: {f: {source: east, target: west, topics: [x], where: {key: {matches: '(a+)+b'}}}}\n",
        "protected: ['(a+)+b']\n",
    ],
)
def test_it_is_refused_wherever_it_stands(text: str) -> None:
    with pytest.raises(TopologyError) as caught:
        load({"e.yaml": CLUSTERS + text}, "e")
    assert {one.code for one in caught.value.problems} == {"regex-backtracks"}


# what costs too much without a loop that is exponential (L4 of the security review)

SHARED = (
    ".*.*.*.*.*.*x",
    "a*a*a*a*a*b",
    ".*-.*-.*-.*-.*-.*-x",
    "[^a]*" * 12,
    "a?" * 30 + "a" * 30,
    "(a?){60}a{60}",
    "(a+)+" + "b" * 200,
    ".*ab.*ab.*ab.*ab.*ab.*x",
)
LINEAR = (
    ".*eu.*",
    "order-[0-9]+",
    "[a-z]{1,249}",
    "(eu|us|ap)-[a-z]+",
    r"[a-z]+\.[a-z]+\.[a-z]+",
    "a{1,300}b",
    "x?y?z?",
    "(?!test).*",
)
LONG_LISTS = (
    "|".join(f"topic-{number}" for number in range(900)),
    r"(?:eu|us)\.(?:" + "|".join(f"t{n}" for n in range(200)) + r")(\..*)?",
)


@pytest.mark.parametrize("text", SHARED)
def test_repetitions_that_share_a_name_among_them_are_refused(text: str) -> None:
    wrong = unfit(text)
    assert wrong is not None
    assert wrong.code in ("regex-costly", "regex-backtracks")


@pytest.mark.parametrize("text", [*LINEAR, *LONG_LISTS, ".*-.*-.*", r".*\..*\..*\..*\..*", "a*a*b", "(a+){3}b"])
def test_those_that_people_write_stay(text: str) -> None:
    assert unfit(text) is None


@pytest.mark.parametrize("text", [".*eu.*prod", "a*a*b", "(a+){3}b", "[a-z]*[a-z0-9]*x", *SHARED])
def test_a_value_of_any_length_is_matched_in_a_time_that_grows_with_it(text: str) -> None:
    assert unfit_for_values(text) is not None


@pytest.mark.parametrize("text", LINEAR)
def test_what_takes_no_longer_than_its_value_stays(text: str) -> None:
    assert unfit_for_values(text) is None


PIECES = (".*", "a*", "[ab]+", "a?", "b{0,9}", "-", "ab", "(?:a|b)", "(?:ab)*", "a{2}")


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=14),
    st.text("ab-", min_size=1, max_size=4),
)
def test_whatever_is_let_through_is_matched_in_time(parts: list[str], again: str) -> None:
    text = f"(?:{''.join(parts)})c?d"  # judged whole: an expression that ends with .* matches at once
    if unfit(text):
        return
    began = time.thread_time()
    re.fullmatch(text, (again * 90)[:90] + "c")
    assert time.thread_time() - began < 2.0


@pytest.mark.parametrize("text", [".*a.{20}", ".*a.{14}b.*", "(?:[ab]*a[ab]{12})|x.*y.*z", "a{0,65535}"])
def test_what_takes_a_large_automaton_is_judged_in_time(text: str) -> None:
    """``.*a.{20}`` took 5.2 s in the security review."""
    flow = f"flows: {{f: {{source: east, target: west, topics: ['{text}'], exclude_topics: ['{text}']}}}}\n"
    began = time.thread_time()
    with contextlib.suppress(TopologyError):
        load({"e.yaml": CLUSTERS + flow}, "e")
    assert time.thread_time() - began < 3.0


@pytest.mark.parametrize("text", [".*eu.*prod", "[[a]*.*.*.*x", "a{99999999999}"])
def test_a_filter_of_records_is_held_to_it(text: str) -> None:
    where = f"{{header: {{name: h, matches: '{text}'}}}}"
    flow = f"flows: {{f: {{source: east, target: west, topics: [x], where: {where}}}}}\n"
    with pytest.raises(TopologyError) as caught:
        load({"e.yaml": CLUSTERS + flow}, "e")
    assert {problem.code for problem in caught.value.problems} <= {"regex-costly", "bad-regex"}
