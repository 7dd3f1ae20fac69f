"""Internal topics of mirror jobs: status, offset maps, and MirrorMaker 2's own if a flow writes them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.model.environment.topology import Flow, TopicRef, Topology
from reconciler.replication import mirrormaker_records
from reconciler.replication.names import OFFSETS_PARTITIONS, is_own_topic
from reconciler.text import grouped

# Each mirror writes a small record every few seconds, so compaction has to keep up. Nothing may expire: the topic also
# has the pauses, which count even if the mirror has been stopped for a week. The last line is for topics of earlier
# releases, whose policy (compact,delete) some services do not let anyone change.
STATUS_CONFIGS: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 << 20),
    "segment.ms": str(3_600_000),
    "retention.ms": "-1",
}
# A few keys; each host renews its leases every few seconds.
CONTROL_CONFIGS: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "segment.ms": str(600_000),
    "min.cleanable.dirty.ratio": "0.1",
}
# Kept forever: without it, old positions cannot be translated exactly. A growing chunk is written again and again.
OFFSETS_CONFIGS: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(64 << 20),
    "segment.ms": str(6 * 3_600_000),
}
COMPACTED: Mapping[str, str] = {"cleanup.policy": "compact"}  # one partition, as in MirrorMaker 2
INTERNAL_FACTOR = 3


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """``reason``: the mirror's use of it, in words for a plan."""

    ref: TopicRef
    partitions: int
    configs: Mapping[str, str]
    reason: str


def internal_topics(topology: Topology) -> tuple[InternalTopic, ...]:
    """Each topic once, in order of cluster and name, with the reasons of all its mirrors."""
    written: list[tuple[str, InternalTopic]] = []
    for mirror in topology.mirrors.values():
        place = topology.clusters[topology.status_cluster(mirror)]
        status = TopicRef(place.name, place.own_topics.status)
        kept = [InternalTopic(status, 1, STATUS_CONFIGS, "writes its status there")]
        if mirror.hosted:
            control = TopicRef(place.name, place.own_topics.control)
            kept.append(InternalTopic(control, 1, CONTROL_CONFIGS, "is kept by hosts, which read there"))
        for flow in topology.flows_of(mirror):
            kept += written_by(topology, flow)
        written += ((mirror.name, topic) for topic in kept)
    writers = grouped(((topic.ref, topic.reason, topic.partitions), name) for name, topic in written)
    configs = {topic.ref: topic.configs for _, topic in written}
    topics: dict[TopicRef, InternalTopic] = {}
    for (ref, description, partitions), names in sorted(writers.items()):
        reason = f"mirror {', '.join(sorted(set(names)))} {description}"
        chosen = topology.clusters[ref.cluster].own_configs if is_own_topic(ref.name) else {}
        topics.setdefault(ref, InternalTopic(ref, partitions, {**configs[ref], **chosen}, reason))
    return tuple(topics.values())


def written_by(topology: Topology, flow: Flow) -> Iterator[InternalTopic]:
    """The topics of one flow. ``reason`` ends a sentence that begins with its mirror."""
    offsets = TopicRef(flow.target, topology.clusters[flow.target].own_topics.offsets)
    yield InternalTopic(offsets, OFFSETS_PARTITIONS, OFFSETS_CONFIGS, "keeps its offset maps there")
    yield from of_mirrormaker(flow)


def of_mirrormaker(flow: Flow) -> Iterator[InternalTopic]:
    """MirrorMaker 2's internal topics that the flow writes for clients. Clients know them by name, so that no prefix
    applies."""
    asked = flow.mirrormaker_topics
    separator = flow.internal_separator
    if asked.heartbeats is not None:
        for cluster in (flow.source, flow.target):
            yield InternalTopic(
                TopicRef(cluster, mirrormaker_records.HEARTBEATS), 1, COMPACTED, "writes heartbeats there"
            )
    if flow.groups.sync_offsets:
        ref = TopicRef(flow.target, mirrormaker_records.checkpoints_topic(flow.source, separator))
        yield InternalTopic(ref, 1, COMPACTED, "writes checkpoints there")
    if asked.offset_syncs is not None:
        at_source = asked.offset_syncs == "source"
        cluster, other = (flow.source, flow.target) if at_source else (flow.target, flow.source)
        ref = TopicRef(cluster, mirrormaker_records.offset_syncs_topic(other, separator))
        yield InternalTopic(ref, 1, COMPACTED, "writes offset syncs there")


def heartbeats_places(topology: Topology) -> frozenset[str]:
    """Clusters with a heartbeats topic that a flow writes."""
    asking = [flow for flow in topology.flows.values() if flow.mirrormaker_topics.heartbeats is not None]
    return frozenset(cluster for flow in asking for cluster in (flow.source, flow.target))
