"""``moved``: the first name of a flow, and renames that cannot be carried out."""

from __future__ import annotations

import pytest

from reconciler.environment.load import load
from reconciler.errors import TopologyError
from reconciler.model.environment.topology import Topology

FILES = """
clusters:
  east: {bootstrap_servers: [a:9092]}
  west: {bootstrap_servers: [b:9092]}
flows:
  new: {source: east, target: west, topics: [orders]}
  other: {source: east, target: west, topics: [pay]}
"""


def loaded(*entries: str) -> Topology:
    moved = "moved:\n" + "".join(f"  - {entry}\n" for entry in entries)
    return load({"all.yaml": FILES + moved}, "shop")


def codes(*entries: str) -> list[str]:
    with pytest.raises(TopologyError) as refused:
        loaded(*entries)
    return [problem.code for problem in refused.value.problems]


def test_a_flow_keeps_the_first_of_its_names_however_often_it_is_renamed() -> None:
    once = loaded("{flow: new, from: old}")
    assert (once.flows["new"].moved_from, once.flows["new"].state_name) == ("old", "old")
    assert (once.flows["other"].moved_from, once.flows["other"].state_name) == ("", "other")
    again = loaded("{flow: new, from: mid}", "{flow: mid, from: old}")
    assert again.flows["new"].state_name == "old"
    assert loaded("{flow: mid, from: old}", "{flow: new, from: mid}") == again, "in any order"


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (("{topic: clickstream, from: clicks}",), ["topic-not-renamed"]),
        (("{flow: new, from: other}",), ["moved-from-declared"]),
        (("{flow: new, from: new}",), ["moved-from-declared", "moved-in-circle"]),
        (("{flow: nobody, from: old}",), ["unknown-flow"]),
        (("{flow: new, from: old}", "{flow: other, from: old}"), ["moved-twice"]),
        (("{flow: new, from: mid}", "{flow: mid, from: new}"), ["moved-from-declared"] + ["moved-in-circle"] * 2),
        (("{flow: new, from: old}", "{flow: new, from: older}"), ["duplicate-name"]),
        (("{flow: new}",), ["missing-field"]),
        (("{flow: new, topic: t, from: old}",), ["bad-value"]),
        (("{flow: new, from: a/b}",), ["bad-value"]),
    ],
)
def test_what_cannot_be_carried_out_is_refused_by_name(entries: tuple[str, ...], expected: list[str]) -> None:
    assert sorted(codes(*entries)) == sorted(expected)


def test_a_topic_is_refused_with_the_reason_and_the_way_round() -> None:
    with pytest.raises(TopologyError) as refused:
        loaded("{topic: clickstream, from: clicks}")
    (problem,) = refused.value.problems
    assert problem.where.line == 9
    assert "records and group offsets stay under clicks" in problem.why
    assert "Kafka cannot rename a topic" in problem.todo
    assert "moved" in problem.todo or "entry" in problem.todo
