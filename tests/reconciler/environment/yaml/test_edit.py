"""An edit changes the characters of one value or adds one entry, and what is read again differs in that alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.environment.yaml.edit import keys_at, place_of, with_entry
from reconciler.environment.yaml.read import read

TEXT = """\
# first
a:
  b: 1   # one
  # before c
  c: "two"
  d: {e: [1, 2], f: 'x # y'}   # braces
  g:
    - 1
    - 2
  # about h
h: &anchor
  i: >-
    folded
    text
j: *anchor
"""


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.b", "1"),
        ("a.c", '"two"'),
        ("a.d", "{e: [1, 2], f: 'x # y'}"),
        ("a.d.e", "[1, 2]"),
        ("a.d.f", "'x # y'"),
        ("a.g", "- 1\n    - 2"),
    ],
)
def test_a_value_ends_before_the_comment_behind_it(path: str, value: str) -> None:
    for text in (TEXT, "\ufeff" + TEXT, TEXT.replace("\n", "\r\n")):
        place = place_of(text, *path.split("."))
        assert place is not None
        assert text[place.value : place.end].replace("\r", "") == value
        assert text[place.key :].startswith(path[-1])


def test_what_is_not_written_there_has_no_place() -> None:
    assert place_of(TEXT, "a", "x") is None
    assert place_of(TEXT, "a", "b", "c") is None
    assert place_of(TEXT, "j") is None, "an alias: the value is another entry's"
    assert keys_at(TEXT, "a", "b") == {}
    assert with_entry(TEXT, "k: 1", "a", "b") is None


NAMES = st.sampled_from("abcdefg")
BLOCKS = st.dictionaries(NAMES, st.integers(0, 99), min_size=1, max_size=5)


@given(BLOCKS, st.booleans(), st.sets(NAMES), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_one_more_entry_is_all_that_is_read_besides(
    block: dict[str, int], braces: bool, commented: set[str], end: str, mark: bool
) -> None:
    if braces:
        inside = "{" + ", ".join(f"{key}: {value}" for key, value in block.items()) + "}"
    else:
        inside = "".join(
            f"{end}{f'  # about {key}{end}' if key in commented else ''}  {key}: {value}"
            for key, value in block.items()
        )
    text = f"{chr(0xFEFF) if mark else ''}top: {inside}{end}next: 1{end}"
    after = with_entry(text, "new: 100", "top")
    assert after is not None
    root = read("f", after).root
    assert root is not None
    assert root.data == {"top": {**block, "new": 100}, "next": 1}
    assert [line for line in after.split(end) if "#" in line] == [line for line in text.split(end) if "#" in line]
