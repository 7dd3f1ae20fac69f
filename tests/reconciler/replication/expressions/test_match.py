"""RE2 says of whole names what Python's ``re`` says, wherever ``re`` can be waited for."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.replication.expressions.match import MOST_STEPS, ValueTooLongError, expressions, has_part, of_value
from reconciler.replication.expressions.tree import ExpressionError

NAMES = ["".join(word) for size in range(1, 5) for word in itertools.product("ab.-", repeat=size)]
_ATOMS = (
    "a",
    "b",
    "B",
    r"\.",
    "-",
    ".",
    "[ab]",
    "[^a]",
    "[a-b.]",
    "[^A-Z]",
    r"\w",
    r"\W",
    r"[\W_]",
    r"\s",
    r"\S",
    r"\d",
)
_PLACES = ("^", "$", r"\b", r"\B", r"\A", "(?:)", "(?!)")
_SUFFIXES = ("*", "+", "?", "{2}", "{1,2}", "*?", "{0,2}", "{2,}")


def _more(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("(?:|{})".format, inner),
        st.builds("(?:{}){}".format, inner, st.sampled_from(_SUFFIXES)),
        st.builds("(?i:{})".format, inner),
        st.builds("({}{})".format, st.sampled_from(("?!", "?=", "?<!", "?<=", "?:")), inner),
        st.builds("((?!{}).)*".format, inner),
    )


_GRAMMAR = st.recursive(st.sampled_from((*_ATOMS, *_PLACES)), _more, max_leaves=7)


@given(_GRAMMAR)
def test_it_means_what_it_means_to_re(text: str) -> None:
    """Or it is refused; nothing is matched in another way."""
    try:
        whole = re.compile(f"(?:{text})", re.ASCII)
        found = expressions([text])
    except (re.error, ExpressionError):
        return
    for name in NAMES:
        assert found.match(name) is (whole.fullmatch(name) is not None), name


@given(st.lists(_GRAMMAR, max_size=4))
def test_a_list_matches_what_one_of_it_matches(texts: list[str]) -> None:
    try:
        every = [expressions([text]) for text in texts]
    except ExpressionError:
        return
    found = expressions(texts)
    for name in NAMES:
        assert found.match(name) is any(one.match(name) for one in every)
        assert found.first(name) == next(
            (text for text, one in zip(texts, every, strict=True) if one.match(name)), None
        )


@given(
    st.recursive(st.sampled_from((*_ATOMS, *_PLACES)), _more, max_leaves=4), st.binary(min_size=1, max_size=4)
)  # an empty one has places of its own
def test_values_are_bytes(text: str, value: bytes) -> None:
    try:
        whole = re.compile(f"(?:{text})".encode(), re.DOTALL)
        test = of_value(text)
    except (re.error, ExpressionError):
        return
    assert test(value) is (whole.fullmatch(value) is not None)


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        (r"^(?!recommendations$).*", "recommendations2", "recommendations"),
        (r"(?!ref\.).*", "orders", "ref.orders"),
        (r"(?:prod|staging)\.(?!tmp).*", "prod.orders", "staging.tmp.x"),
        (r"(?:prod-)?(?!tmp)[a-z-]*", "prod-a", "tmp"),
        (r".*(?<!-dlq)", "orders", "orders-dlq"),
        (r"((?!internal).)*", "orders", "an-internal-one"),
        (r"(?=.*eu)(?!.*test).*", "orders-eu", "orders-eu-test"),
        (r"\w+", "orders", "é"),
        ("(?i:k)", "K", "\u212a"),
        ("a.b", "a b", "a\r" + "b"),
        ("é+", "éé", "e"),
    ],
)
def test_lookarounds_and_java_s_classes(text: str, yes: str, no: str) -> None:
    assert expressions([text]).match(yes)
    assert not expressions([text]).match(no)


def test_a_part() -> None:
    assert has_part("b|c", "abd")
    assert not has_part("b$", "abd")


@pytest.mark.parametrize("text", ["(?!tmp).*", "(?=.*a.{9})(?=.*b.{9})(?!.*c.{9}).*", "a" * 9_995, ".*(?<!x)"])
def test_a_part_of_what_only_whole_names_can_be_matched_with_is_none(text: str) -> None:
    assert expressions([text])
    assert not has_part(text, "tmp.x")


def test_a_name_that_is_no_text_matches_nothing_and_raises_nothing() -> None:
    assert not expressions(["[a-z]*"]).match("\udc80")


def test_a_value_beyond_the_steps_of_a_record_is_refused_before_it_is_read() -> None:
    test = of_value("a{0,400}b|c")
    with pytest.raises(ValueTooLongError):
        test(b"a" * (MOST_STEPS // 100))
