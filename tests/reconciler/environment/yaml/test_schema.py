"""What the quick validator calls valid is valid to jsonschema, too; and it calls valid files so."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from reconciler.environment.yaml.read import read
from reconciler.environment.yaml.schema import environment_schema
from tests.support.paths import ENVIRONMENTS

FILES = sorted(ENVIRONMENTS.rglob("*.yaml"))
SCHEMA = environment_schema()
QUICK, WHOLE = jsonschema_rs.validator_for(SCHEMA).is_valid, Draft202012Validator(SCHEMA)

LARGE = """
clusters:
  east: {bootstrap_servers: ["a:1", "b:1"], cluster_id: x, region: eu, client: {sasl.username: u},
         principals: {plan: {sasl.password: "${env:P}"}}, defaults: {configs: {retention.ms: 7d}}}
  west: {bootstrap_servers: ["c:1"], prune: {topics: ["tmp.*"]}}
topics:
  orders: {clusters: [east], partitions: 3, replication_factor: 1, configs: {a: 1, b: true}, labels: {team: pay}}
flows:
  one: {source: east, target: west, topics: ["orders.*"], start: latest, rate_limit: 10MiB, lanes: 2,
        naming: {policy: "a.b:C"}, where: {header: {name: kind, equals: x}}, on_condition: stop}
  two: {source: east, target: west, topics: [b], start: {timestamp: "2026-01-01T00:00:00Z"}, naming: {policy: identity},
        on_condition: {source_retention_passed: continue}}
mirrors: {west: {flows: [one, two], parallelism: 2, metrics_port: 0}}
quotas: [{clusters: [east], user: u, request_percentage: 20.5}]
x-anchors: {whatever: [1, {}]}
"""


def data(text: str) -> Any:
    document = read("a.yaml", text)
    assert not document.problems
    assert document.root is not None
    return document.root.data


def spots(tree: Any) -> list[tuple[Any, Any]]:
    """Every place in it: (collection, key)."""
    places = [(tree, key) for key in (tree if isinstance(tree, dict) else range(len(tree)))]
    deeper = [place for holder, key in places if isinstance(holder[key], dict | list) for place in spots(holder[key])]
    return places + deeper


values = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 70_000), st.floats(), st.text(max_size=3), st.just([]), st.just({}),
    st.sampled_from(["7d", "latest", "identity", "continue", "a:1", "east", 1.0, ["a", "a"], ["a", "b"], [1, True]]),
    st.dictionaries(st.sampled_from(["timestamp", "offsets", "orders", "0", "é"]), st.integers(), max_size=2),
)  # fmt: skip


@given(st.data())
def test_what_is_quickly_called_valid_is_valid(draw: st.DataObject) -> None:
    tree = data(LARGE)
    for _ in range(draw.draw(st.integers(1, 3), label="edits")):
        holder, key = draw.draw(st.sampled_from(spots(tree)), label="place")
        match draw.draw(st.sampled_from(["replace", "remove", "add"]), label="edit"):
            case "replace":
                holder[key] = copy.deepcopy(draw.draw(values, label="value"))
            case "add" if isinstance(holder, dict):
                holder[draw.draw(st.text(max_size=2), label="key")] = copy.deepcopy(draw.draw(values, label="value"))
            case "add":
                holder.append(copy.deepcopy(draw.draw(values, label="value")))
            case _:
                del holder[key]
    if QUICK(tree):
        assert WHOLE.is_valid(tree)


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ENVIRONMENTS)) for path in FILES])
def test_a_valid_file_is_seen_to_be_valid(path: Path) -> None:
    assert QUICK(data(path.read_text()))


def test_so_is_a_file_with_all_that_can_be_said() -> None:
    assert QUICK(data(LARGE))


def test_an_environment_without_mistakes_is_read_without_jsonschema() -> None:
    program = """
import sys
from pathlib import Path
from reconciler.backends.files import read_environment
from reconciler.environment.load import load

load(read_environment(Path(sys.argv[1])), "sandbox")
sys.exit(" ".join({"jsonschema", "ruamel.yaml"} & sys.modules.keys()) or 7)
"""
    words = [sys.executable, "-c", program, str(ENVIRONMENTS / "sandbox")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (7, "")
