"""The load of each broker by a placement (replicas, leaders, bytes), and how long copying takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reconciler.model.changes import Change, ReassignReplicas
from reconciler.model.live import LiveCluster, LiveState
from reconciler.model.replicas import BrokerLoad, Load, Partition, Placement, ReassignmentPace, ReplicaFacts, largest


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
            placement = placements.get(key, Placement(part.index, part.replicas, part.replicas))
            first = placement.before[0] if placement.before else None
            before.add(placement.before, size, first)
            during.add((*placement.before, *placement.added), size, first)
            after.add(placement.after, size, placement.after[0] if placement.after else None)
    return tuple(
        BrokerLoad(
            cluster.name, broker.id, broker.rack, before.of(broker.id), during.of(broker.id), after.of(broker.id)
        )
        for broker in cluster.brokers
    )


def loads_of(changes: Iterable[Change], live: LiveState) -> tuple[BrokerLoad, ...]:
    """The brokers of each cluster on which replicas move, by cluster."""
    moving: dict[str, dict[Partition, Placement]] = {}
    for change in changes:
        if isinstance(change, ReassignReplicas):
            moving_here = moving.setdefault(change.ref.cluster, {})
            moving_here.update({(change.ref.name, placement.partition): placement for placement in change.placements})
    loads: list[BrokerLoad] = []
    for name, placements in sorted(moving.items()):
        cluster = live.known(name)
        if cluster is not None and isinstance(cluster.replicas, ReplicaFacts):
            loads += broker_loads(cluster, cluster.replicas, placements)
    return tuple(loads)


def bytes_to_copy(topic: str, placements: Iterable[Placement], facts: ReplicaFacts) -> int:
    """What is not there yet of the replicas to come."""
    sizes = largest(facts.sizes)
    return sum(
        max(0, sizes.get((topic, placement.partition), 0) - facts.sizes.get((topic, placement.partition, broker), 0))
        for placement in placements
        for broker in placement.added
    )


def seconds_to_copy(placements: Mapping[Partition, Placement], facts: ReplicaFacts, pace: ReassignmentPace) -> float:
    """At the throttle: the broker that sends or takes the most decides. Preferred leaders send."""
    sizes = largest(facts.sizes)
    sent: Counter[int] = Counter()
    taken: Counter[int] = Counter()
    for key, placement in placements.items():
        for broker in placement.added:
            bytes_left = max(0, sizes.get(key, 0) - facts.sizes.get((*key, broker), 0))
            taken[broker] += bytes_left
            if placement.before:
                sent[placement.before[0]] += bytes_left
    most = max((*sent.values(), *taken.values()), default=0)
    return most / pace.throttle
