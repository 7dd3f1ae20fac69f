"""The kind of topics: that they are there, their partitions and their configs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import assert_never

from reconciler.errors import Unknown
from reconciler.model.changes import (
    About,
    Action,
    AddPartitions,
    AlterConfigs,
    CreateTopic,
    DeleteTopic,
    KindName,
    Risk,
    Role,
    Subject,
    TopicChange,
)
from reconciler.model.config_values import human, same
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import LiveCluster, LiveTopic
from reconciler.model.ports import ClusterAdmin
from reconciler.model.reports.drift import Deviation
from reconciler.resources.kind import ABSENT, Counts, Kind, of_clusters, of_topics, parts
from reconciler.resources.topics.causes import cause
from reconciler.resources.topics.defaults import DECLARED
from reconciler.resources.topics.risk import assess
from reconciler.text import counted

_MISSING = {
    Role.DECLARED: "topic-missing",
    Role.REMOTE: "remote-topic-missing",
    Role.INTERNAL: "internal-missing",
}


def place(change: TopicChange) -> tuple[int, str]:
    """The deepest hop first; of topics that go, a source before its remote topics."""
    if isinstance(change, DeleteTopic):
        return change.depth, change.ref.name
    return -max(change.depth, 1), change.ref.name  # internal topics go with the first hop


def rests_on(change: TopicChange, sources: Mapping[TopicRef, TopicRef]) -> Iterator[Subject]:
    for ref in (change.ref, sources[change.ref]) if change.ref in sources else (change.ref,):
        yield Subject(About.TOPIC_STATE, ref.cluster, ref.name)
        yield Subject(About.CLUSTER, ref.cluster)


def topic_state(topic: LiveTopic | None) -> str:
    if topic is None:
        return ABSENT
    factor = topic.replication_factor or "mixed"
    overrides = ", ".join(f"{key}={value}" for key, value in sorted(topic.overrides.items())) or "no overrides"
    if isinstance(topic.configs, Unknown):
        overrides = "configs unreadable"
    return (
        f"id {topic.topic_id}, {counted(len(topic.partitions), 'partition')}, replication factor {factor}, {overrides}"
    )


def cluster_state(cluster: LiveCluster, _: str) -> str:
    return f"cluster id {cluster.cluster_id}"


def is_safe(change: TopicChange, risk: Risk) -> bool:
    """Low risks of remote topics; never a deletion."""
    return not isinstance(change, DeleteTopic) and change.role is Role.REMOTE and risk == Risk.LOW


def confirm(admin: ClusterAdmin, changes: Sequence[TopicChange]) -> Callable[[TopicChange], bool]:
    cluster = admin.read([change.ref.name for change in changes])
    return lambda change: landed(change, cluster)


def landed(change: TopicChange, cluster: LiveCluster) -> bool:
    """Whether the cluster already is as the change wants it, also when its response was lost."""
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
            return all(same(config.key, topic.overrides.get(config.key), config.after) for config in change.configs)
        case _:
            assert_never(change)


def deviations(change: TopicChange) -> Iterator[Deviation]:
    subject = str(change.ref)
    match change:
        case CreateTopic():
            yield Deviation(subject, _MISSING[change.role], change.shape, "no topic", _of_whom(change))
        case AddPartitions():
            desired, text = counted(change.after, "partition"), counted(change.before, "partition")
            yield Deviation(subject, "partitions", desired, text, _of_whom(change))
        case AlterConfigs():
            for config in change.configs:
                aim = config.after if config.goal is None else config.goal
                desired = f"no override ({config.origin})" if aim is None else human(config.key, aim)
                text = f"{human(config.key, config.before)} ({config.before_source})"
                origin = "" if config.after is None else _origin(config.origin)
                yield Deviation(f"{subject} {config.key}", "config", desired, text, origin, config)
        case DeleteTopic():
            text = f"{counted(change.partitions, 'partition')}, topic id {change.topic_id}"
            yield Deviation(subject, "tombstone-not-carried-out", "no topic", text)
        case _:
            assert_never(change)


def _of_whom(change: CreateTopic | AddPartitions) -> str:
    if change.role is Role.DECLARED:
        return ""
    return "remote topic of a flow" if change.role is Role.REMOTE else change.reason.text


def _origin(text: str) -> str:
    """Remote topics are told alike, whatever their sources are called."""
    who, _, more = text.partition(", ")
    if who == DECLARED:
        return ""
    who = "its source" if who.startswith("source ") else who
    return f"{who}, {more}" if more else who


def counts(changes: Sequence[TopicChange]) -> Counts:
    def count(of: type[TopicChange]) -> int:
        return sum(isinstance(change, of) for change in changes)

    return Counts(
        parts(
            (Action.CREATE, count(CreateTopic), "topic"),
            (Action.UPDATE, count(AddPartitions), "partition count"),
            (Action.UPDATE, count(AlterConfigs), "config"),
        ),
        parts((Action.DELETE, count(DeleteTopic), "topic")),
    )


KIND: Kind[TopicChange] = Kind(
    name=KindName.TOPICS,
    changes=(CreateTopic, AddPartitions, AlterConfigs, DeleteTopic),
    assess=assess,
    place=place,
    rests_on=rests_on,
    states={About.TOPIC_STATE: of_topics(topic_state), About.CLUSTER: of_clusters(cluster_state)},
    is_safe=is_safe,
    takes_away=(DeleteTopic,),
    confirm=confirm,
    deviations=deviations,
    cause=cause,
    counts=counts,
)
