"""One batch of topic changes as one request to the controller, real or validate-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from reconciler.backends.clusters.topics.batches import PlannedTopicChange
from reconciler.backends.connections import errors
from reconciler.backends.connections.librdkafka import REQUEST_SECONDS, AdminConnection
from reconciler.errors import ClusterError
from reconciler.model.changes import AddPartitions, AlterConfigs, CreateTopic, DeleteTopic, TopicChange

OPERATION_SECONDS = 15.0


_ASKED = {
    CreateTopic: errors.create_topic,
    AddPartitions: errors.add_partitions,
    AlterConfigs: errors.alter_configs,
    DeleteTopic: errors.delete_topic,
}


def send(
    connection: AdminConnection, batch: Sequence[PlannedTopicChange], validate_only: bool
) -> Mapping[str, ClusterError | None]:
    """The controller's answer by item id; None: accepted. ``batch`` is of one kind and names no topic twice."""
    if not batch:
        return {}
    connection.wait_out_throttle()
    try:
        futures = _futures(connection, [item.change for item in batch], validate_only)
    except (KafkaException, TypeError, ValueError) as error:  # the client itself refuses the request
        refused = ClusterError(
            connection.speaker.cluster,
            "invalid",
            f"the client refused a request for {batch[0].change.ref}: {connection.clean(str(error))}",
            "Nothing of this request was sent",
            "Correct the topology.",
        )
        return {item.id: refused for item in batch}
    connection.settle(futures.values())
    named = [(item, item.change.ref.name) for item in batch]
    return {item.id: connection.failure(futures[name], _ASKED[type(item.change)](name)) for item, name in named}


def _futures(
    connection: AdminConnection, changes: Sequence[TopicChange], validate_only: bool
) -> Mapping[str, Future[Any]]:
    deletes = [change.ref.name for change in changes if isinstance(change, DeleteTopic)]
    if deletes:
        bounds = {"request_timeout": REQUEST_SECONDS, "operation_timeout": OPERATION_SECONDS}
        return dict(connection.admin.delete_topics(deletes, **bounds))
    limits = {"request_timeout": REQUEST_SECONDS, "validate_only": validate_only}
    creates = [change for change in changes if isinstance(change, CreateTopic)]
    grows = [change for change in changes if isinstance(change, AddPartitions)]
    alters = [change for change in changes if isinstance(change, AlterConfigs)]
    if creates:
        topics = [_new_topic(change) for change in creates]
        return dict(connection.admin.create_topics(topics, operation_timeout=OPERATION_SECONDS, **limits))
    if grows:
        parts = [NewPartitions(change.ref.name, change.after) for change in grows]
        return dict(connection.admin.create_partitions(parts, operation_timeout=OPERATION_SECONDS, **limits))
    resources = [_altered(change) for change in alters]
    asked_for = connection.admin.incremental_alter_configs(resources, **limits)
    return {resource.name: future for resource, future in asked_for.items()}


def _new_topic(change: CreateTopic) -> NewTopic:
    factor = -1 if change.replication_factor is None else change.replication_factor
    configs = {desired.key: desired.after for desired in change.configs if desired.after is not None}
    return NewTopic(change.ref.name, change.partitions, factor, config=configs)


def _altered(change: AlterConfigs) -> ConfigResource:
    entries = [
        ConfigEntry(
            desired.key,
            desired.after,
            incremental_operation=AlterConfigOpType.DELETE if desired.after is None else AlterConfigOpType.SET,
        )
        for desired in change.configs
    ]
    return ConfigResource(ResourceType.TOPIC, change.ref.name, incremental_configs=entries)
