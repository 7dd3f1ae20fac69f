"""Java's properties format: what is written is read back, as java.util.Properties reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.environment.importers.mirrormaker.properties_file import decoded, parse

TEXT = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029\ufffe\uffff"), max_size=12
)
BLANKS = st.text(" \t\f", max_size=3)
SIGNS = st.sampled_from(("=", ":", " ", "\t"))
ENDS = st.sampled_from(("\n", "\r\n", "\r"))


def escaped(text: str, key: bool) -> str:
    """As Properties.store writes it: every character above ASCII as UTF-16 units."""
    written = []
    for index, char in enumerate(text):
        if ord(char) > 0x7E:
            units = char.encode("utf-16-be")
            written += [f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
        elif char in "=:#!\\" or (char == " " and (key or index == 0)):
            written.append(f"\\{char}")
        else:
            written.append(char)
    return "".join(written)


@given(st.lists(st.tuples(TEXT.filter(bool), TEXT, BLANKS, SIGNS, BLANKS, ENDS), max_size=6), st.booleans())
def test_what_is_written_is_read(rows: list[tuple[str, str, str, str, str, str]], latin: bool) -> None:
    lines = [f"{a}{escaped(k, True)}{a}{sign}{b}{escaped(v, False)}{end}" for k, v, a, sign, b, end in rows]
    whole = "# a comment \\\n".join(lines).encode("iso-8859-1" if latin else "utf-8")
    found, mistakes = parse("f", decoded(whole))
    assert mistakes == ()
    assert [(one.name, one.value) for one in found] == [(k, v) for k, v, *_ in rows]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_reported(content: bytes) -> None:
    found, mistakes = parse("f", decoded(content))
    last = decoded(content).replace("\r", "\n").count("\n") + 1
    places = [one.where for one in found] + [one.where for one in mistakes]
    assert all(1 <= where.line <= last for where in places)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a b", [("a", "b")]),
        ("a=b=c", [("a", "b=c")]),
        ("a : = b", [("a", "= b")]),
        ("a", [("a", "")]),
        ("a\\ b=c", [("a b", "c")]),
        ("a=b, \\\n\t c, \\\n  # no comment", [("a", "b, c, # no comment")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("! a=b\\\nc=d", [("c", "d")]),
        ("a=b \\", [("a", "b ")]),
        ("a=\\t\\u00e4\\q", [("a", "\täq")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
    ],
)
def test_lines_are_read_as_java_reads_them(text: str, read: list[tuple[str, str]]) -> None:
    assert [(one.name, one.value) for one in parse("f", text)[0]] == read


def test_all_mistakes_are_reported_with_their_line() -> None:
    found, mistakes = parse("f", "a=\\u12\n\nb=ok\nc=\\u0000\n")
    assert [one.name for one in found] == ["b"]
    assert [one.where.line for one in mistakes] == [1, 4]


def test_a_file_that_a_shell_of_windows_wrote_is_read() -> None:
    """``curl ... > connectors.json`` is UTF-16 there."""
    assert decoded("a=ü\r\n".encode("utf-16")) == "a=ü\r\n"
