"""A topic that the principal may not see is unknown: neither missing nor there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.doctor.permissions import asks, permission_findings
from reconciler.engine.drift.causes import differences
from reconciler.engine.drift.parity import parity
from reconciler.engine.explain import explain
from reconciler.environment.adopt.accept_drift import accept
from reconciler.errors import ClusterError, ExitCode, ReconcilerError
from reconciler.model.changes import CreateTopic
from reconciler.model.environment.flow_settings import ConfigSync
from reconciler.model.environment.topology import Principal, Tombstone, TopicRef, Topology
from reconciler.model.reports.doctor import Rights
from reconciler.resources.flows.routes import find_routes
from tests.support.builders import World, changed, cluster, flow, ids, topic, topology, world

DENIED = {"east/orders", "west/east.orders", "west/stats"}
INTERNAL = ["create:west/__mirror_offsets", "create:west/__mirror_status"]


def denying() -> tuple[World, Topology]:
    """Declared, remote and named by a flow alone: a Deny rule hides each, and every other may be described."""
    seen = world()
    seen.clusters["east"].put("orders", 3)
    seen.clusters["east"].put("stats")
    seen.clusters["east"].deny("orders", "pay", "secret")
    seen.clusters["west"].put("east.orders", 3)
    seen.clusters["west"].deny("east.orders", "stats")
    declared = topic("orders", partitions=3), topic("stats", "east", "west", partitions=1), topic("fresh", partitions=1)
    return seen, topology(*declared, flow("east", "west", "orders|pay"))


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


def test_a_denied_topic_is_unknown_also_where_every_other_may_be_described() -> None:
    seen, wished = denying()
    made = seen.plan(wished)
    assert {one.subject for one in made.unknown} == {*DENIED, "east/pay", "mirror west"}
    assert {f"create:{ref}" for ref in changed(made, CreateTopic)} == {"create:east/fresh", *INTERNAL}
    assert not {one.subject for one in differences(made)} & DENIED


def test_what_is_asked_for_by_name_is_asked_in_one_call_a_cluster_and_not_where_nothing_is_missing() -> None:
    seen, wished = denying()
    seen.look(wished)
    assert [one.calls for one in seen.clusters.values()] == [2, 2]
    full = world()
    full.clusters["east"].put("orders")
    full.look(topology(topic("orders", "east"), cluster("west")))
    assert [one.calls for one in full.clusters.values()] == [1, 1]


def test_explain_says_that_a_denied_topic_cannot_be_read() -> None:
    seen, wished = denying()
    live = seen.look(wished, TopicRef("east", "secret"))
    for name in ("east/orders", "west/east.orders", "west/stats", "east/secret"):
        [answer] = explain(wished, name, live).topics
        assert answer.live == "cannot be read: hidden"
    [answer] = explain(wished, "east/secret", live).topics
    assert answer.reason == "neither declared nor made by a flow, and it cannot be read"
    assert explain(wished, "east/orders", live).exit_code == ExitCode.ERROR
    [answer] = explain(wished, "east/fresh", live).topics
    assert answer.live == "not on the cluster"


def test_parity_does_not_report_a_denied_topic_as_missing() -> None:
    seen, wished = denying()
    seen.clusters["west"].put("orders")
    live = seen.look(wished)
    found = parity(wished, live, find_routes(wished, live).routes)
    assert found.disparities == ()
    assert {one.subject for one in found.unknown} == {"east/orders", "east/pay", "west/stats"}


def test_drift_is_not_accepted_from_a_cluster_that_may_have_the_topic_unseen() -> None:
    seen, wished = denying()
    with pytest.raises(
        ReconcilerError, match="the declaration also counts on west: cluster west does not show whether it has it"
    ):
        accept({"topics.yaml": ""}, wished, seen.look(wished), ["east/stats"])


def test_doctor_asks_for_the_denied_topic_and_has_the_command_that_grants_it() -> None:
    seen, wished = denying()
    live = seen.look(wished)
    routes = find_routes(wished, live).routes
    asked = asks(wished, live, routes)["east", Principal.PLAN]
    assert {"orders", "fresh", "stats"} <= set(asked.topics)
    told = Rights(Principal.PLAN, "User:plan", "a:9092", sees_all=True, denied=frozenset({"orders"}))
    findings = permission_findings(wished, "east", [told], routes)
    assert "lacks Describe on orders" in {one.text for one in findings}


def test_what_a_tombstone_names_and_is_denied_is_not_taken_for_deleted() -> None:
    seen = world("east")
    seen.clusters["east"].deny("old")
    stone = Tombstone("east", "old", "id", "2027-01-01", "why")
    made = seen.plan(replace(topology(topic("new")), deletions=(stone, replace(stone, topic="gone"))))
    assert [one.subject for one in made.unknown] == ["east/old"]
    assert [note for note in made.notes if "east/gone has a tombstone and is gone" in note]


def test_an_apply_whose_ground_may_not_be_checked_any_more_is_reported_so() -> None:
    seen, wished = denying()
    assert {one.subject for one in seen.look(wished).unanswered} == {*DENIED, "east/pay"}


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


def test_a_cluster_with_undetectable_hidden_topics_is_unknown() -> None:
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
