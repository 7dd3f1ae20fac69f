"""What a placement means for each broker (replicas, preferred leaders, bytes) and how long the copying takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.changes import Change, ReassignReplicas
from reconciler.live import LiveCluster, LiveState
from reconciler.replicas import BrokerLoad, Load, Pace, Partition, Placement, ReplicaFacts, largest


@dataclass(slots=True)
class _Counts:
    replicas: Counter[int] = field(default_factory=Counter)
    leaders: Counter[int] = field(default_factory=Counter)
    bytes: Counter[int] = field(default_factory=Counter)

    def add(self, replicas: Iterable[int], size: int, preferred: int | None) -> None:
        for broker in replicas:
            self.replicas[broker] += 1
            self.bytes[broker] += size
        if preferred is not None:
            self.leaders[preferred] += 1

    def of(self, broker: int) -> Load:
        return Load(self.replicas[broker], self.leaders[broker], self.bytes[broker])


def broker_loads(
    cluster: LiveCluster, facts: ReplicaFacts, placements: Mapping[Partition, Placement]
) -> tuple[BrokerLoad, ...]:
    """Of every living broker, over all topics that the principal sees."""
    sizes = largest(facts.sizes)
    before, during, after = _Counts(), _Counts(), _Counts()
    for topic in cluster.topics.values():
        for part in topic.partitions:
            key = topic.name, part.index
            size = sizes.get(key, 0)
            one = placements.get(key, Placement(part.index, part.replicas, part.replicas))
            first = one.before[0] if one.before else None
            before.add(one.before, size, first)
            during.add((*one.before, *one.added), size, first)
            after.add(one.after, size, one.after[0] if one.after else None)
    return tuple(
        BrokerLoad(cluster.name, one.id, one.rack, before.of(one.id), during.of(one.id), after.of(one.id))
        for one in cluster.brokers
    )


def loads_of(changes: Iterable[Change], live: LiveState) -> tuple[BrokerLoad, ...]:
    """The brokers of each cluster on which replicas move, by cluster."""
    moving: dict[str, dict[Partition, Placement]] = {}
    for change in changes:
        if isinstance(change, ReassignReplicas):
            there = moving.setdefault(change.ref.cluster, {})
            there.update({(change.ref.name, one.partition): one for one in change.placements})
    found: list[BrokerLoad] = []
    for name, placements in sorted(moving.items()):
        cluster = live.known(name)
        if cluster is not None and isinstance(cluster.replicas, ReplicaFacts):
            found += broker_loads(cluster, cluster.replicas, placements)
    return tuple(found)


def bytes_to_copy(topic: str, placements: Iterable[Placement], facts: ReplicaFacts) -> int:
    """What is not there yet of the replicas to come."""
    sizes = largest(facts.sizes)
    return sum(
        max(0, sizes.get((topic, one.partition), 0) - facts.sizes.get((topic, one.partition, broker), 0))
        for one in placements
        for broker in one.added
    )


def seconds_to_copy(placements: Mapping[Partition, Placement], facts: ReplicaFacts, pace: Pace) -> float:
    """At the throttle: the broker that sends or takes the most decides. Preferred leaders send."""
    sizes = largest(facts.sizes)
    sent: Counter[int] = Counter()
    taken: Counter[int] = Counter()
    for key, one in placements.items():
        for broker in one.added:
            left = max(0, sizes.get(key, 0) - facts.sizes.get((*key, broker), 0))
            taken[broker] += left
            if one.before:
                sent[one.before[0]] += left
    most = max((*sent.values(), *taken.values()), default=0)
    return most / pace.throttle
