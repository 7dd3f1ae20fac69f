"""Expressions that differ in the order of alternatives have one form, and no form matches other names."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.resources.flows.names.normalise import in_one_order
from reconciler.resources.mirrors.handover import mirror_handover
from tests.support.builders import flow, topic, topology

Tree = tuple[str, list[list["Tree"]]]
"""Literal text, or a group's beginning with its alternatives."""

_PIECES = st.sampled_from(
    ["a", "b", ".", "a*", r"\.", r"\|", r"\(", "[|)]", "[]a]", r"[^\]b]", "x{2}", "^", "$", "", "a??"]
)


def _nested(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    starts = st.sampled_from(["(", "(?:", "(?=", "(?!", "(?i:", "(?<!"])
    alternatives = st.lists(st.lists(inner, max_size=2), min_size=1, max_size=3)
    return st.tuples(starts, alternatives)


_TREES: st.SearchStrategy[Any] = st.recursive(st.tuples(_PIECES, st.just([])), _nested, max_leaves=8)
_NAMES = st.text("abx.|()-", max_size=5)


def written(tree: Tree, shuffle: random.Random | None) -> str:
    text, alternatives = tree
    if not alternatives:
        return text
    parts = ["".join(written(one, shuffle) for one in each) for each in alternatives]
    # Flags and looking behind stay as they are written: there the order within is not touched
    if shuffle and text not in ("(?i:", "(?<!"):
        shuffle.shuffle(parts)
    return f"{text}{'|'.join(parts)})"


def _legal(text: str) -> bool:
    try:
        re.compile(f"(?:{text})")
    except re.error:
        return False
    return True


@given(_TREES, st.randoms(use_true_random=False), st.lists(_NAMES, min_size=5))
def test_no_order_of_alternatives_makes_another_form_or_language(
    tree: Tree, shuffle: random.Random, names: list[str]
) -> None:
    text = written(tree, None)
    if not _legal(text):
        return
    [form] = in_one_order([text])
    assert in_one_order([form]) == (form,)
    for name in names:
        assert bool(re.fullmatch(form, name)) == bool(re.fullmatch(text, name))
    if "(?i:" not in text and "(?<!" not in text:
        assert in_one_order([written(tree, shuffle)]) == (form,)


@pytest.mark.parametrize("text", [r"(?P<x>b|a)(?P=x)", "(b|a)++", "(?>b|a)", "(?(1)b|a)", "b|[a", "b|a)", "b\\"])
def test_where_order_may_count_or_nothing_is_understood_it_stays(text: str) -> None:
    assert in_one_order([text]) == (text,)


def test_forms_people_write() -> None:
    assert in_one_order(["pay|orders", "b"]) == ("b", "orders|pay")
    assert in_one_order([r"(pay|orders)(\.(eu|de))?"]) == (r"(orders|pay)(\.(de|eu))?",)
    assert in_one_order(["(?!x|a)(b|b|a).*"]) == ("(?!a|x)(a|b).*",)
    assert in_one_order(["orders|pay", "pay|orders"]) == ("orders|pay",)


def test_no_order_of_alternatives_restarts_a_mirror() -> None:
    told = []
    for text, without in (("pay|orders", "(b|a).*"), ("orders|pay", "(a|b).*")):
        one = replace(flow("east", "west", text), exclude_topics=(without,))
        world = topology(topic("orders"), topic("pay"), one)
        told.append(mirror_handover(world, world.mirrors["west"]))
    assert told[0] == told[1]
