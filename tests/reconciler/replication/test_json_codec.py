"""The JSON codec: what it writes it reads, everything else it refuses, and says where."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.replication.json_codec import SPARSE, Codec, JsonRecord, MalformedError, named, parsed


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    count: int | None = None
    loud: bool = False


@dataclass(frozen=True, slots=True)
class Whole:
    """Everything that a field can be."""

    title: str = field(metadata=named("name"))
    colour: Colour
    parts: tuple[Part, ...]
    pair: tuple[int, str] | None
    by_place: Mapping[tuple[str, int], tuple[int, ...]]
    by_number: Mapping[int, Part]
    words: frozenset[str]
    raw: bytes
    extra: str = field(default="", metadata=SPARSE)


PARTS = st.builds(Part, st.text(), st.none() | st.integers(), st.booleans())
WHOLES = st.builds(
    Whole,
    st.text(),
    st.sampled_from(Colour),
    st.lists(PARTS, max_size=3).map(tuple),
    st.none() | st.tuples(st.integers(), st.text()),
    st.dictionaries(st.tuples(st.text(), st.integers()), st.lists(st.integers(), max_size=3).map(tuple), max_size=3),
    st.dictionaries(st.integers(), PARTS, max_size=3),
    st.frozensets(st.text(), max_size=3),
    st.binary(max_size=5),
    st.text(max_size=2),
)
WHOLE = Whole(
    "w", Colour.RED, (Part("a"), Part("b", 1)), (1, "x"), {("t", 0): (1,)}, {3: Part("c")}, frozenset("ba"), b"\1"
)


@pytest.mark.parametrize("codec", [Codec(), Codec(rows=True), Codec(lenient=True)], ids=["fields", "rows", "lenient"])
@given(whole=WHOLES)
def test_what_is_written_is_read_as_it_was(codec: Codec, whole: Whole) -> None:
    for _ in range(2):  # the second time by what is known of the first
        assert codec.decoded(Whole, json.loads(json.dumps(codec.encoded(whole)))) == whole


def test_the_document_is_what_a_person_would_write() -> None:
    assert Codec().encoded(WHOLE) == {
        "name": "w",
        "colour": "red",
        "parts": [{"name": "a", "count": None, "loud": False}, {"name": "b", "count": 1, "loud": False}],
        "pair": [1, "x"],
        "by_place": {"t": {"0": [1]}},
        "by_number": {"3": {"name": "c", "count": None, "loud": False}},
        "words": ["a", "b"],
        "raw": "01",
    }
    assert Codec(rows=True).encoded(Part("a", 1)) == ["a", 1, False]


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("name",), 5, "name is 5; it must be text"),
        (("colour",), "green", "colour is 'green'; it must be one of red, blue"),
        (("colour",), [], r"colour is \[\]; it must be one of"),
        (("parts", 1, "count"), "1", "parts.1.count is '1'; it must be a whole number"),
        (("parts", 0, "count"), True, "parts.0.count is True; it must be a whole number"),
        (("parts", 0, "loud"), 0, "parts.0.loud is 0; it must be true or false"),
        (("parts", 0), {}, "parts.0 lacks the field 'name', 'count', 'loud'"),
        (("parts",), {}, "parts is {}; it must be an array"),
        (("pair",), [1], "pair has 1 items; it must have 2"),
        (("pair", 1), 2, "pair.1 is 2; it must be text"),
        (("by_place", "t", "x"), [1], "by_place.t has the key 'x'; it must be a whole number"),
        (("by_place", "t", "0"), [None], "by_place.t.0.0 is None"),
        (("by_number",), [], "by_number is .*must be an object"),
        (("raw",), "0", "raw is '0'; it must be hex digits"),
        (("strange",), 1, "it has unknown fields: strange"),
    ],
)
def test_anything_else_is_refused_with_its_path_and_its_value(path: tuple[Any, ...], value: object, told: str) -> None:
    document = Codec().encoded(WHOLE)
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(MalformedError, match=told):
        Codec().decoded(Whole, document)


@pytest.mark.parametrize("row", [["a"], ["a", "1", False], {"name": "a"}, ["a", 1, False, 2], ["a", 1, 0]])
def test_a_row_of_other_types_is_refused_also_after_a_good_one(row: Any) -> None:
    codec = Codec(rows=True)
    assert codec.decoded(Part, ["a", 1, False]) == codec.decoded(Part, ["a", 1, False]) == Part("a", 1)
    with pytest.raises(MalformedError):
        codec.decoded(Part, row)


def test_a_lenient_codec_reads_what_another_release_wrote() -> None:
    codec = Codec(lenient=True)
    assert codec.decoded(Part, {"name": "a", "of_tomorrow": 1}) == Part("a")
    with pytest.raises(MalformedError, match="lacks the field 'name'"):
        codec.decoded(Part, {"count": 1})


def test_values_of_its_own() -> None:
    codec = Codec({Part: (lambda part: part.name, Part)})
    assert codec.encoded(WHOLE)["parts"] == ["a", "b"]
    assert codec.decoded(Whole, {**codec.encoded(WHOLE), "by_number": {"3": "d"}}).by_number == {3: Part("d")}


@pytest.mark.parametrize("text", [b"", b"5", b"[]", b"{}", b'{"format_version": 2, "name": "a"}', b"\xff"])
def test_a_record_of_another_kind_or_version_is_refused_by_name(text: bytes) -> None:
    record = JsonRecord(Part, "part", codec=Codec(lenient=True))
    assert record.loads(record.dumps(Part("a", 2))) == Part("a", 2)
    with pytest.raises(ValueError, match="no part: "):
        record.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        b'{"name": "\\ud800"}',
        b'{"\\udfff": 1}',
        b'{"name": "\xed\xa0\x80"}',
        '{"name": "\ud800"}',
        b'{"count": NaN}',
        b'{"count": -Infinity}',
        b'{"count": 1e999}',
        b'{"count": ' + b"9" * 5000 + b"}",
        b"[" * 3000,
        b"\xff",
        b'{"count": 1, "count": 2}',
        b'{"a": [{"count": 1, "\\u0063ount": 1}]}',
    ],
)
def test_what_could_not_be_written_again_is_not_read(text: str | bytes) -> None:
    """Else it would fail where nobody expects it, such as in a digest of it."""
    with pytest.raises(ValueError, match=r"."):
        parsed(text)
    assert parsed('{"name": "\\ud83d\\ude00 é", "count": 1.5}') == {"name": "\U0001f600 é", "count": 1.5}
