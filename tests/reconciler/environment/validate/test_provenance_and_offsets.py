"""What would move an offset of a flow that keeps them, and offsets translated over records of a third cluster, are
refused. tests/golden/messages.md has one case of each; here are edges."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.environment.load import load
from reconciler.environment.validate.environment import check
from reconciler.errors import TopologyError
from reconciler.model.environment.flow_settings import OffsetsKept
from reconciler.model.environment.topology import Flow
from reconciler.replication.handover import Naming
from tests.support.builders import flow, topology

FLOW = """\
clusters: {a: {bootstrap_servers: ['a:1']}, b: {bootstrap_servers: ['b:1']}}
flows:
  f: {source: a, target: b, topics: [t]%s}
"""


def kept(source: str, target: str, *topics: str, **fields: object) -> Flow:
    return replace(flow(source, target, *topics), offsets=OffsetsKept.SAME, **fields)  # type: ignore[arg-type]


def codes(*flows: Flow) -> set[str]:
    return {problem.code for problem in check(topology(*flows))}


def test_a_chain_and_a_fan_out_that_keep_the_number_are_fine() -> None:
    assert codes(kept("a", "b", "orders"), kept("b", "c", r"a\.orders"), kept("a", "c", "orders")) == set()


@pytest.mark.parametrize("first", [True, False])
def test_a_chain_of_both_ways_of_copying_is_refused_whichever_comes_first(first: bool) -> None:
    out, on = flow("a", "b", "orders"), flow("b", "c", r"a\.orders")
    mixed = (kept("a", "b", "orders"), on) if first else (out, kept("b", "c", r"a\.orders"))
    assert codes(*mixed) == {"same-offsets-chain"}


def test_flows_beside_each_other_may_differ() -> None:
    assert codes(kept("a", "b", "orders"), flow("a", "c", "orders"), flow("b", "c", "payments")) == set()


def test_default_names_may_flow_both_ways() -> None:
    assert codes(kept("a", "b", "orders"), kept("b", "a", "orders")) == set()


def test_names_that_stay_may_not() -> None:
    stays = {"naming": Naming("identity")}
    assert "same-offsets-two-way" in codes(kept("a", "b", "orders", **stays), kept("b", "a", "orders", **stays))
    assert codes(kept("a", "b", "orders", **stays), kept("b", "a", "payments", **stays)) == set()


def test_a_flow_that_is_translated_says_nothing_of_it() -> None:
    assert load({"e.yaml": FLOW % ""}, "e") == load({"e.yaml": FLOW % ", offsets: translated"}, "e")
    with pytest.raises(TopologyError) as caught:
        load({"e.yaml": FLOW % ", offsets: sometimes"}, "e")
    assert "translated or same" in str(caught.value)


def test_groups_both_ways_are_for_offsets_that_are_the_same() -> None:
    groups = ", groups: {sync_offsets: true, both_ways: true}"
    assert load({"e.yaml": FLOW % f"{groups}, offsets: same"}, "e").flows["f"].groups.both_ways
    with pytest.raises(TopologyError) as caught:
        load({"e.yaml": FLOW % groups}, "e")
    assert [problem.code for problem in caught.value.problems] == ["same-offsets-unused"]


# sync_offsets: an offset is translated over the records of two clusters

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
