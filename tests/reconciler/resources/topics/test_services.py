"""What a service does not offer is refused where git declares it, and left out where it is a source's or ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from reconciler.engine.plan.wishes import accepted_changes, modest, without_wishes
from reconciler.model.changes import AddPartitions, AlterConfigs, CreateTopic, ReassignReplicas, Subject, TopicChange
from reconciler.model.environment.flow_settings import ConfigSync
from reconciler.model.environment.topology import Undeclared
from reconciler.model.live import Source
from reconciler.replication.names import OFFSETS_TOPIC, STATUS_TOPIC
from tests.support.builders import changed, cluster, codes, flow, rules, topic, topology, world


def test_a_declared_config_that_the_service_does_not_have_is_refused() -> None:
    serverless = cluster("east", service="msk-serverless")
    planned = world("east").plan(topology(serverless, topic("orders", configs={"segment.bytes": "1048576"})))
    [refused] = planned.refused
    assert refused.reason.code == "not-offered-by-service"
    assert "MSK Serverless, which does not let anyone set segment.bytes" in refused.reason.text
    allowed = world("east").plan(topology(serverless, topic("orders", configs={"retention.ms": "3600000"})))
    assert allowed.refused == ()


def test_a_guessed_service_can_be_denied_in_the_file() -> None:
    address = ("boot-a.c1.kafka-serverless.us-east-1.amazonaws.com:9098",)
    wished = topic("orders", configs={"segment.bytes": "1048576"})
    planned = world("east").plan(topology(cluster("east", bootstrap_servers=address), wished))
    assert "write service: under cluster east" in planned.refused[0].todo
    corrected = cluster("east", bootstrap_servers=address, service="apache")
    assert world("east").plan(topology(corrected, wished)).refused == ()


def test_wishes_of_our_own_topics_are_left_out() -> None:
    wished = topology(cluster("west", service="msk-serverless"), topic("orders", partitions=1), flow("east", "west"))
    planned = world().plan(wished)
    made = changed(planned, CreateTopic)
    assert {config.key for config in made[f"west/{OFFSETS_TOPIC}"].configs} == {"cleanup.policy"}
    assert {config.key for config in made[f"west/{STATUS_TOPIC}"].configs} == {"cleanup.policy", "retention.ms"}
    assert planned.refused == ()
    assert "not-offered-by-service" in rules(planned.ignored)


def test_a_policy_that_cannot_be_changed_later_stays_where_it_compacts() -> None:
    """As a release before made it. Its records stay all the same, since pauses are among them."""
    wished = topology(cluster("west", service="msk-serverless"), topic("orders", partitions=1), flow("east", "west"))
    there = world()
    before = {"cleanup.policy": "compact,delete", "retention.ms": str(7 * 86_400_000)}
    there.clusters["west"].put(STATUS_TOPIC, 1, 1, **before)
    planned = there.plan(wished)
    assert planned.refused == ()
    altered = changed(planned, AlterConfigs)[f"west/{STATUS_TOPIC}"]
    assert {config.key: config.after for config in altered.configs} == {"retention.ms": "-1"}
    there = world()
    there.clusters["west"].put(STATUS_TOPIC)
    assert codes(there.plan(wished)) == {"not-offered-by-service"}


def test_a_factor_that_the_service_raises_is_no_difference() -> None:
    wished = topology(cluster("east", service="redpanda"), topic("orders", partitions=1, replication_factor=1))
    there = world("east", brokers=3)
    assert changed(there.plan(wished), CreateTopic)["east/orders"].replication_factor == 3
    there.apply(wished)
    assert there.plan(wished).changes == ()
    apache = replace(wished, clusters={"east": replace(wished.clusters["east"], service="apache")})
    assert list(changed(there.plan(apache), ReassignReplicas)) == ["east/orders"]


def test_event_hubs_keep_replicas_themselves_and_get_no_partitions_by_kafka() -> None:
    wished = topology(cluster("east", service="event-hubs"), topic("orders", partitions=1, replication_factor=3))
    there = world("east")
    created = there.plan(wished)
    assert changed(created, CreateTopic)["east/orders"].replication_factor is None
    assert created.refused == ()
    there.apply(wished)
    grown = topology(cluster("east", service="event-hubs"), topic("orders", partitions=2))
    planned = there.plan(grown)
    assert codes(planned) == {"not-offered-by-service"}
    assert changed(planned, AddPartitions) == {}


def test_what_automq_sets_itself_is_neither_drift_nor_removed() -> None:
    """A factor, and min.insync.replicas, of each topic."""
    wished = topology(
        cluster("east", service="automq"),
        topic("orders", partitions=1, replication_factor=3, undeclared=Undeclared.REMOVE),
    )
    there = world("east", brokers=3)
    assert changed(there.plan(wished), CreateTopic)["east/orders"].replication_factor is None
    there.clusters["east"].put("orders", 1, 1, **{"min.insync.replicas": "1"})
    planned = there.plan(wished)
    assert (planned.changes, planned.refused, planned.ignored) == ((), (), ())
    apache = replace(wished, clusters={"east": replace(wished.clusters["east"], service="apache")})
    assert {*changed(there.plan(apache), ReassignReplicas), *changed(there.plan(apache), AlterConfigs)} == {
        "east/orders"
    }
    lasting = topology(wished.clusters["east"], topic("orders", configs={"min.insync.replicas": "2"}))
    assert codes(there.plan(lasting)) == {"not-offered-by-service"}


def test_google_refuses_one_value_of_a_config() -> None:
    google = cluster("east", service="gcp")
    planned = world("east").plan(topology(google, topic("orders", configs={"compression.type": "zstd"})))
    assert "Google Managed Kafka, which does not support compression.type zstd" in planned.refused[0].reason.text
    assert world("east").plan(topology(google, topic("orders", configs={"compression.type": "lz4"}))).refused == ()


def test_a_wish_that_brokers_refuse_is_left_out_and_said() -> None:
    wished = topology(topic("orders", partitions=1), flow("east", "west"))
    planned = world().plan(wished)
    change = changed(planned, CreateTopic)[f"west/{OFFSETS_TOPIC}"]
    accepted = modest(planned, {change.subject: "POLICY_VIOLATION"})
    assert [each.configs for each in accepted.values()] == [
        tuple(config for config in change.configs if config.key == "cleanup.policy")
    ]
    narrowed = without_wishes(planned, accepted)
    kept = changed(narrowed, CreateTopic)[f"west/{OFFSETS_TOPIC}"].configs
    assert [config.key for config in kept] == ["cleanup.policy"]
    assert "segment.bytes, segment.ms of west/__mirror_offsets: left out" in narrowed.notes[-1]
    assert modest(planned, {changed(planned, CreateTopic)["west/east.orders"].subject: "no"}) == {}


def test_an_alteration_of_wishes_alone_goes_and_nothing_waits_for_it() -> None:
    wished = topology(topic("orders", partitions=1), flow("east", "west"))
    there = world()
    there.clusters["west"].put(OFFSETS_TOPIC, 8, 1, **{"cleanup.policy": "compact"})
    planned = there.plan(wished)
    [altered] = [each for each in planned.changes if isinstance(each.change, AlterConfigs)]
    narrowed = without_wishes(planned, modest(planned, {altered.change.subject: "no"}))
    assert altered.id not in {each.id for each in narrowed.changes}
    assert not any(altered.id in each.needs for each in narrowed.changes)


OF_THE_SOURCE = {
    "local.retention.ms": "1000",
    "message.format.version": "2.8-IV1",
    "redpanda.remote.write": "true",
    "remote.storage.enable": "true",
    "retention.ms": "3600000",
}


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("unknown_there", [(), ("remote.storage.enable",), tuple(sorted(OF_THE_SOURCE))[:4]])
def test_configs_of_a_source_that_the_target_lacks_are_left_out_and_said(
    exists: bool, unknown_there: tuple[str, ...]
) -> None:
    """A source with remote storage, of another release or of a vendor: each key is left out alone, and limits stay."""
    wished = topology(flow("east", "west", "orders", configs=ConfigSync(carry_undeclared_limits=True)))
    there = world()
    there.clusters["east"].put("orders", 1, 1, **OF_THE_SOURCE)
    if exists:
        # Each topic shows every key that its brokers know; one that they do not show is left out without a question.
        there.clusters["west"].broker_configs = dict.fromkeys(OF_THE_SOURCE, ("7", Source.BUILT_IN))
        there.clusters["west"].put("east.orders", 1, 1)
    planned = there.plan(wished)
    kind = AlterConfigs if exists else CreateTopic
    change = changed(planned, kind)["west/east.orders"]
    assert {config.key for config in change.configs} == OF_THE_SOURCE.keys()

    def validate(changes: Sequence[TopicChange]) -> dict[Subject, str]:
        return {
            each.subject: "INVALID_CONFIG"
            for each in changes
            if isinstance(each, CreateTopic | AlterConfigs)
            and any(config.key in unknown_there for config in each.configs)
        }

    refusals = validate([change])
    accepted = accepted_changes(planned, modest(planned, refusals), validate)
    narrowed = without_wishes(planned, accepted)
    kept = changed(narrowed, kind)["west/east.orders"].configs
    assert {config.key for config in kept} == OF_THE_SOURCE.keys() - set(unknown_there)
    notes = narrowed.notes[len(planned.notes) :]
    assert bool(notes) == (bool(unknown_there) and not exists), "what each plan would say again is no news"
    left = {each.subject.field for each in narrowed.ignored if each.rule == "not-known-by-target"}
    assert left == (set(unknown_there) if exists else set())
    for note in notes:
        assert note.startswith("the brokers of west refuse")
        assert "source topic of west/east.orders has: left out" in note
        assert ("own disks" in note) == ("remote.storage.enable" in note)


def test_a_limit_that_brokers_refuse_is_not_left_out() -> None:
    wished = topology(flow("east", "west", "orders"))
    there = world()
    there.clusters["east"].put("orders", 1, 1, **{"retention.ms": "3600000"})
    planned = there.plan(wished)
    change = changed(planned, CreateTopic)["west/east.orders"]
    assert modest(planned, {change.subject: "POLICY_VIOLATION"}) == {}


def test_a_source_without_remote_storage_leaves_the_targets_alone() -> None:
    wished = topology(flow("east", "west", "orders"))
    there = world()
    there.clusters["east"].put("orders", 1, 1)
    there.clusters["west"].put("east.orders", 1, 1, **{"remote.storage.enable": "true", "local.retention.ms": "1000"})
    assert changed(there.plan(wished), AlterConfigs).keys() & {"west/east.orders"} == set()
