"""Plans of flows that share a topic under one name."""

from __future__ import annotations

import itertools
from dataclasses import replace

from reconciler.model.changes import CreateTopic
from reconciler.model.environment.flow_settings import Carry
from reconciler.replication.expressions.record_filter import AddedHeader
from reconciler.replication.handover import Naming
from tests.support.builders import changed, codes, flow, topic, topology, world


def test_a_mesh_of_one_name_gets_the_most_partitions_everywhere_and_then_rests() -> None:
    wished = topology(
        topic("orders", "a", partitions=6),
        *(
            flow(one, other, "orders", naming=Naming("identity"), provenance=Carry.LOCAL, replication_factor=1)
            for one, other in itertools.permutations("abc", 2)
        ),
    )
    here = world("a", "b", "c")
    here.clusters["c"].put("orders", 4)
    planned = here.plan(wished)
    assert codes(planned) == set()
    assert {ref: made.partitions for ref, made in changed(planned, CreateTopic).items() if "orders" in ref} == {
        "a/orders": 6,
        "b/orders": 6,
    }
    here.apply(wished, planned)
    assert len(here.clusters["c"].topics["orders"].assignment) == 6
    assert here.plan(wished).changes == ()


def test_without_provenance_the_same_mesh_is_refused() -> None:
    wished = topology(
        topic("orders", "a", partitions=1),
        *(flow(one, "c", "orders", naming=Naming("identity"), replication_factor=1) for one in "ab"),
        topic("orders2", "b"),
    )
    here = world("a", "b", "c")
    here.clusters["b"].put("orders", 1)
    assert "remote-name-collision" in codes(here.plan(wished))


def test_the_plan_says_that_record_work_costs() -> None:
    wished = topology(topic("orders", "east", partitions=1), flow("east", "west", "orders", replication_factor=1))
    here = world()
    quiet = [line for one in here.plan(wished).changes for line in getattr(one.change, "because", ())]
    assert not any("record work" in line for line in quiet)
    (asking,) = wished.flows.values()
    costly = replace(wished, flows={asking.name: replace(asking, headers=(AddedHeader("a", "b"),))})
    told = [line for one in here.plan(costly).changes for line in getattr(one.change, "because", ())]
    assert any("record work (headers) opens its batches" in line and "CPU" in line for line in told)
