"""Reads what ``doctor`` checks on a cluster: addresses, certificates, broker configs, features, clock, quotas.

Each part that cannot be read is Unknown by itself; the others are still reported.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from reconciler.backends.clusters.impact import read_nature
from reconciler.backends.clusters.quotas import QuotaRequests
from reconciler.backends.connections import errors
from reconciler.backends.connections.credentials import client_settings
from reconciler.backends.connections.dial import dial
from reconciler.backends.connections.librdkafka import REQUEST_SECONDS, AdminConnection, kafka_error_of
from reconciler.backends.connections.requests import Requests
from reconciler.errors import ReconcilerError, Unknown, or_unknown_why
from reconciler.kafka.client.connection import Connection as WireConnection
from reconciler.kafka.protocol import generated as protocol
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.reports.doctor import Address, ClusterFacts

_NO_CLOCK = "the controllers do not report their time (before Kafka 3.3)"
_QUORUM = errors.Asked("ask for the controllers' clock", "Describe", "--cluster")
_CONFIGS = errors.Asked("read the configs of the brokers", "DescribeConfigs", "--cluster")
_ANY_ACL = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def cluster_facts(cluster: Cluster, principal: Principal) -> ClusterFacts:
    """Never raises for a cluster that does not answer. ``cluster_id`` None: no address answered as a broker."""

    def address(server: str) -> Address:
        try:
            settings = client_settings(cluster, principal)
        except ReconcilerError as error:
            return Address(server, error.what)
        return dial(server, settings, cluster.client_for(principal))

    with ThreadPoolExecutor(len(cluster.bootstrap_servers)) as pool:
        addresses = tuple(pool.map(address, cluster.bootstrap_servers))
    silent = Unknown(f"cluster {cluster.name}", "the cluster did not answer")
    try:
        connection = AdminConnection(cluster, principal)
        described = connection.cluster()
    except ReconcilerError:
        return ClusterFacts(cluster.name, addresses, None, silent, silent, silent, {}, silent, 0, silent)
    brokers = _brokers(connection, [node.id for node in described.nodes])
    authorizer = _authorizer(connection, cluster, principal)
    connection.close()
    facts = ClusterFacts(cluster.name, addresses, described.cluster_id, brokers, authorizer)

    return replace(facts, **over_our_connection(cluster, principal))


def over_our_connection(cluster: Cluster, principal: Principal) -> Mapping[str, Any]:
    """Fields of ClusterFacts for which librdkafka has no call. Never raises for a cluster that does not answer."""
    subject = f"cluster {cluster.name}"

    async def finalized(connection: WireConnection) -> Mapping[str, int]:
        """Features (KIP-584) with their level."""
        return dict(sorted(connection.features.items()))

    try:
        with QuotaRequests(cluster, principal) as requests:
            skew = or_unknown_why(subject, partial(skew_ms, requests))
            return {
                "features": requests.ask(errors.DESCRIBE_CLUSTER, finalized),
                "apis": {protocol.api_name(key): high for key, (_, high) in requests.versions().items()},
                "skew_ms": skew if isinstance(skew, Unknown) else skew[0],
                "skew_error_ms": 0 if isinstance(skew, Unknown) else skew[1],
                "quotas": or_unknown_why(subject, partial(mutation_quotas, requests)),
            }
    except ReconcilerError as error:
        unknown = Unknown.of(subject, error)
        return {"features": unknown, "skew_ms": unknown, "quotas": unknown}


def skew_ms(requests: Requests) -> tuple[int, int]:
    """The active controller's clock minus ours, and how far off that may be, from half the round trip.

    DescribeQuorum (KIP-836): for itself, the leader answers with its present time as last caught up. Raises
    ReconcilerError.
    """
    kind = protocol.DescribeQuorumRequest
    if kind.API_KEY not in requests.versions():
        raise ReconcilerError(_NO_CLOCK)
    place = kind.TopicData(
        topic_name="__cluster_metadata", partitions=[kind.TopicData.PartitionData(partition_index=0)]
    )
    before = time.time()
    answer = requests.send(_QUORUM, kind, topics=[place])
    after = time.time()
    requests.check(answer.error_code, _QUORUM)
    [topic] = answer.topics
    [partition] = topic.partitions
    requests.check(partition.error_code, _QUORUM)
    voters = {voter.replica_id: voter.last_caught_up_timestamp for voter in partition.current_voters}
    caught_up_ms = int(voters.get(partition.leader_id) or 0)
    if caught_up_ms <= 0:
        raise ReconcilerError(_NO_CLOCK)
    return round(caught_up_ms - (before + after) / 2 * 1000), round((after - before) / 2 * 1000) + 1


def mutation_quotas(requests: QuotaRequests) -> Mapping[str, float]:
    """controller_mutation_rate (KIP-599) by the entity that it is for; empty when no such quota is set."""
    key = "controller_mutation_rate"
    return {str(whom): limits[key] for whom, limits in requests.described().items() if key in limits}


def _brokers(connection: AdminConnection, ids: list[int]) -> Mapping[int, Mapping[str, str | None]] | Unknown:
    """Configs of each broker; Unknown if one of them cannot be read."""
    brokers: dict[int, Mapping[str, str | None]] = {}
    for number in ids:
        resource = ConfigResource(ResourceType.BROKER, str(number))
        [future] = connection.admin.describe_configs([resource], request_timeout=REQUEST_SECONDS).values()
        try:
            connection.settle((future,))
            if failed := connection.failure(future, _CONFIGS):
                raise failed
        except ReconcilerError as error:
            return Unknown(f"configs of broker {number}", error.what, error.todo)
        brokers[number] = {key: entry.value for key, entry in future.result().items()}
    return brokers


def _authorizer(connection: AdminConnection, cluster: Cluster, principal: Principal) -> bool | Unknown:
    """Asked over our own connection: librdkafka 2.16 returns SECURITY_DISABLED as an empty list of rules."""
    authorizer = read_nature(cluster, principal).authorizer
    if authorizer is not None:
        return authorizer
    future: Any = connection.admin.describe_acls(_ANY_ACL, request_timeout=REQUEST_SECONDS)
    try:
        connection.settle((future,))
    except ReconcilerError as error:
        return Unknown("authorizer", error.what, error.todo)
    refusal = kafka_error_of(future)
    if refusal is None and not future.result():
        description = "the brokers reported no access rules, with or without an authorizer"
        return Unknown("authorizer", description, "Look for authorizer.class.name on the brokers.")
    if refusal is None or refusal.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return True
    if refusal.code() == errors.SECURITY_DISABLED:
        return False
    failed = connection.error(refusal, errors.DESCRIBE_CLUSTER)
    return Unknown("authorizer", failed.what, failed.todo)
