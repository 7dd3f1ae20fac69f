"""What is listed together, and how long something takes yet."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.backends.connections.errors import Speaker
from reconciler.errors import ReconcilerError
from reconciler.model.principals import AclBinding, Operation, PatternType, Permission, ResourceType
from reconciler.resources.acls.probe.verdict import by_hand
from reconciler.text import grouped, in_shell, moment, one_line, pace_words, printable_json


def test_keys_and_values_keep_their_order() -> None:
    groups = grouped((text[0], text) for text in ("banana", "apple", "blueberry", "apple"))
    assert list(groups.items()) == [("b", ["banana", "blueberry"]), ("a", ["apple", "apple"])]


def test_nothing_makes_no_group() -> None:
    assert grouped(()) == {}


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ReconcilerError("what it is", "Why.", "Do this."), "what it is. Why. Do this."),
        (ReconcilerError("two things:\na\nb"), "two things: a. b"),
        (ReconcilerError("only this"), "only this"),
    ],
)
def test_the_lines_of_an_error_become_sentences(error: ReconcilerError, line: str) -> None:
    assert one_line(error) == line


@given(st.text(max_size=20))
def test_json_shows_letters_and_hides_nothing(text: str) -> None:
    written = printable_json({"a": text})
    assert json.loads(written) == {"a": text}
    assert written.isprintable()


def test_letters_of_any_language_stay_as_they_are() -> None:
    assert printable_json(["Bücher 本", "a\u202eb\x9b\x7f\ud800\U000e0041"]) == (
        '["Bücher 本", "a\\u202eb\\u009b\\u007f\\ud800\\udb40\\udc41"]'
    )


@pytest.mark.parametrize(
    ("done", "of", "seconds", "words"),
    [
        (340, 1_190, 10.0, "34/s, about 25 s left"),
        (2, 10, 20.0, "about 80 s left"),
        (10, 10, 20.0, ""),
        (0, 10, 20.0, ""),
        (5, 10, 1.0, ""),
    ],
)
def test_how_long_it_takes_yet_is_reported_once_that_says_something(
    done: int, of: int, seconds: float, words: str
) -> None:
    assert pace_words(done, of, seconds) == words


@pytest.mark.parametrize("at_ms", [2**62, 2**63 - 1, -(2**63), 10**400, 10**17])
def test_a_time_beyond_any_calendar_is_said_in_figures(at_ms: int) -> None:
    """Timestamps of records are whatever their producer wrote."""
    assert moment(at_ms) == f"{str(at_ms)[:20]} ms after 1970"
    assert moment(0) == "1970-01-01 00:00:00 UTC"


@pytest.mark.parametrize(
    "name", ["orders", "User:plan", "User:*", "$(id)", "`id`", "a;id", "a'b", "User:a'; id; '", "~", "a\nb"]
)
def test_a_name_of_others_is_one_word_of_a_command_that_people_copy(name: str) -> None:
    speaker = Speaker("east", ("east.example:9092",), "plan", name)
    rule = AclBinding(ResourceType.TOPIC, name, PatternType.LITERAL, name, name, Operation.READ, Permission.ALLOW)
    lacking = speaker.acl_command("Read", f"--topic {in_shell(name)}")
    for command, times in ((lacking, 2), (by_hand(rule, True, "east.example:9092"), 2 if name == "*" else 3)):
        assert shlex.split(command).count(name) == times
