"""Confirms topic changes: reads until every broker shows them, or reports remaining differences."""

import time
from collections.abc import Sequence
from typing import assert_never

from reconciler.backends.clusters.topics.batches import PlannedTopicChange
from reconciler.backends.clusters.topics.read import read_cluster
from reconciler.backends.connections.requests import Requests
from reconciler.errors import ClusterError, Unknown
from reconciler.model.changes import AddPartitions, AlterConfigs, ConfigChange, CreateTopic, DeleteTopic, TopicChange
from reconciler.model.config_values import same
from reconciler.model.live import LiveTopic
from reconciler.text import counted

AGREE_SECONDS = 120.0
"""A broker that creates the log files of thousands of partitions shows no newer metadata until it has finished."""

Failures = dict[str, str]
"""Id of a planned change -> why it is not done."""


def disagreement(change: TopicChange, topic: LiveTopic | None) -> str | None:
    """None if ``topic`` is in the state that ``change`` requests, else the difference, in words that follow the topic's
    name."""
    # By topic id: a client with auto-creation may have recreated the deleted topic under the same name.
    if isinstance(change, DeleteTopic):
        if topic is None:
            return None
        if topic.topic_id == change.topic_id:
            return "still exists"
        return (
            f"was deleted, but a client recreated it at once, with topic id {topic.topic_id}: look for a client that"
            " still uses it and for auto.create.topics.enable"
        )
    if topic is None:
        return "does not exist"
    match change:
        case CreateTopic():
            factor, wanted = topic.replication_factor, change.replication_factor
            other_factor = None
            if wanted is not None and factor != wanted:
                other_factor = f"has replication factor {factor or 'mixed'}, not {wanted}"
            return _partitions(change.partitions, topic) or other_factor or _configs(change.configs, topic)
        case AddPartitions():
            return _identity(change.topic_id, topic) or _partitions(change.after, topic)
        case AlterConfigs():
            return _identity(change.topic_id, topic) or _configs(change.configs, topic)
        case _:
            assert_never(change)


def obstacle(change: AddPartitions | AlterConfigs | DeleteTopic, topic: LiveTopic | None) -> str | None:
    """Why the change must not be sent: the topic is deleted, recreated, or larger than requested."""
    if topic is None:
        return None if isinstance(change, DeleteTopic) else "no longer exists"
    if recreated := _identity(change.topic_id, topic):
        return recreated
    if isinstance(change, AddPartitions) and len(topic.partitions) > change.after:
        return f"has {counted(len(topic.partitions), 'partition')} by now, more than the {change.after} planned"
    return None


def leaderless(change: TopicChange, topic: LiveTopic) -> str | None:
    """Partitions of the change without a leader yet, in words that follow the topic's name."""
    match change:
        case CreateTopic():
            made = topic.partitions
        case AddPartitions():
            made = topic.partitions[change.before :]
        case AlterConfigs() | DeleteTopic():
            made = ()
        case _:
            assert_never(change)
    without = [str(part.index) for part in made if part.leader < 0]
    return f"has no leader for partition {', '.join(without[:10])}" if without else None


def _identity(topic_id: str, topic: LiveTopic) -> str | None:
    if topic.topic_id == topic_id:
        return None
    return f"was deleted and created again since the plan: topic id was {topic_id}, is {topic.topic_id}"


def _partitions(wanted: int, topic: LiveTopic) -> str | None:
    number = len(topic.partitions)
    return None if wanted in (-1, number) else f"has {counted(number, 'partition')}, not {wanted}"


def _configs(wanted: Sequence[ConfigChange], topic: LiveTopic) -> str | None:
    """Why the topic's overrides are not as sent, None if they are."""
    if not wanted:
        return None
    if isinstance(topic.configs, Unknown):
        return f"does not show its configs: {topic.configs.error}"
    overrides = topic.overrides
    for desired in wanted:
        entry = topic.configs.get(desired.key)
        if entry is not None and entry.sensitive:
            continue  # its value is hidden: nothing can be compared
        value = overrides.get(desired.key)
        if not same(desired.key, value, desired.after):
            return f"has {desired.key} = {_shown(value)}, not {_shown(desired.after)}"
    return None


def _shown(value: str | None) -> str:
    return "no override" if value is None else repr(value)


def await_agreement(requests: Requests, items: Sequence[PlannedTopicChange], existed: frozenset[str]) -> Failures:
    """Waits until brokers show all changes. They replay the metadata log in order, so the last item is watched first:
    one cheap read.

    Each broker in turn is asked for configs, which also proves that it knows the topic; partitions come from one
    broker. Items of ``existed`` existed before, so waiting will not change them.
    """
    if not items:
        return {}
    until = time.monotonic() + AGREE_SECONDS
    _await(requests, items[-1:], existed, until, None)
    differing = _await(requests, items, existed, until, None)
    brokers = read_cluster(requests, ()).brokers
    for broker in brokers[1:]:
        if differing:
            break
        try:
            differing = _await(requests, items, existed, until, broker.id)
        except ClusterError as error:
            if error.kind != "unreachable":
                raise
            # Clients cannot use a silent broker either, so it has nothing to confirm.
    return differing


def _await(
    requests: Requests,
    items: Sequence[PlannedTopicChange],
    existed: frozenset[str],
    until: float,
    broker: int | None,
) -> Failures:
    """Reads until no item differs, or none can change any more, or the time is up. Returns the remaining
    differences."""
    pause = 0.02
    while True:
        # Each broker answers from a copy of the metadata that follows the controller's, so a change may show late.
        live = read_cluster(requests, [item.change.ref.name for item in items], broker)
        differing: Failures = {}
        moving = False
        for item in items:
            ref, topic = item.change.ref, live.topics.get(item.change.ref.name)
            if (hidden := live.hidden.get(ref.name)) is not None:
                doubt = f"whether it is done is unknown: {hidden.error}"
                differing[item.id] = f"{ref} was sent, and {doubt}\n{hidden.todo}"
                continue
            text = disagreement(item.change, topic) or (leaderless(item.change, topic) if topic else None)
            if text:
                differing[item.id] = f"{ref} {text}\nThe cluster shows something else than was asked\nRun plan again."
                # Waiting does not help with a topic that existed before, or was recreated after its deletion.
                recreated = topic and isinstance(item.change, DeleteTopic) and topic.topic_id != item.change.topic_id
                moving |= topic is None or not (item.id in existed or recreated)
        if not moving or time.monotonic() > until:
            return differing
        time.sleep(pause)
        pause = min(pause * 2, 1.0)
