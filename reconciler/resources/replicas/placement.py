"""Places the replicas of a topic for another factor: over racks first, then evenly over brokers, with few moves.

Remaining replicas keep their order, so the preferred leader does not change; the current leader is never removed. A
digest of topic, partition and broker decides between equal choices, so the same input gives the same placement
everywhere. If greedy choices leave brokers uneven, exchanges balance them; no exchange touches a fixed replica or
spreads a partition over fewer racks. The cost for each broker is estimated here, too.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.model.changes import Change, ReassignReplicas
from reconciler.model.live import Broker, LiveCluster, LiveState
from reconciler.model.replicas import BrokerLoad, Load, Partition, Placement, ReassignmentPace, ReplicaFacts, largest


@dataclass(frozen=True, slots=True)
class Candidate:
    """The chosen replicas of one partition. ``fixed`` stay; the others may be exchanged for any of ``options``."""

    chosen: tuple[int, ...]
    fixed: frozenset[int]
    options: frozenset[int]


Exchange = tuple[int, int, int]
"""Position of the partition, broker that gives the replica up, broker that takes it."""


def level(candidates: Sequence[Candidate], racks: Mapping[int, str], held: Mapping[int, int]) -> tuple[Candidate, ...]:
    """``held``: broker -> number of the topic's replicas with ``candidates``."""
    counts = Counter({broker: held.get(broker, 0) for broker in racks})
    current = list(candidates)
    for _ in range(2 * len(candidates)):
        chain = _chain(current, racks, counts)
        moved = _followed(current, chain, racks) if chain else None
        if moved is None:
            break
        current = moved
        counts[chain[0][1]] -= 1
        counts[chain[-1][2]] += 1
    return tuple(current)


def _chain(current: Sequence[Candidate], racks: Mapping[int, str], counts: Mapping[int, int]) -> list[Exchange]:
    """The shortest chain of exchanges from the fullest possible broker to one with at least two replicas less."""
    if max(counts.values()) - min(counts.values()) < 2:
        return []
    edges: dict[int, dict[int, Exchange]] = {}
    for position, candidate in enumerate(current):
        for giver in (broker for broker in candidate.chosen if broker not in candidate.fixed):
            for taker in sorted(candidate.options):
                if taker not in candidate.chosen and taker in racks and _as_wide(candidate.chosen, giver, taker, racks):
                    edges.setdefault(giver, {}).setdefault(taker, (position, giver, taker))
    for start in sorted(counts, key=lambda broker: (-counts[broker], broker)):
        came: dict[int, Exchange | None] = {start: None}
        waiting = deque([start])
        while waiting:
            here = waiting.popleft()
            if counts[start] - counts[here] >= 2:
                chain: list[Exchange] = []
                while (step := came[here]) is not None:
                    chain.insert(0, step)
                    here = step[1]
                return chain
            for taker in sorted(edges.get(here, {}), key=lambda broker: (counts[broker], broker)):
                if taker not in came:
                    came[taker] = edges[here][taker]
                    waiting.append(taker)
    return []


def _as_wide(chosen: Sequence[int], giver: int, taker: int, racks: Mapping[int, str]) -> bool:
    before = Counter(racks.get(broker, str(broker)) for broker in chosen)
    after = Counter(before)
    after[racks.get(giver, str(giver))] -= 1
    after[racks[taker]] += 1
    return sum(n * n for n in after.values()) <= sum(n * n for n in before.values())


def _followed(current: Sequence[Candidate], chain: list[Exchange], racks: Mapping[int, str]) -> list[Candidate] | None:
    """Candidates after all exchanges of the chain; None if one becomes invalid by another of the same partition."""
    moved = list(current)
    for position, giver, taker in chain:
        candidate = moved[position]
        if (
            giver not in candidate.chosen
            or taker in candidate.chosen
            or not _as_wide(candidate.chosen, giver, taker, racks)
        ):
            return None
        chosen = tuple(taker if broker == giver else broker for broker in candidate.chosen)
        moved[position] = replace(candidate, chosen=chosen)
    return moved


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """The present state of a partition. ``leader``: -1 if there is none."""

    index: int
    replicas: tuple[int, ...]
    leader: int


@dataclass(frozen=True, slots=True)
class PlacementBasis:
    """``racks``: live broker -> rack. ``replicas``: broker -> number of replicas over all topics."""

    racks: Mapping[int, str]
    replicas: Mapping[int, int]


def basis(cluster: LiveCluster) -> PlacementBasis:
    """Racks and replica counts. A broker without a rack counts as a separate rack."""
    counts = Counter(
        broker for topic in cluster.topics.values() for part in topic.partitions for broker in part.replicas
    )
    return PlacementBasis({broker.id: rack_of(broker) for broker in cluster.brokers}, counts)


def rack_of(broker: Broker) -> str:
    return broker.rack if broker.rack is not None else f"broker {broker.id}"


def place(
    topic: str, partitions: Sequence[PartitionReplicas], factor: int, basis: PlacementBasis
) -> tuple[Placement, ...]:
    """One placement for each partition, in order. Raises ValueError for a factor above the number of live brokers.

    A partition only gains replicas or only loses some. Each of them lies on as many racks as its fixed replicas allow.
    """
    if not 1 <= factor <= len(basis.racks):
        raise ValueError(f"factor {factor} on {len(basis.racks)} brokers")
    held = Counter(broker for part in partitions for broker in part.replicas)
    choice = _Choice(topic, factor, basis, held)
    candidates = [choice.of(part) for part in partitions]
    levelled = level(candidates, basis.racks, choice.held)
    placements = []
    for part, candidate in zip(partitions, levelled, strict=True):
        # Remaining brokers keep their order, since the first is the preferred leader.
        kept = [broker for broker in part.replicas if broker in candidate.chosen]
        fresh = [broker for broker in candidate.chosen if broker not in part.replicas]
        placements.append(Placement(part.index, part.replicas, (*kept, *fresh)))
    return tuple(placements)


def after(basis: PlacementBasis, placements: Iterable[Placement]) -> PlacementBasis:
    """The basis for the next topic."""
    counts = Counter(basis.replicas)
    for placement in placements:
        counts.update(placement.added)
        counts.subtract(placement.removed)
    return PlacementBasis(basis.racks, counts)


class _Choice:
    """A greedy choice, partition by partition; ``held`` counts the topic's replicas on each broker meanwhile."""

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
        """Adds replicas one by one: on the rack with the fewest of the partition, there on the broker with the fewest.
        Existing replicas stay, so nothing else is copied."""
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
        """Removes replicas from crowded racks first, never the leader, and the preferred leader last, so that no
        leadership moves."""
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
    """Loads of live brokers, over all topics that the principal may describe."""
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
    """Loads of all brokers, for clusters with moving replicas."""
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


def cost_of_copying(
    topic: str, placements: Iterable[Placement], facts: ReplicaFacts, pace: ReassignmentPace
) -> tuple[int, float]:
    """Bytes of replicas to create, and the seconds for them at the throttle, by the broker that sends or receives the
    most. Preferred leaders send."""
    sizes = largest(facts.sizes)
    sent: Counter[int] = Counter()
    taken: Counter[int] = Counter()
    for placement in placements:
        key = topic, placement.partition
        for broker in placement.added:
            bytes_left = max(0, sizes.get(key, 0) - facts.sizes.get((*key, broker), 0))
            taken[broker] += bytes_left
            if placement.before:
                sent[placement.before[0]] += bytes_left
    most = max((*sent.values(), *taken.values()), default=0)
    return taken.total(), most / pace.throttle
