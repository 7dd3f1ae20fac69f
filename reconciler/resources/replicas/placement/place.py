"""Places the replicas of a topic for another factor: racks first, then brokers evenly, with few moves.

A replica that stays keeps its place in the order, so the preferred leader does not change; the current leader is never
taken away. Equal choices are settled by a digest of topic, partition and broker: the same input gives the same
placement everywhere.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.model.live import Broker, LiveCluster
from reconciler.model.replicas import Placement
from reconciler.resources.replicas.placement.balance import Candidate, level


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """A partition as it is: ``leader`` -1 when there is none."""

    index: int
    replicas: tuple[int, ...]
    leader: int


@dataclass(frozen=True, slots=True)
class PlacementBasis:
    """``racks``: every broker that lives. ``replicas``: how many each holds over all topics."""

    racks: Mapping[int, str]
    replicas: Mapping[int, int]


def basis(cluster: LiveCluster) -> PlacementBasis:
    """A broker that tells no rack is a rack of its own."""
    counts = Counter(
        broker for topic in cluster.topics.values() for part in topic.partitions for broker in part.replicas
    )
    return PlacementBasis({broker.id: rack_of(broker) for broker in cluster.brokers}, counts)


def rack_of(broker: Broker) -> str:
    return broker.rack if broker.rack is not None else f"broker {broker.id}"


def place(
    topic: str, partitions: Sequence[PartitionReplicas], factor: int, basis: PlacementBasis
) -> tuple[Placement, ...]:
    """One placement for each partition, in their order. Raises ValueError for a factor above the living brokers.

    A partition only gains replicas or only loses some. Each of them lies on as many racks as its fixed replicas allow.
    """
    if not 1 <= factor <= len(basis.racks):
        raise ValueError(f"factor {factor} on {len(basis.racks)} brokers")
    held = Counter(broker for part in partitions for broker in part.replicas)
    choice = _Choice(topic, factor, basis, held)
    candidates = [choice.of(part) for part in partitions]
    levelled = level(candidates, basis.racks, choice.held)
    return tuple(
        Placement(part.index, part.replicas, _ordered(part.replicas, candidate.chosen))
        for part, candidate in zip(partitions, levelled, strict=True)
    )


def after(basis: PlacementBasis, placements: Iterable[Placement]) -> PlacementBasis:
    """The ground for the next topic."""
    counts = Counter(basis.replicas)
    for placement in placements:
        counts.update(placement.added)
        counts.subtract(placement.removed)
    return PlacementBasis(basis.racks, counts)


def _ordered(before: Sequence[int], chosen: Sequence[int]) -> tuple[int, ...]:
    kept = [broker for broker in before if broker in chosen]
    return (*kept, *(broker for broker in chosen if broker not in before))


class _Choice:
    """Greedy, one partition after the other; ``held`` counts the topic's replicas on each broker as it goes."""

    def __init__(self, topic: str, factor: int, basis: PlacementBasis, held: Counter[int]) -> None:
        self.topic = topic
        self.factor = factor
        self.basis = basis
        self.held = held

    def of(self, part: PartitionReplicas) -> Candidate:
        if len(part.replicas) < self.factor:
            return self._grown(part)
        return self._shrunk(part)

    def _grown(self, part: PartitionReplicas) -> Candidate:
        chosen = list(part.replicas)
        while len(chosen) < self.factor:
            racks = self._racks(chosen)
            free = [broker for broker in self.basis.racks if broker not in chosen]
            best = min(
                free, key=lambda broker: (racks[self._rack(broker)], *self._weight(broker), self._tie(part, broker))
            )
            chosen.append(best)
            self.held[best] += 1
        return Candidate(tuple(chosen), frozenset(part.replicas), frozenset(self.basis.racks))

    def _shrunk(self, part: PartitionReplicas) -> Candidate:
        chosen = list(part.replicas)
        while len(chosen) > self.factor:
            racks = self._racks(chosen)
            free = [broker for broker in chosen if broker != part.leader]
            worst = max(
                free,
                key=lambda broker: (
                    racks[self._rack(broker)],
                    broker != part.replicas[0],
                    *self._weight(broker),
                    self._tie(part, broker),
                ),
            )
            chosen.remove(worst)
            self.held[worst] -= 1
        fixed = {part.leader, part.replicas[0]} & set(chosen) if len(part.replicas) > self.factor else set(chosen)
        return Candidate(tuple(chosen), frozenset(fixed), frozenset(part.replicas))

    def _rack(self, broker: int) -> str:
        return self.basis.racks.get(broker, f"broker {broker}")

    def _racks(self, chosen: Iterable[int]) -> Counter[str]:
        return Counter(map(self._rack, chosen))

    def _weight(self, broker: int) -> tuple[int, int]:
        return self.held[broker], self.basis.replicas.get(broker, 0) + self.held[broker]

    def _tie(self, part: PartitionReplicas, broker: int) -> bytes:
        return hashlib.blake2b(f"{self.topic}/{part.index}/{broker}".encode(), digest_size=8).digest()
