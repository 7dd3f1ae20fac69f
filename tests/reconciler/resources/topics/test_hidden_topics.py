"""A topic that the principal may not see is unknown: neither missing nor there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ClusterError
from reconciler.model.changes import CreateTopic
from reconciler.model.environment.flows import ConfigSync
from tests.support.builders import changed, flow, ids, topic, topology, world

NAMES = ("orders", "pay", "clicks")


def test_a_hidden_topic_is_not_planned_to_be_made() -> None:
    seen = world()
    seen.clusters["east"].put("orders", 3)
    seen.clusters["east"].hide("orders")
    made = seen.plan(topology(topic("orders", "east", partitions=1), topic("fresh", "east", partitions=1)))
    assert ids(made) == ["create:east/fresh"], "what is known to be missing is made all the same"
    assert [one.subject for one in made.unknown] == ["east/orders"]


def test_a_hidden_remote_topic_and_what_the_mirror_keeps_there_are_unknown_too() -> None:
    seen = world()
    seen.clusters["east"].put("orders", 3)
    seen.clusters["west"].put("east.orders", 3)
    seen.clusters["west"].hide("east.orders", "__mirror_status")
    made = seen.plan(topology(flow("east", "west", "orders")))
    assert {one.subject for one in made.unknown} == {"west/east.orders", "west/__mirror_status"}
    assert not {"west/east.orders", "west/__mirror_status"} & changed(made, CreateTopic).keys()


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("there", [(), ("east.orders",), ("east.orders", "west.east.orders")])
def test_what_a_hidden_topic_becomes_further_on_is_unknown_too(sync: bool, there: tuple[str, ...]) -> None:
    """Declared with 1, it may have 3: its remote topic would be made too small, or be told to be right."""
    seen = world("east", "west", "north")
    seen.clusters["east"].put("orders", 3)
    seen.clusters["east"].hide("orders")
    for name in there:
        seen.clusters["north" if name.startswith("west.") else "west"].put(name, 3)
    flows = (
        flow("east", "west", "orders", configs=ConfigSync(enabled=sync)),
        flow("west", "north", r"east\.orders", configs=ConfigSync(enabled=sync)),
    )
    made = seen.plan(topology(topic("orders", "east", partitions=4), *flows))
    remote = {"create:west/east.orders", "create:north/west.east.orders"}
    grown = {"partitions:west/east.orders", "partitions:north/west.east.orders"}
    seen_enough = {"create:north/west.east.orders"} if there == ("east.orders",) and not sync else set()
    assert (remote | grown) & set(ids(made)) == seen_enough, "the third topic is like the second, which is there"
    assert not made.refused
    told = {one.subject: one.detail for one in made.unknown}
    assert "west/east.orders" in told["east/orders"]
    if not there:
        assert "north/west.east.orders" in told["east/orders"]


def test_where_nobody_can_tell_what_is_hidden_the_cluster_is_unknown() -> None:
    seen = world("east")
    east = seen.clusters["east"]
    east.hide("theirs")
    wished = topology(topic("orders", "east", partitions=1))
    east.fail_on(2, ClusterError("east", "unreachable", "silent"))
    made = seen.plan(wished)
    assert (ids(made), [one.subject for one in made.unknown]) == ([], ["cluster east"])


@given(st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES)))
def test_nothing_hidden_is_ever_made(wished: set[str], there: set[str], hidden: set[str]) -> None:
    seen = world("east")
    for name in there:
        seen.clusters["east"].put(name)
    seen.clusters["east"].hide(*hidden)
    made = seen.plan(topology(*(topic(name, "east", partitions=1) for name in wished)))
    assert set(ids(made)) == {f"create:east/{name}" for name in wished - there - hidden}
    assert {one.subject for one in made.unknown} == {f"east/{name}" for name in wished & hidden}
