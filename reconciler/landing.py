"""Whether a change stands on a cluster already, also when its answer was lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from reconciler.changes import AddPartitions, AlterConfigs, AlterUser, CreateTopic, DeleteTopic, TopicChange, UserChange
from reconciler.errors import Unknown
from reconciler.live import LiveCluster, LiveUsers
from reconciler.topic_configs import same


def landed(change: TopicChange, cluster: LiveCluster) -> bool:
    """Whether the cluster already is as the change wants it."""
    topic = cluster.topics.get(change.ref.name)
    if isinstance(change, DeleteTopic):
        return topic is None or topic.topic_id != change.topic_id
    if topic is None:
        return False
    match change:
        case CreateTopic():
            return change.partitions in (-1, len(topic.partitions))
        case AddPartitions():
            return topic.topic_id == change.topic_id and len(topic.partitions) >= change.after
        case AlterConfigs():
            return all(same(one.key, topic.overrides.get(one.key), one.after) for one in change.configs)
        case _:
            assert_never(change)


def user_landed(change: UserChange, users: LiveUsers) -> bool:
    """Of a password only what the ownership record says: nothing else tells whether it was set."""
    if not isinstance(users.credentials, Mapping) or isinstance(users.recorded, Unknown):
        return False
    there = users.credentials.get(change.user, {})
    if isinstance(change, AlterUser):
        record = users.recorded.get(change.user)
        set_and_said = record is not None and record.setting is None and record.version == change.version
        return set_and_said and all(there.get(one.mechanism) == one.after for one in change.credentials)
    return not any(mechanism in there for mechanism in change.mechanisms)
