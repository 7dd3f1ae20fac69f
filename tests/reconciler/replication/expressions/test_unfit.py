"""What cannot be matched is refused, with what to write instead."""

from __future__ import annotations

import re

import pytest

from reconciler.replication.expressions.unfit import unfit


@pytest.mark.parametrize(
    ("text", "what", "todo"),
    [
        ("orders[", "unterminated character set at position 7", "Correct"),
        ("*orders", "nothing to repeat at position 1", r"Write \.\*orders"),
        (r"\p{Alpha}+", "character class of Java", r"Write \[A-Za-z\]"),
        (r"[\p{Lower}_]+", "character class of Java", r"Write a-z"),
        (r"\P{Digit}+", "character class of Java", r"Write \[\^0-9\]"),
        (r"\pL+", "character class of Java", r"Write \[A-Za-z\]"),
        (r"\Qa.b\E", r"\\Q at position 1 quotes in Java", r"Write a\\\.b"),
        (r"x\Qa+", "quotes in Java", r"Write a\\\+"),
        ("(?<part>a)", "names a group in Java", r"\(\?:"),
        (r"(?:a)\k<part>", "refers to a group in Java", "text out"),
        ("[a-z&&[^b]]", "intersects sets in Java", "set that is left"),
        ("[[:alpha:]]", "nests sets", "one set"),
        (r"orders\z", "end in Java", "Leave it out"),
        ("(?i)orders", "whole list", r"\(\?i:orders\)"),
        (r"(a)-\1", "refers back to a group", "text out"),
        ("(?P<x>a)(?P=x)", "refers back to a group", "text out"),
        ("a++", "repeats possessively", r"a\+"),
        ("(?>a|ab)-", "atomic group", r"\(\?:"),
        (r"[a-z]+\.(?!tmp).*", "follows a part of any length", "exclude"),
        ("(?:(?!a)b)*", "in a repetition", "exclude"),
    ],
)
def test_a_faulty_expression_is_explained(text: str, what: str, todo: str) -> None:
    found = unfit(text)
    assert found is not None
    assert found.code == "bad-regex"
    assert re.search(what, found.what)
    assert re.search(todo, found.todo)


@pytest.mark.parametrize("text", ["orders", r"payments\..*", r"\\Q", r"(?P<x>a)", "a|b", r"\d{1,3}", "[&]&", r"\\p"])
def test_a_sound_expression_has_no_fault(text: str) -> None:
    assert unfit(text) is None
