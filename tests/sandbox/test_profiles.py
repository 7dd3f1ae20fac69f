"""Each profile comes up as it promises."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from kafka import KafkaAdminClient
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.profiles import cluster_id_of

from tests.support.clusters import CreateTopic
from tests.support.jobs.frozen_broker import freeze, thaw


def admin(settings: dict[str, str]) -> AdminClient:
    return AdminClient({**settings, "log_level": "0", "socket.timeout.ms": "10000"})


def produce(settings: dict[str, str], topic: str, timeout_ms: int = 15_000) -> Exception | None:
    """Delivery error of one record, None when it arrived."""
    errors: list[Exception | None] = []
    quiet = {"log_level": "0", "message.timeout.ms": str(timeout_ms)}
    producer = Producer({**settings, **quiet})
    producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
    producer.flush(timeout_ms / 1000 + 5)
    return errors[0]


def broker_configs(cluster: ClusterHandle) -> dict[str, str]:
    resource = ConfigResource(ResourceType.BROKER, str(cluster.brokers[0].node_id))
    client = admin(cluster.super_client())
    (described,) = client.describe_configs([resource]).values()
    return {name: entry.value for name, entry in described.result(30).items()}


@pytest.mark.parametrize(
    "profile", [pytest.param(name, marks=[pytest.mark.kafka(name), pytest.mark.long]) for name in ("plain", "secure")]
)
def test_no_broker_listens_beyond_loopback(profile: str, request: pytest.FixtureRequest) -> None:
    sandbox: Sandbox = request.getfixturevalue(profile)
    for handle in sandbox.clusters.values():
        listeners = broker_configs(handle)["listeners"].split(",")
        assert {listener.partition("://")[2].rpartition(":")[0] for listener in listeners} == {"127.0.0.1"}


def test_two_clusters_of_their_own(plain: Sandbox) -> None:
    seen = {name: admin(handle.client()).list_topics(timeout=30).cluster_id for name, handle in plain.clusters.items()}
    assert seen == {name: handle.cluster_id for name, handle in plain.clusters.items()}
    assert seen == {name: cluster_id_of("plain", name) for name in ("east", "west")}, "environments declare them"
    assert len(set(seen.values())) == 2


def test_topics_are_never_made_by_chance(plain: Sandbox, unique: str) -> None:
    error = produce(plain["east"].client(), unique, timeout_ms=2_000)
    assert error is not None
    assert unique not in admin(plain["east"].client()).list_topics(timeout=30).topics


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.parametrize("profile", ["plain", "ha"])
def test_features_are_those_of_a_formatted_cluster(profile: str, request: pytest.FixtureRequest) -> None:
    sandbox: Sandbox = request.getfixturevalue(profile)
    for cluster in sandbox.clusters.values():
        client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        features = client.describe_features()
        client.close()
        # Version 2 is what fences a zombie producer at its first write (KIP-890).
        assert features["transaction.version"]["finalized"] == (2, 2)
        assert features["group.version"]["finalized"] == (1, 1)


@pytest.mark.long
def test_ha_places_three_replicas_in_three_racks(ha: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    for cluster in ha.clusters.values():
        create_topic(cluster, unique, partitions=3)
        client = admin(cluster.client())
        racks = {node.id: node.rack for node in client.describe_cluster().result(30).nodes}
        assert len(set(racks.values())) == 3
        partitions = client.list_topics(unique, timeout=30).topics[unique].partitions.values()
        assert {frozenset(partition.replicas) for partition in partitions} == {frozenset({1, 2, 3})}
        assert broker_configs(cluster)["min.insync.replicas"] == "2"
        assert broker_configs(cluster)["offsets.topic.replication.factor"] == "3"


def test_a_frozen_broker_answers_again_when_thawed(plain: Sandbox) -> None:
    cluster = plain["west"]
    client = admin(cluster.client())
    freeze(cluster)
    try:
        with pytest.raises(KafkaException):
            client.list_topics(timeout=1)
    finally:
        thaw(cluster)
    assert client.list_topics(timeout=30).cluster_id == cluster.cluster_id


@pytest.mark.long
def test_ha_serves_with_a_broker_killed_and_takes_it_back(ha: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    cluster = ha["east"]
    create_topic(cluster, unique, partitions=3)
    acks_all = {**cluster.client(), "acks": "all"}
    cluster.kill(3)
    try:
        assert produce(acks_all, unique) is None
    finally:
        cluster.start(3)
    assert len(admin(cluster.client()).list_topics(timeout=30).brokers) == 3


@pytest.mark.parametrize("principal", ["admin", "plan", "apply", "mirror", "user"])
def test_principals_log_in_by_password_and_by_certificate(secure: Sandbox, principal: str) -> None:
    for cluster in secure.clusters.values():
        for settings in (cluster.client(principal), cluster.mtls_client(principal)):
            assert admin(settings).list_topics(timeout=30).cluster_id == cluster.cluster_id


def test_a_wrong_password_is_refused(secure: Sandbox) -> None:
    settings = {**secure["east"].client("plan"), "sasl.password": secure["west"].client("plan")["sasl.password"]}
    with pytest.raises(KafkaException):
        admin(settings).list_topics(timeout=3)


def test_the_mtls_listener_wants_a_certificate(secure: Sandbox) -> None:
    settings = secure["east"].mtls_client("admin")
    del settings["ssl.certificate.location"], settings["ssl.key.location"]
    with pytest.raises(KafkaException):
        admin(settings).list_topics(timeout=3)


def test_a_cluster_does_not_trust_its_neighbour(secure: Sandbox) -> None:
    settings = {**secure["east"].client("admin"), "ssl.ca.location": str(secure["west"].ca)}
    with pytest.raises(KafkaException):
        admin(settings).list_topics(timeout=3)


def test_the_authorizer_denies_by_default(secure: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    cluster = secure["east"]
    create_topic(cluster, unique)
    for principal in ("plan", "apply", "mirror", "user"):
        assert "AUTHORIZATION" in str(produce(cluster.client(principal), unique)).upper(), principal
    assert produce(cluster.client("admin"), unique) is None


def may_create(cluster: ClusterHandle, principal: str, topic: str) -> bool:
    client = admin(cluster.client(principal))
    error = client.create_topics([NewTopic(topic, 1, 1)])[topic].exception(10)
    assert error is None or "AUTHORIZATION" in str(error).upper()
    return error is None


def test_only_apply_creates_topics(secure: Sandbox, unique: str) -> None:
    allowed = {name for name in ("plan", "apply", "mirror", "user") if may_create(secure["west"], name, unique + name)}
    assert allowed == {"apply"}


def test_the_mirror_writes_remote_topics_only(secure: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    west = secure["west"]
    remote = create_topic(west, f"east.{unique}")
    own = create_topic(west, unique)
    transactional = {**west.client("mirror"), "transactional.id": f"mirror.{unique}.0", "log_level": "0"}
    producer = Producer(transactional)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(remote, b"value")
    producer.commit_transaction(30)
    assert produce(west.client("mirror"), own) is not None


def test_a_users_topics_carry_its_name(secure: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    topic = create_topic(secure["east"], f"user.{unique}")
    assert produce(secure["east"].client("user"), topic) is None
