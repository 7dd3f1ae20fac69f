"""Whether a change stands on a cluster already, also when its answer was lost."""

from __future__ import annotations

from typing import assert_never

from reconciler.changes import AddPartitions, AlterConfigs, CreateTopic, DeleteTopic, TopicChange
from reconciler.live import LiveCluster
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
