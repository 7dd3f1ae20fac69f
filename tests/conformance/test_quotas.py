"""Quotas of a cluster: the fake and a real broker, and what a real producer is held to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import Producer
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.errors import ClusterError
from reconciler.model.changes import AlterQuota, LimitChange
from reconciler.model.environment.topology import Principal
from reconciler.model.plan import Outcome, Planned
from reconciler.model.ports import ClusterAdmin
from reconciler.model.principals import QuotaEntity, entity
from tests.support.clusters import real_cluster
from tests.support.fakes.subjects import BECAUSE, results


def change(whom: QuotaEntity, **limits: float | None) -> AlterQuota:
    return AlterQuota("east", whom, tuple(LimitChange(key, None, value) for key, value in limits.items()), BECAUSE)


def perform(admin: ClusterAdmin, *changes: AlterQuota) -> Sequence[Outcome]:
    planned = [Planned(f"c{index}", one, "quotas", "low", "", "") for index, one in enumerate(changes)]
    return admin.perform(planned, lambda _: None)


def test_quotas_of_every_kind_of_entity_are_set_shown_and_removed(admin: ClusterAdmin, unique: str) -> None:
    wished = {
        entity({"user": unique}): {"producer_byte_rate": 1048576.0, "request_percentage": 12.5},
        entity({"user": f"CN={unique}, O=\u00dcnder Cover"}): {"consumer_byte_rate": 1.0},
        entity({"user": "default"}): {"controller_mutation_rate": 2.5},
        entity({"client-id": unique}): {"producer_byte_rate": 5000.0},
        entity({"user": unique, "client-id": unique}): {"producer_byte_rate": 7000.0},
        entity({"user": unique, "client-id": None}): {"producer_byte_rate": 7000.0},
        entity({"user": None, "client-id": unique}): {"producer_byte_rate": 7000.0},
        entity({"ip": "192.0.2.7"}): {"connection_creation_rate": 50.0},
    }
    before = dict(admin.read_quotas())
    sets = [change(whom, **limits) for whom, limits in wished.items()]
    assert results(perform(admin, *sets)) == ["done"] * len(sets)
    assert admin.read_quotas() == before | wished
    assert results(perform(admin, *sets)) == ["done"] * len(sets)
    removed = [change(whom, **dict.fromkeys(limits)) for whom, limits in wished.items()]
    assert results(perform(admin, *removed)) == ["done"] * len(removed)
    assert admin.read_quotas() == before


def test_defaults_are_not_entities_called_default(admin: ClusterAdmin) -> None:
    everybody, named = entity({"user": None}), entity({"user": "<default>"})
    assert results(perform(admin, change(everybody, producer_byte_rate=1e12))) == ["done"]
    shown = admin.read_quotas()
    assert shown[everybody] == {"producer_byte_rate": 1e12}
    assert named not in shown
    assert results(perform(admin, change(everybody, producer_byte_rate=None))) == ["done"]


def test_other_keys_of_an_entity_stay(admin: ClusterAdmin, unique: str) -> None:
    whom = entity({"user": unique})
    perform(admin, change(whom, producer_byte_rate=1000.0, consumer_byte_rate=2000.0))
    assert results(perform(admin, change(whom, producer_byte_rate=None, request_percentage=3.0))) == ["done"]
    assert admin.read_quotas()[whom] == {"consumer_byte_rate": 2000.0, "request_percentage": 3.0}
    perform(admin, change(whom, consumer_byte_rate=None, request_percentage=None))


def test_one_refused_change_does_not_keep_the_others_from_being_done(admin: ClusterAdmin, unique: str) -> None:
    good, bad = entity({"user": unique}), entity({"user": f"{unique}x"})
    outcomes = perform(admin, change(bad, connection_creation_rate=1.0), change(good, producer_byte_rate=1000.0))
    assert results(outcomes) == ["failed", "done"]
    assert "connection_creation_rate" in outcomes[0].error
    assert bad not in admin.read_quotas()
    perform(admin, change(good, producer_byte_rate=None))


def test_what_was_set_is_recorded_until_it_is_removed(admin: ClusterAdmin, unique: str) -> None:
    whom, other = entity({"user": unique}), entity({"user": None, "client-id": unique})
    perform(
        admin, change(whom, producer_byte_rate=1000.0, consumer_byte_rate=2000.0), change(other, request_percentage=5)
    )
    assert ours(admin, whom, other) == {
        whom: {"producer_byte_rate", "consumer_byte_rate"},
        other: {"request_percentage"},
    }
    perform(admin, change(whom, producer_byte_rate=None), change(other, request_percentage=None))
    assert ours(admin, whom, other) == {whom: {"consumer_byte_rate"}}
    perform(admin, change(whom, consumer_byte_rate=None))
    assert ours(admin, whom, other) == {}


def ours(admin: ClusterAdmin, *whom: QuotaEntity) -> dict[QuotaEntity, frozenset[str]]:
    return {one: keys for one, keys in admin.read_quota_keys().items() if one in whom and keys}


def test_validation_reports_what_would_be_refused_and_changes_nothing(admin: ClusterAdmin, unique: str) -> None:
    good, bad = (
        change(entity({"user": unique}), producer_byte_rate=1.0),
        change(entity({"user": f"{unique}x"}), nonsense=1.0),
    )
    found = admin.validate([good, bad])
    assert list(map(str, found)) == [f"quota east: user {unique}x"]
    assert "nonsense" in found[bad.subject]
    assert not {good.entity, bad.entity} & admin.read_quotas().keys()


@pytest.mark.kafka
def test_a_real_producer_is_slowed_down(plain: Sandbox, unique: str, create_topic: Callable[..., str]) -> None:
    east = plain.clusters["east"]
    topic, whom = create_topic(east, unique, 1), entity({"client-id": unique})
    with KafkaCluster(real_cluster(east), Principal.APPLY) as admin:
        assert _throttle(east, topic, unique) == 0
        assert results(perform(admin, change(whom, producer_byte_rate=20_000.0))) == ["done"]
        assert _throttle(east, topic, unique, 60) > 0
        perform(admin, change(whom, producer_byte_rate=None))


def _throttle(east: ClusterHandle, topic: str, client_id: str, seconds: float = 3) -> float:
    """The longest time for which the broker asked this client to wait, in seconds."""
    seen = [0.0]
    producer = Producer(
        {**east.super_client(), "client.id": client_id, "throttle_cb": lambda event: seen.append(event.throttle_time)}
    )
    until = time.monotonic() + seconds
    while time.monotonic() < until and not max(seen):
        producer.produce(topic, b"x" * 100_000)
        producer.poll(0.05)
    producer.flush(1)
    producer.purge()
    return max(seen)


@pytest.mark.kafka
def test_without_the_right_the_error_names_the_command(secure: Sandbox) -> None:
    with KafkaCluster(real_cluster(secure.clusters["east"], "user"), Principal.PLAN) as cluster:
        with pytest.raises(ClusterError, match="may not read the quotas") as caught:
            cluster.read_quotas()
        assert "--operation DescribeConfigs --cluster" in caught.value.todo


@pytest.mark.kafka
def test_the_documented_rights_are_enough(secure: Sandbox, unique: str) -> None:
    east = secure.clusters["east"]
    with KafkaCluster(real_cluster(east, "apply"), Principal.APPLY) as apply:
        assert results(perform(apply, change(entity({"user": unique}), producer_byte_rate=1000.0))) == ["done"]
        with KafkaCluster(real_cluster(east, "plan"), Principal.PLAN) as plan:
            assert plan.read_quotas()[entity({"user": unique})] == {"producer_byte_rate": 1000.0}
            with pytest.raises(ClusterError, match="may not change quotas"):
                plan.validate([change(entity({"user": unique}), producer_byte_rate=5.0)])
            refused = perform(plan, change(entity({"user": unique}), producer_byte_rate=None))
        assert results(refused) == ["failed"]
        assert "may not change quotas" in refused[0].error
        perform(apply, change(entity({"user": unique}), producer_byte_rate=None))
