"""Reassignments of ``FakeCluster``, by Kafka's rules: old replicas stay until all new ones are in sync.

What is on the way arrives as it is looked at: each look copies what the rate of a broker lets through in a second, to
each of its partitions; without a rate everything arrives at the next look.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from reconciler.errors import ClusterError
from reconciler.model.live import Broker, LiveCluster
from reconciler.model.replicas import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    RATES,
    Journal,
    Partition,
    ReassignmentInFlight,
    ReplicaFacts,
    ThrottleEdit,
)

if TYPE_CHECKING:
    from tests.support.fakes.cluster import FakeCluster


class MovingReplicas:
    """What reassignments change of a ``FakeCluster``, by Kafka's rules. ``away``: stopped brokers."""

    topics: dict[str, Any]
    brokers: tuple[Broker, ...]

    def still(self) -> None:
        """Nothing moves, nothing is throttled."""
        self.moves: dict[Partition, ReassignmentInFlight] = {}
        self.copied: dict[tuple[str, int, int], int] = {}
        self.rates: dict[int, dict[str, str]] = {}
        self.journals: dict[str, Journal] = {}
        self.away: set[int] = set()
        self.unthrottled: list[tuple[Partition, int]] = []

    def facts(self, environment: str) -> ReplicaFacts:
        alive = [broker.id for broker in self.brokers if broker.id not in self.away]
        moves, rates = tuple(self.moves.values()), own_rates(self.rates, alive)
        return ReplicaFacts(moves, self.sizes(), rates, self.journals.get(environment))

    def sizes(self) -> dict[tuple[str, int, int], int]:
        found: dict[tuple[str, int, int], int] = {}
        for name, topic in self.topics.items():
            for index, replicas in enumerate(topic.assignment):
                move = self.moves.get((name, index))
                for broker in replicas:
                    key = name, index, broker
                    coming = move is not None and broker in move.adding
                    found[key] = self.copied.get(key, 0) if coming else topic.sizes.get(index, 0)
        return found

    def reassign(self, key: Partition, target: tuple[int, ...] | None, factor_changes: bool = True) -> str:
        """Why not, or empty. Only those of a lower factor are done at once; others wait for ``copy``."""
        name, index = key
        topic, move = self.topics.get(name), self.moves.get(key)
        if topic is None or index >= len(topic.assignment):
            return "UNKNOWN_TOPIC_OR_PARTITION"
        before = move.before if move else topic.assignment[index]
        if target is None:
            if move is None:
                return ""
            self._settle(key, before)
            return ""
        alive = {broker.id for broker in self.brokers} - self.away
        if not target or len(set(target)) != len(target) or not set(target) <= alive:
            return "INVALID_REPLICA_ASSIGNMENT"
        if not factor_changes and len(target) != len(before):
            return "INVALID_REPLICATION_FACTOR"
        adding = tuple(broker for broker in target if broker not in before)
        removing = tuple(broker for broker in before if broker not in target)
        self.moves[key] = ReassignmentInFlight(name, index, (*target, *removing), adding, removing)
        topic.assignment[index] = self.moves[key].replicas
        if not adding:
            self._settle(key, target)
        return ""

    def copy(self) -> None:
        """A moment passes."""
        for key, move in list(self.moves.items()):
            size = self.topics[key[0]].sizes.get(key[1], 0)
            for broker in set(move.adding) - self.away:
                rate = int(self.rates.get(broker, {}).get(FOLLOWER_RATE, size))
                at = (*key, broker)
                self.copied[at] = min(size, self.copied.get(at, 0) + max(rate, 0))
            if all(self.copied.get((*key, broker), -1) >= size for broker in move.adding):
                self._settle(key, move.target)

    def alter(self, edit: ThrottleEdit) -> None:
        place = self.rates.setdefault(edit.broker, {}) if edit.broker is not None else self.topics[edit.topic].overrides
        entries = [one for one in place.get(edit.key, "").split(",") if one]
        match edit.operation:
            case "set":
                place[edit.key] = edit.value
            case "delete":
                place.pop(edit.key, None)
            case "append":
                place[edit.key] = ",".join(dict.fromkeys([*entries, *edit.value.split(",")]))
            case "subtract":
                place[edit.key] = ",".join(one for one in entries if one not in edit.value.split(","))

    def _settle(self, key: Partition, replicas: tuple[int, ...]) -> None:
        self.topics[key[0]].assignment[key[1]] = replicas
        self.moves.pop(key, None)
        for at in [at for at in self.copied if at[:2] == key]:
            del self.copied[at]


class FakeReplicas:
    """``ReplicaAdmin`` over a ``FakeCluster``, which keeps the state. Every call counts for ``fail_on``."""

    def __init__(self, fake: FakeCluster, environment: str) -> None:
        self.fake = fake
        self.environment = environment

    @property
    def name(self) -> str:
        return self.fake.name

    def __enter__(self) -> FakeReplicas:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is open."""

    def read(self, topics: Collection[str] | None = None) -> LiveCluster:
        return self.fake.read(topics)

    def facts(self) -> ReplicaFacts:
        self.fake.call()
        return self.fake.facts(self.environment)

    def moves(self) -> tuple[ReassignmentInFlight, ...]:
        self.fake.call()
        return tuple(self.fake.moves.values())

    def sizes(self, topics: Collection[str]) -> Mapping[tuple[str, int, int], int]:
        self.fake.call()
        return {key: size for key, size in self.fake.sizes().items() if key[0] in topics}

    def reassign(
        self, targets: Mapping[Partition, tuple[int, ...] | None], factor_changes: bool
    ) -> dict[Partition, str]:
        self.fake.call()
        refused: dict[Partition, str] = {}
        for key, target in targets.items():
            why = self.fake.reassign(key, target, factor_changes)
            if why:
                refused[key] = why
            elif target is not None:
                self._note(key, target)
        return refused

    def throttle(self, edits: Sequence[ThrottleEdit]) -> Sequence[ClusterError]:
        self.fake.call()
        for edit in edits:
            if edit.broker is not None and edit.broker in self.fake.away:
                return (ClusterError(self.name, "unreachable", f"broker {edit.broker} does not answer"),)
            self.fake.alter(edit)
        return ()

    def elect_preferred(self, partitions: Collection[Partition]) -> None:
        self.fake.call()
        for topic, index in partitions:
            self.fake.topics[topic].leaders.pop(index, None)

    def wait(self, seconds: float) -> None:
        self.fake.copy()

    def write_journal(self, journal: Journal | None) -> None:
        self.fake.call()
        if journal is None:
            self.fake.journals.pop(self.environment, None)
        else:
            self.fake.journals[self.environment] = journal

    def _note(self, key: Partition, target: tuple[int, ...]) -> None:
        """What a real cluster cannot be asked afterwards: was everything that is copied throttled when it began?"""
        topic = self.fake.topics[key[0]]
        throttled = topic.overrides.get(FOLLOWER_REPLICAS, "").split(",")
        for broker in set(target) - set(topic.assignment[key[1]]):
            if f"{key[1]}:{broker}" not in throttled or FOLLOWER_RATE not in self.fake.rates.get(broker, {}):
                self.fake.unthrottled.append((key, broker))


def own_rates(rates: Mapping[int, Mapping[str, str]], brokers: Collection[int]) -> dict[int, Mapping[str, str]]:
    return {broker: {key: v for key, v in rates.get(broker, {}).items() if key in RATES} for broker in brokers}
