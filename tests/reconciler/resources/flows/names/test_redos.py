"""Expressions that would run for ever are refused where they stand; those that people write are not."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.resources.flows.names.redos import backtracks, unfit

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
