"""Facts about one cluster for ``doctor``: addresses and certificates, broker configs, features, clock, quotas.

Each part that cannot be read is Unknown by itself; the others are still told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from reconciler.checkups import Address, ClusterFacts
from reconciler.edges.kafka import errors
from reconciler.edges.kafka.connection import CONNECT_SECONDS, REQUEST_SECONDS, Connection, kafka_error_of
from reconciler.edges.kafka.dialing import dial
from reconciler.edges.kafka.identity import client_settings
from reconciler.edges.kafka.protocol import Wire
from reconciler.edges.kafka.stakes import read_nature
from reconciler.errors import ReconcilerError, Unknown
from reconciler.topology import Cluster, Principal

SECURITY_DISABLED = 54
_ANY_ACL = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)

Answer = TypeVar("Answer")


def cluster_facts(cluster: Cluster, principal: Principal) -> ClusterFacts:
    """Never raises for a cluster that does not answer. ``cluster_id`` None: nobody answered as a broker."""
    with ThreadPoolExecutor(len(cluster.bootstrap_servers)) as pool:
        addresses = tuple(pool.map(partial(_address, cluster, principal), cluster.bootstrap_servers))
    silent = Unknown(f"cluster {cluster.name}", "the cluster did not answer")
    try:
        connection = Connection(cluster, principal)
        asked = connection.admin.describe_cluster(request_timeout=CONNECT_SECONDS)
        described = connection.first(asked, errors.DESCRIBE_CLUSTER)
    except ReconcilerError:
        return ClusterFacts(cluster.name, addresses, None, silent, silent, silent, {}, silent, 0, silent)
    brokers = _brokers(connection, [node.id for node in described.nodes])
    authorizer = _authorizer(connection, cluster, principal)
    connection.close()
    skew = _asked(cluster, principal, Wire.skew_ms)
    return ClusterFacts(
        name=cluster.name,
        addresses=addresses,
        cluster_id=described.cluster_id,
        brokers=brokers,
        authorizer=authorizer,
        features=_asked(cluster, principal, Wire.features),
        apis=_or_empty(_asked(cluster, principal, Wire.apis)),
        skew_ms=skew if isinstance(skew, Unknown) else skew[0],
        skew_error_ms=0 if isinstance(skew, Unknown) else skew[1],
        quotas=_asked(cluster, principal, Wire.mutation_quotas),
    )


def _or_empty(found: Mapping[str, int] | Unknown) -> Mapping[str, int]:
    return {} if isinstance(found, Unknown) else found


def _asked(cluster: Cluster, principal: Principal, ask: Callable[[Wire], Answer]) -> Answer | Unknown:
    try:
        with Wire(cluster, principal) as wire:
            return ask(wire)
    except ReconcilerError as error:
        return Unknown(f"cluster {cluster.name}", error.what, error.todo)


def _brokers(connection: Connection, ids: list[int]) -> Mapping[int, Mapping[str, str | None]] | Unknown:
    found: dict[int, Mapping[str, str | None]] = {}
    for number in ids:
        asked = connection.admin.describe_configs(
            [ConfigResource(ResourceType.BROKER, str(number))], request_timeout=REQUEST_SECONDS
        )
        try:
            connection.settle(asked.values())
        except ReconcilerError as error:
            return Unknown(f"configs of broker {number}", error.what, error.todo)
        for future in asked.values():
            failed = connection.failure(
                future, errors.Asked("read the configs of the brokers", "DescribeConfigs", "--cluster")
            )
            if failed is not None:
                return Unknown(f"configs of broker {number}", failed.what, failed.todo)
            found[number] = {key: entry.value for key, entry in future.result().items()}
    return found


def _authorizer(connection: Connection, cluster: Cluster, principal: Principal) -> bool | Unknown:
    """Asked over our own connection: librdkafka 2.16 tells SECURITY_DISABLED as an empty list of rules."""
    told = read_nature(cluster, principal).authorizer
    if told is not None:
        return told
    future: Any = connection.admin.describe_acls(_ANY_ACL, request_timeout=REQUEST_SECONDS)
    try:
        connection.settle((future,))
    except ReconcilerError as error:
        return Unknown("authorizer", error.what, error.todo)
    refusal = kafka_error_of(future)
    if refusal is None and not future.result():
        what = "no access rules were told, with an authorizer or without one"
        return Unknown("authorizer", what, "Look for authorizer.class.name on the brokers.")
    if refusal is None or refusal.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return True
    if refusal.code() == SECURITY_DISABLED:
        return False
    failed = connection.error(refusal, errors.DESCRIBE_CLUSTER)
    return Unknown("authorizer", failed.what, failed.todo)


def _address(cluster: Cluster, principal: Principal, server: str) -> Address:
    try:
        settings = client_settings(cluster, principal)
    except ReconcilerError as error:
        return Address(server, error.what)
    return dial(server, settings, cluster.client_for(principal))
