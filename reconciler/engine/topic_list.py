"""Every topic that is declared, made by a flow, or there: where it is, whose it is, and what is wrong with it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import LiveState, LiveTopic
from reconciler.model.state.lock import LOCK_TOPIC
from reconciler.replication.names import CONTROL_TOPIC, OFFSETS_TOPIC, STATUS_TOPIC
from reconciler.resources.flows.routes import hops_between
from reconciler.resources.protected_names import is_protected

INTERNAL = "of Kafka itself"
OURS = "of mirror jobs and this program"
COMPANIONS = "of a companion of Kafka"
UNMANAGED = "unmanaged"
OUR_TOPICS = (STATUS_TOPIC, OFFSETS_TOPIC, CONTROL_TOPIC, LOCK_TOPIC)


@dataclass(frozen=True, slots=True, order=True)
class TopicRow:
    """``owner``: the place in git that declares it, the flows that make it, what it is kept for, or that nobody manages
    it.

    ``partitions`` None: it is not there, or nobody knows; then ``problem`` says which. ``factor`` None: that, or its
    partitions differ.
    """

    cluster: str
    name: str
    owner: str
    partitions: int | None = None
    factor: int | None = None
    problem: str = ""


def topic_list(topology: Topology, live: LiveState) -> tuple[TopicRow, ...]:
    """By cluster and name."""
    owners: dict[TopicRef, str] = {}
    makers: dict[TopicRef, set[str]] = defaultdict(set)
    for hop in hops_between(topology, live):
        makers[hop.remote].add(hop.flow)
    for ref, flows in makers.items():
        owners[ref] = f"made by {', '.join(sorted(flows))}"
    for topic in topology.topics.values():
        owners |= {TopicRef(cluster, topic.name): f"declared in {topic.where}" for cluster in topic.clusters}
    refs = set(owners)
    for name in live.clusters:
        known = live.known(name)
        refs |= {TopicRef(name, topic) for topic in (known.topics if known is not None else ())}
    return tuple(sorted(_row(ref, owners.get(ref, ""), live) for ref in refs))


def _row(ref: TopicRef, owner: str, live: LiveState) -> TopicRow:
    cluster, topic = live.known(ref.cluster), live.topic(ref)
    if topic is not None:
        owner = owner or (INTERNAL if topic.internal else _kept_for(topic.name))
        return TopicRow(*ref_words(ref), owner, len(topic.partitions), topic.replication_factor, _problem(topic))
    if cluster is None:
        return TopicRow(*ref_words(ref), owner, problem="unknown: its cluster was not read")
    hidden = ref.name in cluster.hidden or not cluster.sees_all
    return TopicRow(*ref_words(ref), owner, problem="unknown: it may be hidden" if hidden else "not there")


def _kept_for(name: str) -> str:
    return OURS if name in OUR_TOPICS else COMPANIONS if is_protected(name) else UNMANAGED


def ref_words(ref: TopicRef) -> tuple[str, str]:
    return ref.cluster, ref.name


def _problem(topic: LiveTopic) -> str:
    offline = sum(partition.leader < 0 for partition in topic.partitions)
    short = sum(len(partition.isr) < len(partition.replicas) for partition in topic.partitions)
    counts = {"without a leader": offline, "under-replicated": short}
    return ", ".join(f"{count:,} {words}" for words, count in counts.items() if count)
