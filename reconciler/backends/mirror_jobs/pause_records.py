"""Writes the pauses that a mirror job obeys: one record each in the status topic, deleted to resume."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection

from reconciler.edges.kafka import errors
from reconciler.edges.kafka.connection import CONNECT_SECONDS, Connection, DebugLog
from reconciler.edges.kafka.identity import client_settings
from reconciler.topology import Cluster, Principal
from replication.names import STATUS_TOPIC

WRITE_SECONDS = 15.0


def write_records(cluster: Cluster, principal: Principal, values: Mapping[str, bytes | None]) -> None:
    """``values`` by key, None deletes. Raises ClusterError; then some may have been written."""
    connection = Connection(cluster, principal)
    try:
        request = connection.admin.describe_cluster(request_timeout=CONNECT_SECONDS)
        connection.first(request, errors.DESCRIBE_CLUSTER)
        topics = connection.admin.describe_topics(TopicCollection([STATUS_TOPIC]), request_timeout=CONNECT_SECONDS)
        connection.settle(topics.values())  # producing to a missing topic might create it with the broker's defaults
        failed = connection.failure(topics[STATUS_TOPIC], errors.describe_topic(STATUS_TOPIC))
        if failed is not None:
            raise failed
        _produce(cluster, principal, connection, values)
    finally:
        connection.close()


def _produce(
    cluster: Cluster, principal: Principal, connection: Connection, values: Mapping[str, bytes | None]
) -> None:
    asked = errors.Asked(f"write to topic {STATUS_TOPIC}", "Write", f"--topic {STATUS_TOPIC}")
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    settings = {
        **client_settings(cluster, principal),
        "acks": "all",  # a record written twice says the same; an idempotent producer would need one more right
        "message.timeout.ms": int(WRITE_SECONDS * 1000),
        "error_cb": connection.heard,
    }
    producer = Producer(settings, logger=DebugLog())
    try:
        for key, value in values.items():
            producer.produce(STATUS_TOPIC, value, key, on_delivery=delivered)
        left = producer.flush(WRITE_SECONDS + 5)
    except KafkaException as error:
        raise connection.error(error.args[0], asked) from None
    if failures:
        raise connection.error(failures[0], asked)
    if left:
        raise errors.unreachable(connection.speaker, (f"{STATUS_TOPIC} took no record in {WRITE_SECONDS:.0f} s",))
