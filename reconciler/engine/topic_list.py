"""Every topic that is declared, made by a flow, or there: where it is, whose it is, and what is wrong with it."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.replication.names import is_own_topic
from reconciler.resources.flows.routes import hops_between
from reconciler.resources.protected_names import is_protected

INTERNAL = "of Kafka itself"
OURS = "of mirror jobs and this program"
COMPANIONS = "of a companion of Kafka"
UNMANAGED = "unmanaged"
OWNER_LABEL = "owner"


@dataclass(frozen=True, slots=True, order=True)
class TopicRow:
    """One topic of one cluster, for the list of topics."""

    cluster: str
    name: str
    owner: str
    """Its declaration in git, the flows that create it, its purpose, or that it is unmanaged."""
    partitions: int | None = None
    """None if it does not exist, or if that is unknown; ``problem`` says which."""
    factor: int | None = None
    """None likewise, or if its partitions differ."""
    problem: str = ""


def topic_list(topology: Topology, live: LiveState) -> tuple[TopicRow, ...]:
    """By cluster and name."""
    owners: dict[TopicRef, str] = {}
    makers: dict[TopicRef, set[str]] = defaultdict(set)
    for hop in hops_between(topology, live):
        makers[hop.remote].add(hop.flow)
    for ref, flows in makers.items():
        owners[ref] = f"made by {', '.join(sorted(flows))}"
    # A declaration comes second and wins: a topic that is declared and also made by a flow is the declaration's, whose
    # values apply.
    for topic in topology.topics.values():
        owners |= {TopicRef(cluster, topic.name): f"declared in {topic.where}" for cluster in topic.clusters}
    refs = set(owners)
    for name in live.clusters:
        known = live.known(name)
        refs |= {TopicRef(name, topic) for topic in (known.topics if known is not None else ())}
    rows = []
    for ref in refs:
        owner, cluster, there = owners.get(ref, ""), live.known(ref.cluster), live.topic(ref)
        # "Not there" needs proof. A principal without Describe on all topics sees none that is hidden from it.
        if cluster is None or there is None:
            hidden = cluster is not None and (ref.name in cluster.hidden or not cluster.sees_all)
            unread = "unknown: its cluster was not read" if cluster is None else ""
            problem = unread or ("unknown: it may be hidden" if hidden else "not there")
            rows.append(TopicRow(ref.cluster, ref.name, owner, problem=problem))
            continue
        if not owner and there.internal:
            owner = INTERNAL
        elif not owner:
            owner = OURS if is_own_topic(there.name) else COMPANIONS if is_protected(there.name) else UNMANAGED
        offline = sum(partition.leader < 0 for partition in there.partitions)
        short = sum(len(partition.isr) < len(partition.replicas) for partition in there.partitions)
        counts = {"without a leader": offline, "under-replicated": short}
        problem = ", ".join(f"{count:,} {words}" for words, count in counts.items() if count)
        row = TopicRow(ref.cluster, ref.name, owner, len(there.partitions), there.replication_factor, problem)
        rows.append(row)
    return tuple(sorted(rows))


def owners(topology: Topology, live: LiveState) -> Mapping[TopicRef, str]:
    """By the label ``owner``, on each cluster that has the topic: copies have that of their source, over all hops."""
    known = {
        TopicRef(cluster, topic.name): topic.labels[OWNER_LABEL]
        for topic in topology.topics.values()
        for cluster in topic.clusters
        if topic.labels.get(OWNER_LABEL)
    }
    # Of several flows that make a topic, the first one by source and name decides.
    makers = {hop.remote: hop.source for hop in sorted(hops_between(topology, live), reverse=True)}
    for remote in makers:
        source: TopicRef | None = remote
        for _ in topology.clusters:  # no way is longer than there are clusters
            source = makers.get(source) if source is not None else None
            if source in known:
                known.setdefault(remote, known[source])
                break
    return known
