"""What a plan refuses and says of flows that keep offsets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.engine.plan.same_offsets import (
    EARLIEST,
    LATEST,
    copies_asked,
    new_copies,
    old_copies,
    with_copies,
    with_old_copies,
)
from reconciler.errors import Unknown
from reconciler.model.environment.flow_settings import Groups, OffsetsKept
from reconciler.model.environment.topology import Flow, Topology
from reconciler.model.plan import CopyFacts, MarkerRight, Plan
from reconciler.model.principals import Operation
from reconciler.replication.handover import Naming, Start
from reconciler.replication.offsets.same import FILLER_LIMIT
from reconciler.resources.acls.roles import mirror_rights
from reconciler.resources.flows.routes import find_routes
from reconciler.resources.flows.same_offsets import marker_todo
from reconciler.resources.mirrors.handover import mirror_handover
from tests.support.builders import cluster, flow, topic, topology, world


def kept(**fields: Any) -> Flow:
    return replace(flow("east", "west", "orders"), offsets=OffsetsKept.SAME, **fields)


def wished(*, of: Flow, partitions: int = 2) -> Topology:
    return topology(topic("orders", partitions=partitions), of)


def refusals(plan: Plan) -> list[str]:
    return [refused.reason.code.value for refused in plan.refused]


def test_a_new_copy_is_planned_with_what_it_needs() -> None:
    seen = world("east", "west")
    seen.clusters["east"].put("orders", 2, cleanup_policy="compact")
    made = seen.plan(wished(of=kept()))
    assert not {code for code in refusals(made) if code.startswith("same-offsets")}
    needs, compacted, transactions = (note for note in made.notes if "east-to-west" in note)
    assert "1 topic on west: west/east.orders" in needs
    assert "Delete" in needs
    assert "1 compacted topic: east/orders" in compacted
    assert "transactions" in transactions


def test_more_partitions_at_the_target_are_refused() -> None:
    seen = world("east", "west")
    seen.clusters["east"].put("orders", 2)
    seen.clusters["west"].put("east.orders", 3)
    made = seen.plan(wished(of=kept()))
    assert refusals(made) == ["same-offsets-partitions"]
    assert "3 partitions" in made.refused[0].reason.text
    assert refusals(seen.plan(wished(of=flow("east", "west", "orders")))) == []


def test_partitions_grow_on_both_sides_in_one_plan() -> None:
    seen = world("east", "west")
    seen.clusters["east"].put("orders", 2)
    seen.clusters["west"].put("east.orders", 2)
    made = seen.plan(wished(of=kept(), partitions=4))
    assert not made.refused
    assert {p.id for p in made.changes} >= {"partitions:east/orders", "partitions:west/east.orders"}


def test_a_flow_may_keep_offsets_from_now_on_only_in_a_new_topic() -> None:
    seen = world("east", "west")
    seen.clusters["east"].put("orders", 2)
    before = wished(of=flow("east", "west", "orders"))
    handed = {"west": mirror_handover(before, before.mirrors["west"])}
    assert refusals(seen.plan(wished(of=kept()), previous=handed)) == [], "no copy is there yet"
    seen.clusters["west"].put("east.orders", 2)
    assert refusals(seen.plan(wished(of=kept()), previous=handed)) == ["same-offsets-not-new"]
    now = wished(of=kept())
    assert refusals(seen.plan(now, previous={"west": mirror_handover(now, now.mirrors["west"])})) == []


def test_a_flow_that_no_longer_keeps_them_keeps_its_topic() -> None:
    seen = world("east", "west")
    seen.clusters["east"].put("orders", 2)
    seen.clusters["west"].put("east.orders", 2)
    before = wished(of=kept())
    handed = {"west": mirror_handover(before, before.mirrors["west"])}
    made = seen.plan(wished(of=flow("east", "west", "orders")), previous=handed)
    assert not made.refused
    assert any("no longer keeps offsets: its topics stay" in note for note in made.notes)


def costs(of: Flow, first: dict[tuple[str, int], int], **facts: Any) -> Plan:
    seen = world("east", "west")
    seen.clusters["east"].put("orders", 2)
    desired = wished(of=of)
    copies = new_copies(desired, seen.look(desired))
    told = {"east": CopyFacts(offsets=first), "west": CopyFacts(True, **facts)}
    return with_copies(seen.plan(desired), desired, copies, told)


def test_the_plan_says_what_the_first_offsets_cost() -> None:
    made = costs(kept(), {("orders", 0): 1_700_000_000, ("orders", 1): 0})
    assert not made.refused
    (cost,) = (note for note in made.notes if "empty offsets" in note)
    assert "1 new partition on west" in cost
    assert "1,700,000,000 empty offsets, about 1.3 GiB" in cost
    assert "100 s" in cost
    assert "estimate" in cost


def test_above_the_limit_it_is_refused_until_the_flow_raises_it() -> None:
    first = {("orders", 0): FILLER_LIMIT + 1, ("orders", 1): 5}
    made = costs(kept(), first)
    assert refusals(made) == ["same-offsets-fillers"]
    assert "orders-0 at 2,000,000,001" in made.refused[0].reason.text
    assert not costs(kept(filler_limit=FILLER_LIMIT + 1), first).refused
    assert refusals(costs(kept(filler_limit=4), {("orders", 0): 5})) == ["same-offsets-fillers"]


def test_what_is_not_reported_is_said_to_be_unknown() -> None:
    made = costs(kept(), {("orders", 0): 7})
    assert any("where 1 partition begin is not known" in note for note in made.notes)


def test_brokers_before_3_0_are_refused_and_silence_is_not_taken_for_them() -> None:
    seen = world("east", "west")
    desired = wished(of=kept())
    plan = seen.plan(desired)
    assert refusals(with_copies(plan, desired, (), {"west": CopyFacts(False)})) == ["same-offsets-target-too-old"]
    assert not with_copies(plan, desired, (), {"west": CopyFacts(None, unknown="no answer")}).refused


def test_users_of_a_service_are_not_asked_to_upgrade_its_brokers() -> None:
    plan = world("east", "west").plan(wished(of=kept()))
    hubs = topology(topic("orders", partitions=2), kept(), cluster("west", service="event-hubs"))
    [own, hosted] = [with_copies(plan, at, (), {"west": CopyFacts(False)}).refused for at in (wished(of=kept()), hubs)]
    assert own[0].todo == "Upgrade west, or write offsets: translated"
    assert hosted[0].todo.startswith("Write offsets: translated. Microsoft upgrades it")


def marked(held: bool | Unknown, *, new: bool) -> list[str]:
    desired = wished(of=kept())
    seen = world("east", "west")
    seen.clusters["east"].put("orders", 2)
    copies = new_copies(desired, seen.look(desired)) if new else ()
    facts = {"east": CopyFacts(), "west": CopyFacts(True, markers=MarkerRight(held, "User:mirror", "kafka-acls.sh X"))}
    return [note for note in with_copies(seen.plan(desired), desired, copies, facts).notes if "marker" in note]


def test_whether_markers_may_be_written_is_reported_and_what_is_not_known_is_not_called_fine() -> None:
    (well,) = marked(True, new=True)
    assert "User:mirror may write transaction markers" in well
    assert marked(True, new=False) == []
    for new in (True, False):
        (limit,) = marked(False, new=new)
        assert limit.startswith("flow east-to-west keeps offsets on west: User:mirror may not write")
        assert "offsets_diverged" in limit
        assert limit.endswith("kafka-acls.sh X")
        (unknown,) = marked(Unknown("markers", "whether it may is not told", "Look"), new=new)
        assert "whether it may is not told. If it may not" in unknown
        assert "offsets_diverged" in unknown


@pytest.mark.parametrize(
    ("start", "asked"),
    [
        (Start(), {("orders", 0): EARLIEST, ("orders", 1): EARLIEST}),
        (Start("latest"), {("orders", 0): LATEST, ("orders", 1): LATEST}),
        (Start("timestamp", 5), {("orders", 0): 5, ("orders", 1): 5}),
        (Start("offsets", None, {"orders": {0: 9}}, "latest"), {("orders", 1): LATEST}),
    ],
)
def test_a_copy_begins_where_the_flow_starts(start: Start, asked: dict[tuple[str, int], int]) -> None:
    seen = world("east", "west")
    seen.clusters["east"].put("orders", 2)
    desired = wished(of=kept(start=start))
    assert copies_asked(desired, new_copies(desired, seen.look(desired))) == {"west": {}, "east": asked}


STORES = ("_schemas", "app-orders-changelog", "connect-configs", "kafkasql-journal", "_confluent-ksql-x_command_topic")


@pytest.mark.parametrize("policy", ["identity", "default"])
def test_stores_that_an_application_on_both_sides_would_write_to_are_named(policy: str) -> None:
    seen = world("east", "west")
    for name in ("orders", *STORES):
        seen.clusters["east"].put(name, 1)
    desired = wished(of=kept(topics=(".*",), naming=Naming(policy)))
    copies = new_copies(desired, seen.look(desired))
    facts = {"east": CopyFacts(), "west": CopyFacts(True)}
    noted = [
        note for note in with_copies(seen.plan(desired), desired, copies, facts).notes if "at one side only" in note
    ]
    if policy != "identity":
        assert noted == []
        return
    assert {next(name for name in STORES if f"'{name}'" in note) for note in noted} >= {"_schemas", "connect-configs"}
    assert any("what Kafka Streams keeps for itself" in note and "'app-orders-changelog'" in note for note in noted)
    assert not any("'orders'" in note for note in noted)


def test_nothing_is_asked_where_no_flow_keeps_offsets() -> None:
    seen = world("east", "west")
    seen.clusters["east"].put("orders", 2)
    desired = wished(of=flow("east", "west", "orders"))
    assert new_copies(desired, seen.look(desired)) == ()
    assert copies_asked(desired, ()) == {}


def test_the_mirror_may_delete_records_of_its_copies_and_of_nothing_else() -> None:
    seen = world("east", "west")
    seen.clusters["east"].put("orders", 2)

    def deletes(of: Flow, cluster: str) -> list[str]:
        desired = wished(of=of)
        routes = find_routes(desired, seen.look(desired)).routes
        rights = mirror_rights(desired.flows.values(), desired, routes, cluster)
        return [str(name.name) for _, name, operation in rights if operation is Operation.DELETE]

    assert deletes(kept(), "west") == ["east."]
    assert deletes(kept(), "east") == deletes(flow("east", "west", "orders"), "west") == []


def test_groups_both_ways_are_read_and_written_on_the_source() -> None:
    seen = world("east", "west")
    groups = Groups(sync_offsets=True, both_ways=True)
    desired = wished(of=kept(groups=groups))
    routes = find_routes(desired, seen.look(desired)).routes
    rights = set(mirror_rights(desired.flows.values(), desired, routes, "east"))
    assert (Operation.READ, "*") in {(operation, name.name) for _, name, operation in rights}


def seen_there(metadata: str | None, end: int) -> Plan:
    seen = world("east", "west")
    for place, name in (("east", "orders"), ("west", "east.orders")):
        seen.clusters[place].put(name, 1)
    desired = topology(topic("orders", partitions=1), kept())
    there = old_copies(desired, seen.look(desired))
    assert copies_asked(desired, (), there) == {"west": {("east.orders", 0): LATEST}}
    positions = {} if metadata is None else {("east.orders", 0): metadata}
    facts = {"west": CopyFacts(True, {("east.orders", 0): end}, {"east-to-west": positions})}
    return with_old_copies(seen.plan(desired), there, facts)


@pytest.mark.parametrize(
    ("metadata", "end", "refused", "noted"),
    [
        ('{"c":1,"a":"app","o":9}', 9, True, False),  # written by a flow that translated
        ('{"c":1,"a":"app","p":7,"q":3,"s":0,"o":9}\0', 9, False, False),
        (None, 9, False, True),
        (None, 0, False, False),
    ],
)
def test_a_topic_that_is_there_is_judged_by_the_positions_of_its_flow(
    metadata: str | None, end: int, refused: bool, noted: bool
) -> None:
    """Also where the hand-over of the job before is known on another machine only."""
    made = seen_there(metadata, end)
    assert (refusals(made) == ["same-offsets-not-new"]) is refused
    assert any("ends at 9" in note for note in made.notes) is noted


def test_a_right_that_a_service_grants_to_no_one_is_not_asked_for() -> None:
    hosted = topology(topic("orders"), cluster("west", service="confluent-cloud"), flow("east", "west", "orders"))
    way = marker_todo(hosted, "west", "User:mirror", "kafka-acls.sh ...")
    assert way.startswith("No principal can be given it on west (Confluent Cloud)")
    assert "kafka-acls.sh" not in way
    assert "kafka-acls.sh" in marker_todo(topology(flow("east", "west")), "west", "User:mirror", "kafka-acls.sh ...")
