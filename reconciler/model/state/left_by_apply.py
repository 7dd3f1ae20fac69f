"""The state in which the last apply left each cluster: topics with their ids, partitions, overrides; dynamic broker
defaults. Frozen.

The record is advice: a plan shows by it what others have changed since, and decides nothing by it. An apply first
deletes from it whatever it is about to change, so a killed run leaves no record of things that it may have changed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reconciler.errors import Unknown
from reconciler.model.live import LiveCluster, LiveTopic, Source, broker_configs, different_configs
from reconciler.replication.json_codec import parsed
from reconciler.text import moment

FORMAT_VERSION = 1
NOT_READ = -1
"""The number for a topic whose overrides could not be read."""
NOT_SHOWN = ""
"""Among the defaults: no topic shows this one."""


def left_key(environment: str, cluster: str) -> str:
    return f"left/{environment}/{cluster}"


@dataclass(frozen=True, slots=True)
class LeftTopic:
    """``overrides`` None: unreadable."""

    topic_id: str
    partitions: int
    overrides: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class LeftCluster:
    """What the last apply left on one cluster. Drift since then was made by others."""

    cluster_id: str
    at_ms: int = 0
    who: str = ""
    topics: Mapping[str, LeftTopic] = field(default_factory=dict)
    defaults: Mapping[str, str] | None = None
    """Dynamic configs for all brokers of the cluster (``Source.CLUSTER``), by topic config; None: not read."""

    @property
    def since(self) -> str:
        return f"the apply of {moment(self.at_ms, '%Y-%m-%dT%H:%M:%SZ')} by {self.who}"

    def without(self, names: Collection[str]) -> LeftCluster:
        return replace(self, topics={name: topic for name, topic in self.topics.items() if name not in names})

    def same(self, other: LeftCluster) -> bool:
        """Without its writer and time."""
        ours, theirs = ((left.cluster_id, left.topics, left.defaults) for left in (self, other))
        return ours == theirs


NOTHING_RECORDED = LeftCluster("")
"""For a cluster without a record."""


def left_topics(topics: Iterable[LiveTopic]) -> dict[str, LeftTopic]:
    """Equal overrides are one object, as after reading."""
    seen: dict[int, Mapping[str, str] | None] = {}
    by_name: dict[str, LeftTopic] = {}
    for topic in topics:
        key = id(topic.configs)
        if key not in seen:
            seen[key] = None if isinstance(topic.configs, Unknown) else dict(topic.overrides)
        by_name[topic.name] = LeftTopic(topic.topic_id, len(topic.partitions), seen[key])
    return by_name


def left_on(live: LiveCluster, names: Iterable[str]) -> LeftCluster:
    """A cluster without topics shows none of its defaults, and a config that each topic overrides is not shown, such as
    min.insync.replicas where the lock's topic is the only one."""
    topics, different = left_topics(live.topics[name] for name in names), different_configs(live)
    brokers = broker_configs(different)
    defaults = {key: NOT_SHOWN for configs in different for key in configs.keys() - brokers.keys()}
    defaults |= {key: entry.value for key, entry in brokers.items() if entry.source is Source.CLUSTER and entry.value}
    return LeftCluster(live.cluster_id, topics=topics, defaults=defaults if different else None)


def dumps(left: LeftCluster) -> bytes:
    """Each set of overrides is written once, however many topics share it."""
    numbers: dict[tuple[tuple[str, str], ...], int] = {}
    rows: dict[str, list[Any]] = {}
    for name, topic in sorted(left.topics.items()):
        number = NOT_READ
        if topic.overrides is not None:
            number = numbers.setdefault(tuple(sorted(topic.overrides.items())), len(numbers))
        rows[name] = [topic.topic_id, topic.partitions, number]
    document = {
        "format_version": FORMAT_VERSION,
        "cluster_id": left.cluster_id,
        "at_ms": left.at_ms,
        "who": left.who,
        "defaults": None if left.defaults is None else dict(sorted(left.defaults.items())),
        "overrides": [dict(pairs) for pairs in numbers],
        "topics": rows,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def loads(value: bytes) -> LeftCluster | None:
    """None for a record that this release cannot read: the record is advice, and a later release may write another
    format."""
    try:
        document = parsed(value)
        if document["format_version"] != FORMAT_VERSION:
            return None
        overrides: list[Mapping[str, str]] = document["overrides"]
        topics = {
            name: LeftTopic(topic_id, partitions, overrides[number] if number >= 0 else None)
            for name, (topic_id, partitions, number) in document["topics"].items()
        }
        head = (str(document["cluster_id"]), int(document["at_ms"]), str(document["who"]))
        return LeftCluster(*head, topics, document["defaults"])
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError):
        return None
