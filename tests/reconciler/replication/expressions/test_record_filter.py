"""``where``: what a test means, that its JSON says the same, and that an equal one has one form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.model.environment.topology import Topology
from reconciler.replication.expressions.record_filter import (
    AllOf,
    AnyOf,
    Equals,
    Exists,
    Header,
    Key,
    Matches,
    Not,
    Prefix,
    Timestamp,
    Where,
    canonical,
    compiled,
    fault,
    filled,
    filter_document,
    read,
)
from reconciler.replication.handover import fingerprint
from reconciler.resources.mirrors.handover import flow_handover
from tests.support.lanes.record_filters import _few, wheres
from tests.support.paths import SCHEMAS

SCHEMA = json.loads((SCHEMAS / "mirror.schema.json").read_text())


@dataclass(frozen=True)
class Record:
    timestamp: int = 0
    key: bytes | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


records = st.builds(
    Record,
    st.integers(0, 6),
    st.none() | _few,
    st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.none() | _few), max_size=3).map(tuple),
)


@given(wheres)
def test_its_json_follows_the_schema_and_says_the_same(where: Where) -> None:
    text = json.dumps(filter_document(where))
    jsonschema.validate(json.loads(text), {"$ref": "#/$defs/where", "$defs": SCHEMA["$defs"]})
    assert read(json.loads(text)) == where


@given(wheres, records)
def test_the_canonical_form_keeps_the_meaning(where: Where, record: Record) -> None:
    assert compiled(canonical(where))(record) is compiled(where)(record)
    assert canonical(canonical(where)) == canonical(where)


@given(st.permutations([Key(Exists(True)), Header("a", Equals(b"1")), Timestamp(5), Not(Timestamp(None, 9))]))
def test_the_order_of_tests_never_matters(parts: list[Where]) -> None:
    one, other = AllOf(tuple(parts)), AllOf((*parts[:2], AllOf(tuple(parts[1:])), parts[0]))
    assert canonical(one) == canonical(other)


@given(wheres, records)
def test_not_is_the_opposite(where: Where, record: Record) -> None:
    assert compiled(Not(where))(record) is not compiled(where)(record)


@pytest.mark.parametrize(
    ("where", "record", "passes"),
    [
        (Key(Equals(b"k")), Record(key=b"k"), True),
        (Key(Equals(b"k")), Record(key=b"kk"), False),
        (Key(Equals(b"")), Record(key=b""), True),
        (Key(Equals(b"")), Record(key=None), False),
        (Key(Prefix(b"\x00\x01")), Record(key=b"\x00\x01\xff"), True),
        (Key(Exists(False)), Record(key=None), True),
        (Key(Exists(False)), Record(key=b""), False),
        (Key(Matches("order-[0-9]+")), Record(key=b"order-12"), True),
        (Key(Matches("order-[0-9]+")), Record(key=b"my order-12"), False),
        (Key(Matches("a.b")), Record(key=b"a\nb"), True),
        (Key(Matches("é")), Record(key="é".encode()), True),
        (Key(Matches(".")), Record(key=b"\xff"), True),
        (Header("h", Equals(b"2")), Record(headers=((b"h", b"1"), (b"h", b"2"))), True),
        (Header("h", Equals(b"1")), Record(headers=((b"H", b"1"),)), False),
        (Header("h", Exists(True)), Record(headers=((b"h", None),)), True),
        (Header("h", Matches(".*")), Record(headers=((b"h", None),)), False),
        (Header("h", Exists(False)), Record(headers=((b"i", b""),)), True),
        (Timestamp(5, 9), Record(timestamp=5), True),
        (Timestamp(5, 9), Record(timestamp=9), False),
        (Timestamp(None, 0), Record(timestamp=-7), True),
    ],
)
def test_what_a_test_means(where: Where, record: Record, passes: bool) -> None:
    assert compiled(where)(record) is passes


ENVIRONMENT = """
clusters:
  east: {bootstrap_servers: ['127.0.0.1:1']}
  west: {bootstrap_servers: ['127.0.0.1:2']}
flows:
  f:
    source: east
    target: west
    topics: [orders]
"""


def _load(flow: str) -> Topology:
    return load({"a.yaml": ENVIRONMENT + flow}, "test")


def _told(flow: str) -> Mapping[str, Any]:
    topology = _load(flow)
    return flow_handover(topology, topology.flows["f"])


def test_yaml_becomes_tests() -> None:
    flow = _load("""
    where:
      all:
        - header: {name: region, equals: eu}
        - any: [{key: {prefix: {hex: "00FF"}}}, {key: {matches: 'o.*'}}]
        - not: {timestamp: {from: 2026-01-01T00:00:00Z, to: 1767225600001}}
    """).flows["f"]
    assert flow.selection == AllOf(
        (
            Header("region", Equals(b"eu")),
            AnyOf((Key(Prefix(b"\x00\xff")), Key(Matches("o.*")))),
            Not(Timestamp(1767225600000, 1767225600001)),
        )
    )
    assert flow.record_work == ("where",)


def test_a_flow_without_record_work_is_handed_over_as_ever() -> None:
    assert not {"where", "headers", "provenance"} & _told("").keys()


def test_order_and_nesting_of_tests_do_not_restart_the_mirror_and_a_change_does() -> None:
    one = _told("    where: {all: [{key: {exists: true}}, {header: {name: a, equals: x}}]}\n")
    same = _told("    where: {all: [{header: {name: a, equals: {hex: '78'}}}, {all: [{key: {exists: true}}]}]}\n")
    other = _told("    where: {any: [{key: {exists: true}}, {header: {name: a, equals: x}}]}\n")
    assert one["fingerprint"] == same["fingerprint"]
    assert len({one["fingerprint"], other["fingerprint"], _told("")["fingerprint"]}) == 3
    assert fingerprint({key: value for key, value in one.items() if key != "fingerprint"}) == one["fingerprint"]


@pytest.mark.parametrize(
    ("flow", "line", "words"),
    [
        ("    where: {header: {name: a}}\n", 10, "header has no test"),
        ("    where: {key: {equals: a, prefix: b}}\n", 10, "key has equals and prefix"),
        ("    where: {header: {equals: a}}\n", 10, "lacks the field name"),
        ("    where: {key: {matches: '('}}\n", 10, "No record could be tested"),
        ("    where: {key: {equals: {hex: 'abc'}}}\n", 10, "3 digits"),
        ("    where: {key: {equals: 5}}\n", 10, "not the number 5"),
        ("    where: {timestamp: {from: yesterday}}\n", 10, "yesterday"),
        ("    where: {timestamp: {from: 9, to: 9}}\n", 10, "not before"),
        ("    where: {all: []}\n", 10, "empty"),
        ("    where: {all: [{key: {exists: true}, not: {}}]}\n", 10, "one test"),
        ("    where: {kye: {exists: true}}\n", 10, "Perhaps you mean key"),
        ("    where:\n      any:\n        - key: {exists: maybe}\n", 12, "true or false"),
        ("    headers: {add: {mirror.path: x}}\n", 10, "Choose another name"),
        ("    headers: {add: {a: '{ofset}'}}\n", 10, "you mean {offset}"),
        ("    headers: {add: {a: '}'}}\n", 10, "{{ and }}"),
        ("    provenance: true\n", 10, "local or forward"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(flow: str, line: int, words: str) -> None:
    with pytest.raises(TopologyError) as caught:
        _load(flow)
    assert any(words in str(problem) and problem.where.line == line for problem in caught.value.problems), str(
        caught.value
    )


@given(st.text(max_size=12))
def test_a_text_without_fault_can_be_filled(value: str) -> None:
    known: dict[str, object] = {"source_cluster": "e", "topic": "t", "partition": 1, "offset": 2, "flow": "f"}
    if fault(value) is None:
        filled(value, **known)
    else:
        assert "{" in value or "}" in value


def test_placeholders() -> None:
    text = filled("{{{topic}}}-{partition}@{offset}", topic="t", partition=3, offset=9, source_cluster="", flow="")
    assert text == "{t}-3@9"
