"""A flow that does not carry what its expressions match says so, where nobody else would notice."""

from __future__ import annotations

from reconciler.model.plan import Plan
from reconciler.replication.handover import Naming
from tests.support.builders import flow, topic, topology, world


def told(plan: Plan) -> list[str]:
    return [note for note in plan.notes if note.startswith("flow ")]


def test_names_that_only_look_like_those_of_remote_topics_are_told() -> None:
    names = [f"pay.east.{number}" for number in range(7)]
    wished = topology(*(topic(name) for name in names), topic("west.audit"), flow("east", "west", ".*"))
    [note] = told(world().plan(wished))
    assert note.startswith("flow east-to-west does not carry 8 topics of east that its expressions match: pay.east.0, ")
    assert "and 3 more" in note
    underscored = flow("east", "west", ".*", naming=Naming(separator="_"))
    carried = world().plan(topology(*(topic(name, partitions=1) for name in names), underscored))
    assert "west/east_pay.east.0" in {str(one.change.ref) for one in carried.changes if hasattr(one.change, "ref")}
    assert told(carried) == []


def test_what_nobody_declares_is_told_unless_a_mirror_may_have_made_it() -> None:
    seen = world()
    for name in ("pay.east.orders", "west.orders", "east.pay"):
        seen.clusters["east"].put(name)
    [note] = told(seen.plan(topology(flow("east", "west", ".*"))))
    assert "1 topic of east that its expressions match: pay.east.orders. In a name" in note


def test_remote_topics_on_their_way_back_are_no_news() -> None:
    wished = topology(topic("orders", "east", "west"), flow("east", "west", ".*"), flow("west", "east", ".*"))
    assert told(world().plan(wished)) == []


def test_a_flow_without_any_topic_is_told() -> None:
    assert told(world().plan(topology(flow("east", "west", "orders")))) == [
        "flow east-to-west matches no topic on east yet"
    ]


def test_a_flow_that_matches_only_what_has_been_on_its_target_says_so() -> None:
    """It matches something, and will never carry it."""
    seen = world()
    seen.clusters["west"].put("east.orders")
    wished = topology(topic("orders", "east"), flow("east", "west", "orders"), flow("west", "east", ".*orders"))
    [note] = told(seen.plan(wished))
    assert note == (
        "flow west-to-east carries no topic of west yet: what its expressions match there has been on east, as its"
        " name says (the cycle rule): east.orders"
    )
