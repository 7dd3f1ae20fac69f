"""Languages of topic names agree with Python's re and the naming policy: all short names, random patterns."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.replication.policy import DefaultReplicationPolicy, is_cycle
from reconciler.resources.flows.names.automata import (
    EVERYTHING,
    NOTHING,
    After,
    Complement,
    Intersection,
    Language,
    Memoised,
    Prefixed,
    Union,
    every_name,
    names,
    shortest,
)
from reconciler.resources.flows.names.policy_rules import Ending, Hops, internal
from reconciler.resources.flows.names.regex import pattern

CHARS = "ab.-"
SHORT = ["".join(word) for size in range(1, 6) for word in itertools.product(CHARS, repeat=size)]
TOPICS = [name for name in SHORT if name not in (".", "..")]

_atoms = st.sampled_from(["a", "b", r"\.", "-", ".", "[ab]", "[^a]", "[a-b.]", r"\w", r"\W", "c", "(?:)", "^", "$"])


def contains(language: Language, name: str) -> bool:
    state = language.start()
    for char in name:
        state = language.step(state, char)
    return language.accepts(state)


def _more(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    suffix = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "*?", "{0,2}"])
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, suffix).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        inner.map(lambda body: f"({body})"),
    )


expressions = st.recursive(_atoms, _more, max_leaves=6)


@given(expressions)
def test_a_pattern_holds_just_the_names_that_match(text: str) -> None:
    found = pattern(text)
    assert found.exact
    compiled = re.compile(text)
    assert [n for n in SHORT if contains(found.language, n)] == [n for n in SHORT if compiled.fullmatch(n)]


@given(expressions, expressions, expressions)
def test_intersection_is_empty_exactly_when_brute_force_finds_none(one: str, two: str, without: str) -> None:
    language = Intersection((pattern(one).language, pattern(two).language, Complement(pattern(without).language)))

    def matches(name: str) -> bool:
        return bool(re.fullmatch(one, name) and re.fullmatch(two, name) and not re.fullmatch(without, name))

    found = shortest(language)
    expected = next((name for name in TOPICS if matches(name)), None)
    if found is not None:
        assert matches(found)
        assert expected is None or len(found) <= len(expected)
    else:
        assert expected is None


@given(expressions, st.sampled_from(["a", "b.", "a-b"]))
def test_prefixes_continue_and_off(text: str, prefix: str) -> None:
    language = Memoised(pattern(text).language)
    for name in SHORT[:200]:
        assert contains(Prefixed(prefix, language), prefix + name) == contains(language, name)
        assert contains(After(prefix, language), name) == contains(language, prefix + name)
        assert contains(Prefixed(prefix, language), name) == (
            name.startswith(prefix) and contains(language, name.removeprefix(prefix))
        )


@pytest.mark.parametrize(
    ("separator", "alias", "chars"),
    [(".", "a", "ab."), ("--", "a-b", "ab-"), ("--", "b", "ab-"), ("ab", "a", "abc"), (".", "a.b", "ab.")],
)
def test_the_cycle_rule_is_that_of_the_policy(separator: str, alias: str, chars: str) -> None:
    policy, language = DefaultReplicationPolicy(separator), Hops(alias, separator)
    for size in range(1, 9):
        for word in itertools.product(chars, repeat=size):
            name = "".join(word)
            assert contains(language, name) == is_cycle(policy, name, alias), name


@pytest.mark.parametrize("separator", [".", "-", "2"])
def test_the_rule_for_internal_topics_is_that_of_the_policy(separator: str) -> None:
    policy, language = DefaultReplicationPolicy(separator), internal(separator)
    parts = ["mm2", "internal", "checkpoints", separator, "__", ".", "x"]
    for size in range(1, 5):
        for word in itertools.product(parts, repeat=size):
            name = "".join(word)
            assert contains(language, name) == policy.is_internal_topic(name), name


def test_beginning_and_end_may_overlap() -> None:
    language = Ending("ab", prefix="ba")
    assert [name for name in SHORT if contains(language, name)] == [
        name for name in SHORT if name.startswith("ba") and name.endswith("ab")
    ]


def test_names_come_short_ones_first_and_are_legal() -> None:
    found = list(itertools.islice(names(pattern(r"[.]*|a{3}").language), 3))
    assert found == ["...", "aaa"] or found == ["aaa", "..."]
    assert shortest(EVERYTHING) == "a"
    assert shortest(NOTHING) is None
    assert shortest(Union((NOTHING, pattern("b").language))) == "b"


def test_names_that_are_too_long_are_none() -> None:
    assert shortest(pattern("a{249}").language) == "a" * 249
    assert shortest(pattern("a{250}").language) is None


@pytest.mark.parametrize("text", [r"a\b.*", r"(?!a\b).*", r"(?:b|a\B).*"])
def test_without_an_automaton_the_language_is_larger_and_says_so(text: str) -> None:
    found = pattern(text)
    assert not found.exact
    for name in SHORT:
        assert contains(found.language, name) or not re.fullmatch(text, name), name


@pytest.mark.parametrize(
    "text",
    [
        r"(?!a\.).*",
        "(?=a).*b",
        "(?!a)(?!b).*",
        "(?i:A)b",
        "(?:(?i:a)|B)[A-B]*",
        "a(?=-)-b",
        "a(?<!b)-",
        "(?:a|ab)(?!b).*",
        "b?(?!a).*",
        ".*(?<!-b)",
        ".*(?<!a)$",
        "((?!a-).)*",
        "a|(?!b)(?:-|.*a)",
        "(?!(?!a).*b).*",
        ".*(?!b)$",
        ".*(?=b)b",
    ],
)
def test_lookarounds_at_a_known_place_and_local_flags_are_exact(text: str) -> None:
    found: Language = pattern(text).language
    assert pattern(text).exact
    assert [n for n in SHORT if contains(found, n)] == [n for n in SHORT if re.fullmatch(text, n)]


def test_too_large_an_expression_is_not_exact() -> None:
    found = pattern("(?:a{90}){90}")
    assert not found.exact
    assert contains(found.language, "b")


def test_all_names_of_a_language_that_has_few() -> None:
    assert every_name(pattern("orders|pay(ments)?").language, 10) == ("pay", "orders", "payments")
    assert every_name(pattern("a[0-9]{2}").language, 50) is None
    assert every_name(pattern("a.*").language, 100) is None
