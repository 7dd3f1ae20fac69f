"""Writes the pauses that a mirror job obeys: one record each in the status topic, deleted to resume."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException, Producer, TopicCollection

from reconciler.backends.connections import errors
from reconciler.backends.connections.credentials import client_settings
from reconciler.backends.connections.librdkafka import CONNECT_SECONDS, AdminConnection, DebugLog, deliver
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.replication.names import STATUS_TOPIC

WRITE_SECONDS = 15.0


def write_records(cluster: Cluster, principal: Principal, values: Mapping[str, bytes | None]) -> None:
    """``values`` by key, None deletes. Raises ClusterError; then some may have been written."""
    connection = AdminConnection(cluster, principal)
    try:
        connection.cluster()
        topics = connection.admin.describe_topics(TopicCollection([STATUS_TOPIC]), request_timeout=CONNECT_SECONDS)
        connection.settle(topics.values())  # producing to a missing topic might create it with the broker's defaults
        failed = connection.failure(topics[STATUS_TOPIC], errors.describe_topic(STATUS_TOPIC))
        if failed is not None:
            raise failed
        _produce(cluster, principal, connection, values)
    finally:
        connection.close()


def _produce(
    cluster: Cluster, principal: Principal, connection: AdminConnection, values: Mapping[str, bytes | None]
) -> None:
    asked = errors.write_topic(STATUS_TOPIC)
    settings = {
        **client_settings(cluster, principal),
        "acks": "all",  # a record written twice says the same; an idempotent producer would need one more right
        "message.timeout.ms": int(WRITE_SECONDS * 1000),
        "error_cb": connection.heard,
    }
    producer = Producer(settings, logger=DebugLog())
    try:
        failed, unsent = deliver(producer, STATUS_TOPIC, values.items(), WRITE_SECONDS + 5)
    except KafkaException as error:
        raise connection.error(error.args[0], asked) from None
    if failed:
        raise connection.error(failed, asked)
    if unsent:
        raise errors.unreachable(connection.speaker, (f"{STATUS_TOPIC} took no record in {WRITE_SECONDS:.0f} s",))
