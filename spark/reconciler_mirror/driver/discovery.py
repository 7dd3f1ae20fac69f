"""Discovers new and removed partitions of source topics, and the reasons why some cannot be copied.

After a failed read the earlier answer stays, with a condition; it never looks like an empty cluster.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from reconciler.kafka.client.cluster import ClusterClient, TopicListing, printed_id
from reconciler.kafka.client.errors import DENIED, SettingError, WireError
from reconciler.kafka.protocol.metadata_and_configs import TopicOf
from reconciler.replication.handover import Endpoint, FlowSettings
from reconciler.replication.names import LONGEST_TOPIC, ConditionCode
from reconciler.replication.policy import TopicSelector
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.conditions.flow import setting_refused
from reconciler_mirror.model.lane import GRANTS, OF_A_READ, Condition, Discovered, PartitionSpec


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """A listed topic: its number of partitions, and its id as Kafka prints it."""

    partitions: int
    topic_id: str


class ClusterMetadata(Protocol):
    """Metadata of one cluster. Raises WireError or LookupError (a secret reference)."""

    def topics(self) -> Mapping[str, SourceTopic]:
        """Topics by name; the very same object while nothing has changed."""
        ...

    def denied(self, names: Iterable[str]) -> frozenset[str]:
        """The ``names`` that the mirror may not describe, which ``topics`` therefore lacks."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Look:
    """Matching source topics, known ones that the mirror may no longer describe, and the same for the target."""

    matched: Mapping[str, SourceTopic]
    source_denied: frozenset[str]
    there: Mapping[str, SourceTopic]
    target_denied: frozenset[str]


class Discovery:
    """Discovery for one flow. Owned by one thread."""

    def __init__(
        self, flow: FlowSettings, selector: TopicSelector, clusters: tuple[ClusterMetadata, ClusterMetadata]
    ) -> None:
        """``clusters``: source and target."""
        self._flow, self._selector = flow, selector
        self._source, self._target = clusters
        self._last: tuple[object, object, object] = (None, None, None)

    def look(self, before: Discovered) -> Discovered:
        """Reads both clusters. Returns ``before`` with a condition if either cannot be read, and ``before`` itself if
        neither has changed. After conditions it reads everything again, since no listing shows a change of rights."""
        at: tuple[Endpoint, ConditionCode] = (self._flow.source, "source_unreachable")
        try:
            listed = self._source.topics()
            at = (self._flow.target, "target_unreachable")
            target = self._target.topics()
            # Unchanged listings are the same objects, so most calls end here.
            if not before.conditions and all(a is b for a, b in zip((listed, target, before), self._last, strict=True)):
                return before
            at = (self._flow.source, "source_unreachable")
            matched = {name: listed[name] for name in sorted(listed) if self._selector.why_not(name) is None}
            # Brokers leave out deleted topics and topics without Describe alike; only a request by name tells them
            # apart.
            gone = {c.topic for c in before.conditions if c.code in ("source_topic_deleted", "permission_denied")}
            known = {*filter(None, gone), *(spec.topic for spec in before.specs)}
            source_denied = self._source.denied(known - matched.keys())
            at = (self._flow.target, "target_unreachable")
            target_denied = self._target.denied({self._selector.remote_name(name) for name in matched} - target.keys())
        except SettingError as error:
            return _unread(before, setting_refused(self._flow.name, error))
        except (WireError, LookupError) as error:
            endpoint, code = at
            servers = ", ".join(endpoint.bootstrap_servers)
            read = (
                f"{endpoint.cluster} ({servers}) cannot be read: {error}; the partitions known before stay as they are"
            )
            todo = f"Check that {servers} can be reached from the Spark driver and that its credentials are right."
            return _unread(before, Condition(code, read, todo))
        discovered = _compare(self._flow, self._selector, _Look(matched, source_denied, target, target_denied), before)
        self._last = (listed, target, discovered)
        return discovered

    def close(self) -> None:
        self._source.close()
        self._target.close()


def _compare(flow: FlowSettings, selector: TopicSelector, look: _Look, before: Discovered) -> Discovered:
    specs: list[PartitionSpec] = []
    conditions: list[Condition] = [_denied(flow.source, name, name) for name in sorted(look.source_denied)]
    # A topic that the mirror may no longer describe stays in the count of uncopied partitions, so that the flow's lag
    # is unknown instead of too small.
    known = {**Counter(spec.topic for spec in before.specs), **before.uncopied} if look.source_denied else {}
    uncopied = {name: known.get(name, 1) for name in look.source_denied}
    for name, topic in look.matched.items():
        remote = selector.remote_name(name)
        target = look.there.get(remote)
        if target is None:
            denied = remote in look.target_denied
            conditions.append(
                _denied(flow.target, name, remote) if denied else _missing(flow, name, remote, topic.partitions)
            )
            uncopied[name] = topic.partitions
            continue
        if target.partitions < topic.partitions:
            conditions.append(_smaller(flow, name, remote, topic.partitions, target.partitions))
            uncopied[name] = topic.partitions - target.partitions
        count = min(topic.partitions, target.partitions)
        specs += [PartitionSpec(name, number, remote, topic.topic_id) for number in range(count)]
    # Only a topic that this job has seen can be reported as deleted. Deleting its copy, too, is the user's choice.
    for name in sorted({spec.topic for spec in before.specs} - look.matched.keys() - look.source_denied):
        remote = selector.remote_name(name)
        conditions.append(
            Condition(
                "source_topic_deleted",
                f"{name} was deleted at {flow.source.cluster}; what was copied stays in {remote} at"
                f" {flow.target.cluster}",
                f"Delete {remote} too if it is not wanted (a tombstone in the topology), or create {name} again.",
                name,
            )
        )

    # An explicit start of a missing partition would never be used, and may be a typing error.
    for name, partition in sorted(flow.start_offsets):
        count = look.matched[name].partitions if name in look.matched else 0
        if partition >= count:
            conditions.append(
                Condition(
                    "start_partition_missing",
                    f"start.offsets names {name}-{partition}, but {name} has {count} partitions at "
                    f"{flow.source.cluster}",
                    "Correct start.offsets; the other partitions are copied.",
                    name,
                    partition,
                )
            )

    # A deleted topic is reported until it exists again, or its remote topic is deleted, too.
    existing = look.matched.keys() | look.source_denied
    conditions += [
        condition
        for condition in before.conditions
        if condition.code == "source_topic_deleted"
        and (name := condition.topic or "") not in existing
        and selector.remote_name(name) in look.there
    ]
    return Discovered(tuple(specs), tuple(conditions), len(look.matched), complete=True, uncopied=uncopied)


def _unread(before: Discovered, condition: Condition) -> Discovered:
    kept = tuple(c for c in before.conditions if c.code not in OF_A_READ)
    return replace(before, conditions=(*kept, condition))


def _denied(endpoint: Endpoint, topic: str, named: str) -> Condition:
    """``named``: the topic's name at ``endpoint``, which hides it from the mirror."""
    return Condition(
        "permission_denied",
        f"{topic} is not copied: {endpoint.cluster} does not let the mirror describe {named}, so whether it exists is "
        "not known",
        f"Give the mirror's principal DESCRIBE on {named} at {endpoint.cluster} (READ and WRITE imply it): "
        f"{GRANTS}. Copying resumes automatically.",
        topic,
        stops=True,
    )


def _missing(flow: FlowSettings, topic: str, remote: str, partitions: int) -> Condition:
    """A matching topic has no remote topic. If that name is longer than Kafka allows, `apply` cannot help."""
    todo = "Run reconciler apply ENV, which creates it; copying starts automatically."
    many = f"{partitions} partition{'' if partitions == 1 else 's'}"
    if len(remote) > LONGEST_TOPIC:
        todo = f"Its name has {len(remote)} characters, Kafka allows {LONGEST_TOPIC}: exclude_topics leaves it out."
    return Condition(
        "target_topic_missing",
        f"{topic} ({many} at {flow.source.cluster}) is not copied: {remote} does not exist at {flow.target.cluster}",
        todo,
        topic,
        stops=True,
    )


def _smaller(flow: FlowSettings, topic: str, remote: str, wanted: int, have: int) -> Condition:
    """The remote topic has fewer partitions than its source. The common ones are still copied, since a record keeps its
    partition number."""
    return Condition(
        "target_topic_smaller",
        f"{topic} has {wanted} partitions at {flow.source.cluster}, {remote} has {have} at {flow.target.cluster}: "
        f"partitions {have} to {wanted - 1} are not copied",
        "Run reconciler apply ENV, which adds the partitions; copying starts automatically.",
        topic,
        stops=True,
    )


class WireTopics:
    """``ClusterMetadata`` over the wire. Owned by one thread. The first read opens the connection, so that a missing
    secret is a failed read like any other; it stays open between reads."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        """With the cluster's id once it has answered."""
        self._loop = asyncio.new_event_loop()
        self._cluster: ClusterClient | None = None
        self._listing: TopicListing | None = None
        self._last_listed: Sequence[TopicOf] | None = None
        self._topics: Mapping[str, SourceTopic] = {}

    def topics(self) -> Mapping[str, SourceTopic]:
        """A failure closes the connection, and the next call opens one with perhaps renewed secrets."""
        try:
            listed = self._loop.run_until_complete(self._open().read())
        except WireError:
            self._let_go()
            raise
        if listed is not self._last_listed:
            assert self._cluster is not None
            self.endpoint = replace(self.endpoint, cluster_id=self._cluster.cluster_id)
            topics = {t.name: SourceTopic(len(t.partitions), printed_id(t.topic_id)) for t in listed if not t.error}
            self._last_listed = listed
            self._topics = topics if topics != self._topics else self._topics
        return self._topics

    def denied(self, names: Iterable[str]) -> frozenset[str]:
        wanted = sorted(names)
        listed = self._loop.run_until_complete(self._open().of(wanted)) if wanted else ()
        return frozenset(topic.name for topic in listed if topic.error in DENIED)

    def close(self) -> None:
        self._let_go()
        self._loop.close()

    def _let_go(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
        self._cluster = self._listing = None

    def _open(self) -> TopicListing:
        if self._listing is None:
            self._cluster = cluster_of(self.endpoint)
            self._listing = TopicListing(self._cluster)
        return self._listing
