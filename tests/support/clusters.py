"""Running clusters as a stranger or a super user works on them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.releases import NEWEST, release_of

from reconciler.model.environment.topology import Cluster
from tests.support.waiting import until

CreateTopic = Callable[..., str]
EAST = release_of("east")
"""The release of cluster east in this run (SANDBOX_KAFKA, `make test-brokers`)."""
kraft = pytest.mark.skipif(EAST.zookeeper, reason=f"Kafka {EAST.version} runs with ZooKeeper here")
newest = pytest.mark.skipif(EAST != NEWEST, reason=f"asks for what Kafka {NEWEST.version} has, not {EAST.version}")
"""What for is said at the test."""
mutation_quota = pytest.mark.skipif(
    not EAST.zookeeper and EAST.number < (3, 9), reason=f"controllers of Kafka {EAST.version} count no mutations"
)
consumer_protocol = pytest.mark.skipif(EAST.number < (4,), reason=f"Kafka {EAST.version} has no KIP-848 (4.0)")
share_groups = pytest.mark.skipif(EAST.number < (4, 2), reason=f"Kafka {EAST.version} has no share groups (4.2)")
scram = pytest.mark.skipif(not EAST.scram, reason=f"Kafka {EAST.version} with KRaft has no SCRAM (3.5, KIP-900)")


def real_cluster(handle: ClusterHandle, principal: str = "admin", **settings: str) -> Cluster:
    """The noun for a running cluster; ``settings`` with ``_`` for ``.`` lie over the principal's."""
    client = handle.client(principal) | {key.replace("_", "."): value for key, value in settings.items()}
    servers = client.pop("bootstrap.servers")
    return Cluster(handle.name, tuple(servers.split(",")), client=client)


def kerberos_cluster(handle: ClusterHandle) -> Cluster:
    """As ``real_cluster``, logged in to by a ticket."""
    client = handle.kerberos_client("admin")
    return Cluster(handle.name, tuple(client.pop("bootstrap.servers").split(",")), client=client)


def may_log_in(east: ClusterHandle, user: str, password: str) -> bool:
    """Whether a connection as ``user`` is accepted; what else it may do is another question."""
    client = east.client("user") | {"sasl.username": user, "sasl.password": password, "log_level": "0"}
    heard: list[str] = []
    admin = AdminClient({**client, "error_cb": lambda error: heard.append(error.name())})
    asked, until = admin.describe_cluster(request_timeout=15), time.monotonic() + 15
    while time.monotonic() < until and "_AUTHENTICATION" not in heard and not asked.done():
        admin.poll(0.1)
    if "_AUTHENTICATION" in heard:
        return False
    asked.result(1)
    return True


DAY = 86_400_000


def produce(cluster: ClusterHandle, topic: str, ages_days: dict[int, int]) -> None:
    """``ages_days``: how old -> how many records of partition 0."""
    producer = Producer({**cluster.super_client(), "linger.ms": 5})
    now = int(time.time() * 1000)
    for age, count in ages_days.items():
        for _ in range(count):
            producer.produce(topic, b"x" * 200, partition=0, timestamp=now - age * DAY)
        producer.flush(20)


@contextmanager
def member(handle: ClusterHandle, group: str, topic: str, protocol: str, **more: str) -> Iterator[None]:
    """An active member of the group, with partitions."""
    settings = {**handle.super_client(), "group.id": group, "auto.offset.reset": "earliest", "client.id": "a-client"}
    settings |= {key.replace("_", "."): value for key, value in more.items()}
    consumer = Consumer({**settings, "group.protocol": protocol, "enable.auto.commit": False})
    consumer.subscribe([topic])
    until = time.monotonic() + 60
    while not consumer.assignment() and time.monotonic() < until:
        consumer.poll(0.2)
    assert consumer.assignment()
    consumer.commit(offsets=[TopicPartition(topic, 0, 5, metadata="by a member")], asynchronous=False)
    try:
        yield
    finally:
        consumer.close()


@contextmanager
def denied(cluster: ClusterHandle, user: str, *topics: str) -> Iterator[None]:
    """While a Deny rule keeps each of ``topics`` from being described by ``user``."""
    admin = AdminClient({**cluster.super_client(), "log_level": "0"})
    rules = [
        (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", AclOperation.DESCRIBE)
        for topic in topics
    ]
    seen = AdminClient({**cluster.client(user), "log_level": "0"})
    for future in admin.create_acls([AclBinding(*rule, AclPermissionType.DENY) for rule in rules]).values():
        future.result(20)
    try:
        until(lambda: not set(topics) & set(seen.list_topics(timeout=30).topics))
        yield
    finally:
        for future in admin.delete_acls([AclBindingFilter(*rule, AclPermissionType.DENY) for rule in rules]).values():
            future.result(20)


VERIFICATION = "transaction.partition.verification.enable"


def verify_partitions(cluster: ClusterHandle, value: str | None) -> None:
    entry = ConfigEntry(
        VERIFICATION,
        value,
        incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
    )
    admin = AdminClient(cluster.super_client())
    changed = admin.incremental_alter_configs([ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])])
    for future in changed.values():
        future.result(20)


def delete_topic(cluster: ClusterHandle, topic: str) -> None:
    """Returns when the cluster lists it no more and lets it be made anew: with ZooKeeper it does so later."""
    admin = AdminClient({**cluster.super_client(), "log_level": "0"})
    admin.delete_topics([topic])[topic].result(20)
    until(lambda: topic not in admin.list_topics(timeout=30).topics, 60)
    until(lambda: admin.create_topics([NewTopic(topic, 1)], validate_only=True)[topic].exception(20) is None, 60)


def topics(cluster: ClusterHandle) -> set[str]:
    return set(AdminClient({**cluster.client(), "log_level": "0"}).list_topics(timeout=30).topics)


def secured_clusters(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lines of YAML: the clusters of profile ``secure`` with a principal for each role; their secrets are variables."""
    lines = ["clusters:"]
    for handle in sandbox.clusters.values():
        for name, secret in handle.secrets().items():
            monkeypatch.setenv(name, secret)
        prefix = f"SANDBOX_{handle.name.upper()}"
        lines += [
            f"  {handle.name}:",
            f"    bootstrap_servers: [{handle.bootstrap_servers}]",
            f"    cluster_id: {json.dumps(handle.cluster_id)}",
            "    client: {security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512, "
            f'ssl.ca.location: "${{env:{prefix}_CA}}"}}',
            "    principals:",
        ]
        lines += [
            f'      {who}: {{sasl.username: {who}, sasl.password: "${{env:{prefix}_{who.upper()}_PASSWORD}}"}}'
            for who in ("plan", "apply", "mirror")
        ]
    return lines
