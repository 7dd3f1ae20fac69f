"""Whether the topic that was read is as a change wants it: asked before a change (resume) and after it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from reconciler.errors import Unknown
from reconciler.model.changes import AddPartitions, AlterConfigs, ConfigChange, CreateTopic, DeleteTopic, TopicChange
from reconciler.model.config_values import same
from reconciler.model.live import LiveTopic
from reconciler.text import counted


def disagreement(change: TopicChange, topic: LiveTopic | None) -> str | None:
    """None when ``topic`` is as ``change`` wants it, else how it differs, in words that follow the topic's name."""
    if isinstance(change, DeleteTopic):
        return _still_there(change, topic)
    if topic is None:
        return "does not exist"
    match change:
        case CreateTopic():
            return (
                _partitions(change.partitions, topic)
                or _factor(change.replication_factor, topic)
                or _configs(change.configs, topic)
            )
        case AddPartitions():
            return _identity(change.topic_id, topic) or _partitions(change.after, topic)
        case AlterConfigs():
            return _identity(change.topic_id, topic) or _configs(change.configs, topic)
        case _:
            assert_never(change)


def obstacle(change: AddPartitions | AlterConfigs | DeleteTopic, topic: LiveTopic | None) -> str | None:
    """Why the change must not be sent: the topic is gone, another one, or larger than the change would make it."""
    if topic is None:
        return None if isinstance(change, DeleteTopic) else "no longer exists"
    if recreated := _identity(change.topic_id, topic):
        return recreated
    if isinstance(change, AddPartitions) and len(topic.partitions) > change.after:
        return f"has {counted(len(topic.partitions), 'partition')} by now, more than the {change.after} planned"
    return None


def leaderless(change: TopicChange, topic: LiveTopic) -> str | None:
    """Of the partitions that the change made."""
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


def _still_there(change: DeleteTopic, topic: LiveTopic | None) -> str | None:
    if topic is None:
        return None
    if topic.topic_id == change.topic_id:
        return "still exists"
    return (
        f"was deleted, but a client recreated it at once, with topic id {topic.topic_id}: look for a client that"
        " still uses it and for auto.create.topics.enable"
    )


def _identity(topic_id: str, topic: LiveTopic) -> str | None:
    if topic.topic_id == topic_id:
        return None
    return f"was deleted and created again since the plan: topic id was {topic_id}, is {topic.topic_id}"


def _partitions(wanted: int, topic: LiveTopic) -> str | None:
    number = len(topic.partitions)
    return None if wanted in (-1, number) else f"has {counted(number, 'partition')}, not {wanted}"


def _factor(wanted: int | None, topic: LiveTopic) -> str | None:
    if wanted is None or topic.replication_factor == wanted:
        return None
    return f"has replication factor {topic.replication_factor or 'mixed'}, not {wanted}"


def _configs(wanted: Iterable[ConfigChange], topic: LiveTopic) -> str | None:
    changes = tuple(wanted)
    if not changes:
        return None
    if isinstance(topic.configs, Unknown):
        return f"does not show its configs: {topic.configs.error}"
    overrides = topic.overrides
    for desired in changes:
        entry = topic.configs.get(desired.key)
        if entry is not None and entry.sensitive:
            continue  # its value is hidden: nothing can be compared
        all_configs = overrides.get(desired.key)
        if not same(desired.key, all_configs, desired.after):
            return f"has {desired.key} = {_shown(all_configs)}, not {_shown(desired.after)}"
    return None


def _shown(value: str | None) -> str:
    return "no override" if value is None else repr(value)
