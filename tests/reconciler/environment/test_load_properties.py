"""What holds of loading for any text: order never matters, and no text makes it fail otherwise than by its problems."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.environment.load import load
from reconciler.environment.yaml.read import read
from reconciler.environment.yaml.schema import check_shape, environment_schema
from reconciler.errors import TopologyError
from reconciler.model.environment.topology import Topology

_words = st.sampled_from(
    ["clusters", "topics", "flows", "mirrors", "east", "west", "source", "target", "orders", ".*", "[", "on", "012",
     "7d", "1GiB", "${env:A}", "*a", "&a", "<<", "!!str", "null", "true", "-1", "1.5", "'", '"', "#", "---", "\t",
     "bootstrap_servers", "configs", "retention.ms", "client", "sasl.password", "e:9092", "naming", "start", "é",
     "\u2028"]
)  # fmt: skip
_glue = st.sampled_from([": ", "\n", "\n  ", "\n    ", "- ", ", ", "{", "}", "[", "]", " ", "\n- ", "|", ">", "? "])
_yaml_like = st.lists(st.one_of(_words, _glue), max_size=40).map("".join)
_scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False), _words)
_trees = st.recursive(
    _scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_words, inner, max_size=4)),
    max_leaves=15,
)
_sections = st.sampled_from(["clusters", "topics", "flows", "mirrors", "access", "rollout"])
_documents = st.dictionaries(_sections, st.one_of(_trees, st.dictionaries(_words, _trees, max_size=3)), max_size=4)


def _outcome(texts: dict[str, str]) -> Topology | list[str]:
    try:
        return load(texts, "any")
    except TopologyError as error:
        problems = error.problems
    assert problems
    for problem in problems:
        assert all((problem.code, problem.what, problem.why, problem.todo))
    return [str(problem).encode().decode() for problem in problems]


@given(st.one_of(_yaml_like, st.text(max_size=60)))
@example("\ud800")
@example("&a [*a]")
@example("a: &a {<<: *a}")
@example("? ")
@example("topics: {a: {clusters: [&x east, *x]}}")
@example("%TAG ! x\n---\n!a b")
@example('"\\ud800"')
@example('"\\UFFFFFFFF"')
@example("a: !<tag:yaml.org,2002:binary> x")
@example("%YAML 1.1\n---\na: b")
@example("a: 1_0e5\nb: 9" + "9" * 5000)
def test_any_text_ends_in_a_topology_or_in_problems(text: str) -> None:
    _outcome({"a.yaml": text})


@given(_documents)
def test_any_document_ends_in_a_topology_or_in_problems(document: dict[str, Any]) -> None:
    _outcome({"a.yaml": json.dumps(document)})


PARTS: dict[str, Any] = {
    "clusters": {
        "east": {"bootstrap_servers": ["e:9092"], "client": {"client.id": "1", "linger.ms": "2"}},
        "west": {"bootstrap_servers": ["w:9092"]},
    },
    "topics": {
        "orders": {"clusters": ["east"], "configs": {"retention.ms": "7d", "segment.ms": "1d"}},
        "returns": {"clusters": ["east", "west"]},
        "wrong": {"clusters": ["nort"], "configs": {"retention.ms": "x"}},
    },
    "flows": {
        "there": {"source": "east", "target": "west", "topics": ["orders", "returns"]},
        "again": {"source": "east", "target": "west", "topics": ["customers"]},
    },
    "mirrors": {"west": {"parallelism": 3}},
}


def _shuffled(value: Any, shuffle: random.Random) -> Any:
    if not isinstance(value, dict):
        return value
    keys = list(value)
    shuffle.shuffle(keys)
    return {key: _shuffled(value[key], shuffle) for key in keys}


@pytest.mark.slow
@given(st.randoms(use_true_random=False), st.booleans())
def test_neither_the_order_of_files_nor_of_keys_matters(shuffle: random.Random, sound: bool) -> None:
    parts = dict(PARTS)
    if sound:
        parts["topics"] = {name: topic for name, topic in PARTS["topics"].items() if name != "wrong"}
    texts = {f"{section}.yaml": json.dumps({section: content}) for section, content in parts.items()}
    mixed = {f"{section}.yaml": json.dumps({section: _shuffled(parts[section], shuffle)}) for section in parts}
    files = list(mixed)
    shuffle.shuffle(files)
    plain, other = _outcome(texts), _outcome({file: mixed[file] for file in files})
    if sound:
        assert isinstance(plain, Topology)
        assert plain == other
    else:
        assert isinstance(plain, list)
        assert isinstance(other, list)
        assert sorted(map(_without_place, plain)) == sorted(map(_without_place, other))


def _without_place(message: str) -> str:
    return message.split(": ", 1)[1]


def test_the_schema_looks_at_topics_one_by_one() -> None:
    """What makes it right to judge equal bodies once."""
    topics = environment_schema()["properties"]["topics"]
    assert set(topics) <= {"title", "description", "type", "additionalProperties", "default"}


@given(st.lists(st.sampled_from(["{clusters: [east]}", "{clusters: [east], partitions: 0}", "{}", "7", "{a: 1}"])))
def test_equal_bodies_are_judged_as_each_of_them(bodies: list[str]) -> None:
    text = "clusters: {east: {bootstrap_servers: ['a:9092']}}\ntopics:\n"
    text += "".join(f"  t{number}: {body}\n" for number, body in enumerate(bodies)) or "  {}\n"
    wrong = {problem.where.line for problem in check_shape(read("a.yaml", text))}
    assert wrong == {3 + number for number, body in enumerate(bodies) if body != "{clusters: [east]}"}
