"""Changes that others made on clusters since the last apply, and values of min.insync.replicas that cannot be met."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from reconciler.errors import Unknown
from reconciler.model.changes import About, CopiedAgain, Outside, OutsideChange, Subject, of_topic
from reconciler.model.config_values import THROTTLES, human, number
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import BrokerConfigs, ConfigValue, LiveCluster, LiveTopic, Source
from reconciler.model.state.left_by_apply import NOT_SHOWN, LeftCluster, LeftTopic
from reconciler.replication.names import STATUS_TOPIC
from reconciler.resources.flows.routes import Route
from reconciler.resources.topics.desired import DesiredTopic, DesiredTopics
from reconciler.resources.topics.expected import SyncedConfigs
from reconciler.resources.topics.limits import min_insync_above
from reconciler.text import counted, first_of

Left: TypeAlias = Mapping[str, LeftCluster]
"""By cluster; clusters that no apply has recorded are missing."""
NOTHING_LEFT: Left = MappingProxyType({})
NOT_SET = "not set"
NO_TOPIC = "no topic"
RECREATED = (
    "its earlier records are gone, and positions of its readers and of mirrors belong to the earlier topic; the next"
    " apply takes note of the new one"
)
GONE = "its records are gone, and positions of its readers and of mirrors do not belong to the topic that apply creates"
DELETED_ON_COPY = "what it has deleted since is missing on the copy alone: reconciler verify ENV FLOW finds it"
COPIED_AGAIN = (
    "the mirror's positions went with it: once it is made again, its flow begins where it starts, and all that {source}"
    " still has from there on is copied again"
)
COPY_RECREATED = (
    "its earlier records are gone, and the mirror's positions with them: its flow begins where it starts, and all that"
    " {source} still has from there on is copied again; the next apply takes note of the new one"
)
PAUSES_GONE = (
    "what was paused was written there. A job that runs writes it again; of one that does not run, pause again what has"
    " to stay paused, such as a flow that was failed over"
)
MIN_INSYNC = "min.insync.replicas"


def changed_outside(
    desired: DesiredTopics, clusters: Mapping[str, LiveCluster], brokers: Mapping[str, BrokerConfigs], left: Left
) -> Iterator[OutsideChange]:
    """Only for topics that are desired now. ``brokers``: by cluster, the configs of a topic without overrides."""
    for name, named in sorted(desired.alike.items()):
        cluster, before = clusters[name], left.get(name)
        yield from _out_of_reach(cluster, named)
        if before is None or before.cluster_id != cluster.cluster_id:
            continue  # another cluster answers by this name, and no apply has recorded anything about it
        alike: dict[tuple[int, int], bool] = {}
        for topic in named.keys() & before.topics.keys() - cluster.hidden.keys():
            left_topic, now = before.topics[topic], cluster.topics.get(topic)
            if now is None or not _as_left(left_topic, now, alike):
                source = desired[TopicRef(name, topic)].source
                yield from _changed(TopicRef(name, topic), now, left_topic, before.since, source)
        # Defaults of the cluster: only keys that a topic without that override shows.
        for key, entry in sorted(brokers[name].items()) if before.defaults is not None else ():
            old = before.defaults.get(key) if before.defaults is not None else None
            value = entry.value if entry.source is Source.CLUSTER else None
            if value != old and old != NOT_SHOWN:
                why = "it counts for every topic there without a value of its own"
                sides = _words(key, old), _words(key, value)
                yield OutsideChange(Outside.DEFAULT, Subject(About.CLUSTER, name), key, *sides, before.since, why)


def _as_left(before: LeftTopic, now: LiveTopic, known: dict[tuple[int, int], bool]) -> bool:
    """Whether the topic is as the last apply left it. ``known``: answers about pairs of overrides and configs, of which
    ten thousand topics have perhaps fifty."""
    if before.topic_id != now.topic_id or before.partitions != len(now.partitions):
        return False
    key = id(before.overrides), id(now.configs)
    if (same := known.get(key)) is None:
        unread = before.overrides is None or isinstance(now.configs, Unknown)
        same = known[key] = unread or before.overrides == now.overrides
    return same


def taken_off(changes: Iterable[OutsideChange], routes: Sequence[Route]) -> frozenset[tuple[TopicRef, str]]:
    """Topics and configs of overrides that others have removed, and of those that copies lose because they follow their
    source."""
    gone = {
        (TopicRef(change.subject.cluster, change.subject.name), change.key)
        for change in changes
        if change.kind is Outside.OVERRIDE and change.after == NOT_SET
    }
    for route in sorted(routes, key=lambda route: route.depth) if gone else ():
        reset = route.configs.reset if isinstance(route.configs, SyncedConfigs) else frozenset()
        gone |= {(route.remote, key) for key in reset if (route.source, key) in gone}
    return frozenset(gone)


def once(changes: Iterable[OutsideChange]) -> tuple[OutsideChange, ...]:
    """Sorted by cluster and topic. An override that counts as drift is listed once, with its former value."""
    by_name: dict[tuple[Subject, str], OutsideChange] = {}
    others: list[OutsideChange] = []
    for change in changes:
        place = change.subject, change.key
        if change.kind not in (Outside.OVERRIDE, Outside.UNDECLARED):
            others.append(change)
        elif (other := by_name.get(place)) is None:
            by_name[place] = change
        else:
            undeclared, override = (change, other) if change.kind is Outside.UNDECLARED else (other, change)
            by_name[place] = replace(undeclared, before=override.before, since=override.since)
    order = list(Outside)
    return tuple(
        sorted(
            (*others, *by_name.values()),
            key=lambda change: (change.subject.cluster, change.subject.name, order.index(change.kind), change.key),
        )
    )


def _changed(
    ref: TopicRef, topic: LiveTopic | None, before: LeftTopic, since: str, source: TopicRef | None
) -> Iterator[OutsideChange]:
    """``source``: of a copy, else None."""
    subject, was = of_topic(ref), f"topic id {before.topic_id}"
    copied = CopiedAgain(of_topic(source)) if source is not None else None
    gone, recreated = (COPIED_AGAIN, COPY_RECREATED) if source is not None else (GONE, RECREATED)
    if ref.name.endswith(STATUS_TOPIC):
        gone = recreated = PAUSES_GONE
    if topic is None:
        sides = f"{was}, {counted(before.partitions, 'partition')}", NO_TOPIC
        yield OutsideChange(Outside.DELETED, subject, "", *sides, since, gone.format(source=source), copied)
        return
    if topic.topic_id != before.topic_id:
        sides, why = (was, f"topic id {topic.topic_id}"), recreated.format(source=source)
        yield OutsideChange(Outside.RECREATED, subject, "", *sides, since, why, copied)
    if (count := len(topic.partitions)) != before.partitions:
        sides = counted(before.partitions, "partition"), counted(count, "partition")
        yield OutsideChange(Outside.PARTITIONS, subject, "", *sides, since)
    if before.overrides is None or isinstance(topic.configs, Unknown):
        return
    now = topic.overrides
    if now == before.overrides:
        return
    for key in sorted((now.keys() | before.overrides.keys()) - THROTTLES):
        if (value := now.get(key)) != (old := before.overrides.get(key)):
            sides = _words(key, old), _words(key, value)
            # Whether a copy may now delete records that it kept before. None: no override.
            deletes = key == "cleanup.policy" and "compact" in (value or "") and "compact" not in (old or "")
            if key in ("retention.ms", "retention.bytes") and (least := number(value)) is not None:
                deletes = least < (number(old) or float("inf"))
            why = DELETED_ON_COPY if source is not None and deletes else ""
            yield OutsideChange(Outside.OVERRIDE, subject, key, *sides, since, why)


def _words(key: str, value: str | None) -> str:
    return NOT_SET if value is None else human(key, value)


def _out_of_reach(cluster: LiveCluster, named: Mapping[str, DesiredTopic]) -> Iterator[OutsideChange]:
    """Topics whose effective min.insync.replicas is above their factor, unless a file declares that value."""
    names: dict[tuple[str, Source, int], list[str]] = defaultdict(list)
    above_one: dict[int, ConfigValue | None] = {}
    for name, topic in cluster.topics.items():
        # Topics of one read share their configs, so thousands of them are judged once.
        key = id(topic.configs)
        if key not in above_one:
            entry = None if isinstance(topic.configs, Unknown) else topic.configs.get(MIN_INSYNC)
            above_one[key] = entry if entry is not None and (number(entry.value) or 0) > 1 else None
        if (entry := above_one[key]) is None or name not in named or MIN_INSYNC in named[name].configs:
            continue
        factor = min((len(partition.replicas) for partition in topic.partitions), default=None)
        if factor is not None and (number(entry.value) or 0) > factor:
            names[str(entry.value), entry.source, factor].append(name)
    for (value, source, factor), some in sorted(names.items()):
        why = (
            f"above the replication factor {factor} of {counted(len(some), 'topic')}: {first_of(some)}."
            f" {min_insync_above(factor)}. Lower it, or raise the factor"
        )
        subject = Subject(About.CLUSTER, cluster.name)
        yield OutsideChange(Outside.MIN_INSYNC, subject, MIN_INSYNC, "", f"{value} ({source.value})", why=why)
