"""Flows whose brokers lack the requests that copying needs are refused, with the way out that there is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reconciler.engine.plan.impact import described
from reconciler.model.changes import Refused
from reconciler.model.environment.flow_settings import Delivery, Groups, OffsetsKept
from reconciler.model.plan import ClusterFeatures
from reconciler.resources.flows.broker_apis import TRANSACTIONS, without_apis
from tests.support.builders import cluster, flow, topic, topology, world

ALL = dict.fromkeys(range(70), 20)


def refused(*, source: Any = ALL, target: Any = ALL, **fields: Any) -> list[Refused]:
    wished = topology(topic("orders"), replace(flow("east", "west", "orders"), **fields))
    return list(without_apis(wished, {"east": ClusterFeatures(apis=source), "west": ClusterFeatures(apis=target)}))


def without(*keys: int) -> dict[int, int]:
    return {key: high for key, high in ALL.items() if key not in keys}


@pytest.mark.parametrize("key", TRANSACTIONS)
def test_a_target_without_transactions_is_refused(key: int) -> None:
    [one] = refused(target=without(key))
    assert one.reason.code == "target-has-no-transactions"
    assert TRANSACTIONS[key] in one.reason.text
    assert "start and copy nothing" in one.reason.text


def test_at_least_once_is_the_way_out() -> None:
    missing = without(24, 25, 26, 28)
    [one] = refused(target=missing)
    assert "delivery: at_least_once in flow east-to-west" in one.todo
    assert refused(target=missing, delivery=Delivery.AT_LEAST_ONCE) == []
    [same] = refused(target=missing, offsets=OffsetsKept.SAME)
    assert "without offsets: same" in same.todo


def test_users_of_a_service_are_not_asked_to_switch_them_on() -> None:
    hosted = cluster("west", service="event-hubs")
    wished = topology(topic("orders"), hosted, flow("east", "west", "orders"))
    [one] = without_apis(wished, {"west": ClusterFeatures(apis=without(24, 25, 26, 28))})
    [old] = without_apis(wished, {"west": ClusterFeatures(apis={**ALL, 0: 7})})
    assert old.todo.startswith("Microsoft upgrades it")
    assert one.todo.startswith("Take a tier of Azure Event Hubs that has transactions, or another target, or agree")


def test_at_least_once_is_not_offered_where_it_would_not_copy_either() -> None:
    [one] = refused(target=without(22))
    assert "at_least_once" not in one.todo
    [other] = refused(target=without(22), delivery=Delivery.AT_LEAST_ONCE)
    assert other.reason.code == "brokers-lack-requests"
    assert "InitProducerId" in other.reason.text


@pytest.mark.parametrize("delivery", Delivery)
@pytest.mark.parametrize(("key", "name"), [(2, "ListOffsets"), (9, "OffsetFetch"), (10, "FindCoordinator")])
def test_without_what_reads_positions_nothing_would_be_copied(delivery: Delivery, key: int, name: str) -> None:
    [one] = refused(target=without(key), delivery=delivery)
    assert one.reason.code == "brokers-lack-requests"
    assert f"brokers of west do not offer {name} " in one.reason.text


def test_a_source_reports_where_its_logs_end() -> None:
    [one] = refused(source=without(2))
    assert "brokers of east do not offer ListOffsets" in one.reason.text


def test_old_batches_and_group_sync_are_refused_by_side() -> None:
    [fetch] = refused(source={**ALL, 1: 10})
    assert "brokers of east do not offer Fetch 11" in fetch.reason.text
    [produce] = refused(target={**ALL, 0: 7})
    assert "brokers of west do not offer Produce 8" in produce.reason.text
    assert produce.todo == "Have its brokers upgraded to Kafka 2.4 or later"
    synced = Groups(sync_offsets=True)
    [listing] = refused(source=without(16), groups=synced)
    assert "brokers of east do not offer ListGroups" in listing.reason.text
    assert refused(source=without(16)) == []
    same = {"offsets": OffsetsKept.SAME, "groups": replace(synced, both_ways=True)}
    [commits] = refused(source=without(8), **same)
    assert "brokers of east do not offer OffsetCommit" in commits.reason.text
    assert refused(source=without(8), groups=synced) == []


def test_what_was_not_reported_refuses_nothing() -> None:
    assert refused(source=None, target=None, groups=Groups(sync_offsets=True)) == []


def test_the_plan_is_blocked() -> None:
    seen = world("east", "west")
    seen.clusters["east"].put("orders", 1)
    wished = topology(topic("orders", partitions=1), flow("east", "west", "orders", replication_factor=1))
    made = described(seen.plan(wished), wished, {"west": ClusterFeatures(apis=without(26))})
    assert [one.reason.code for one in made.refused] == ["target-has-no-transactions"]
    assert made.exit_code == 3
