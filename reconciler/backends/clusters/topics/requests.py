"""One batch of topic changes as one request to the controller, real or validate-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, assert_never

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from reconciler.changes import AddPartitions, AlterConfigs, CreateTopic, DeleteTopic, TopicChange
from reconciler.edges.kafka import errors
from reconciler.edges.kafka.batches import Item
from reconciler.edges.kafka.connection import REQUEST_SECONDS, Connection
from reconciler.errors import ClusterError

OPERATION_SECONDS = 15.0


def asked(change: TopicChange) -> errors.Asked:
    match change:
        case CreateTopic():
            return errors.create_topic(change.ref.name)
        case AddPartitions():
            return errors.add_partitions(change.ref.name)
        case AlterConfigs():
            return errors.alter_configs(change.ref.name)
        case DeleteTopic():
            return errors.delete_topic(change.ref.name)
        case _:
            assert_never(change)


def send(connection: Connection, batch: Sequence[Item], validate_only: bool) -> Mapping[str, ClusterError | None]:
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
    answers: dict[str, ClusterError | None] = {}
    for item in batch:
        answers[item.id] = connection.failure(futures[item.change.ref.name], asked(item.change))
    return answers


def _futures(connection: Connection, changes: Sequence[TopicChange], validate_only: bool) -> Mapping[str, Future[Any]]:
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
    configs = {wish.key: wish.after for wish in change.configs if wish.after is not None}
    return NewTopic(change.ref.name, change.partitions, factor, config=configs)


def _altered(change: AlterConfigs) -> ConfigResource:
    entries = [
        ConfigEntry(
            wish.key,
            wish.after,
            incremental_operation=AlterConfigOpType.DELETE if wish.after is None else AlterConfigOpType.SET,
        )
        for wish in change.configs
    ]
    return ConfigResource(ResourceType.TOPIC, change.ref.name, incremental_configs=entries)
