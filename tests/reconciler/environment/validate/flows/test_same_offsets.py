"""What moves an offset is refused of a flow that keeps them. docs/change/messages.md has one case of each; here are
edges."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciler.environment.load import load
from reconciler.environment.validate.environment import check
from reconciler.errors import TopologyError
from reconciler.model.environment.flows import OffsetsKept
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
