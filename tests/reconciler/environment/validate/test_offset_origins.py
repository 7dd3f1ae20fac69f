"""Offsets follow records of two clusters: where a third one writes to the same topics, sync is refused."""

from __future__ import annotations

import pytest

from reconciler.environment.load import load
from reconciler.errors import TopologyError

CLUSTERS = "".join(f"  {name}: {{bootstrap_servers: ['127.0.0.1:{19092 + n}']}}\n" for n, name in enumerate("abc"))
SAME = "naming: {policy: identity}, provenance: local"


def problems(*flows: str) -> list[str]:
    text = f"clusters:\n{CLUSTERS}flows:\n" + "".join(f"  f{n}: {{{flow}}}\n" for n, flow in enumerate(flows))
    try:
        load({"a.yaml": text}, "example")
    except TopologyError as error:
        return [problem.code for problem in error.problems]
    return []


def ab(topics: str = "orders", sync: str = "true") -> str:
    return f"source: a, target: b, topics: ['{topics}'], {SAME}, groups: {{sync_offsets: {sync}}}"


def other(source: str, target: str, topics: str = "orders") -> str:
    return f"source: {source}, target: {target}, topics: ['{topics}'], {SAME}"


@pytest.mark.parametrize("target", ["a", "b"])
@pytest.mark.parametrize("topics", ["orders", "ord.*", ".*"])
def test_a_third_cluster_that_writes_the_same_topics_is_refused(target: str, topics: str) -> None:
    assert problems(ab(), other("c", target, topics)) == ["offsets-of-three-clusters"]


@pytest.mark.parametrize(
    "flows",
    [
        pytest.param((ab(), other("b", "a")), id="two clusters, both ways"),
        pytest.param((ab(), other("c", "b", "prices")), id="other topics"),
        pytest.param((ab(), other("b", "c")), id="away from both"),
        pytest.param((ab(sync="false"), other("c", "b")), id="no sync"),
    ],
)
def test_all_else_is_allowed(flows: tuple[str, ...]) -> None:
    assert problems(*flows) == []
