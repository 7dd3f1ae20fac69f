"""Replicas: their brokers, their targets, and the reassignments that are ours. Frozen values.

A reassignment is Kafka's (KIP-455): a partition keeps its old replicas until all new ones are in sync.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

Partition = tuple[str, int]
"""Topic and partition index."""

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
RATES = (LEADER_RATE, FOLLOWER_RATE)
"""Dynamic configs of a broker, in bytes/s."""
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
THROTTLED_REPLICAS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
"""Configs of a topic: entries ``partition:broker``, or one ``*``."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The replicas of one partition before and after, the first preferred as leader. Equal: no move."""

    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def added(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removed(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.before if broker not in self.after)


@dataclass(frozen=True, slots=True)
class ReassignmentInFlight:
    """A reassignment in flight, as ListPartitionReassignments returns it. ``replicas`` holds old and new ones."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def key(self) -> Partition:
        return self.topic, self.partition

    @property
    def before(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.replicas if broker not in self.removing)


@dataclass(frozen=True, slots=True)
class ReassignmentPace:
    """The pace of copying replicas. ``throttle``: bytes/s out of and into each broker. The next partitions begin when
    less than ``bytes_in_flight`` and fewer than ``partitions_in_flight`` are being copied."""

    throttle: int = 50 << 20
    bytes_in_flight: int = 10 << 30
    partitions_in_flight: int = 50


@dataclass(frozen=True, slots=True)
class ListEntries:
    """Our additions to one throttled-replicas key of a topic. ``fresh``: the topic had no such key before."""

    topic: str
    key: str
    entries: tuple[str, ...]
    fresh: bool


@dataclass(frozen=True, slots=True)
class Journal:
    """The next work of our reassignment, written on its cluster beforehand and deleted once everything is cleared.
    Nothing outside of it is ever cleared."""

    environment: str
    began_ms: int
    targets: Mapping[Partition, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Partition -> the replicas that it is to have."""
    rates: tuple[int, ...] = ()
    """Values that are ours wherever a broker of ``brokers`` has them under its key."""
    brokers: tuple[tuple[int, str], ...] = ()
    """(broker, key) of the rates that are ours."""
    lists: tuple[ListEntries, ...] = ()
    """What we have added to topics' throttled replicas."""


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """Replica facts of one cluster."""

    moves: tuple[ReassignmentInFlight, ...] = ()
    """Reassignments of anyone."""
    sizes: Mapping[tuple[str, int, int], int] = field(default_factory=lambda: MappingProxyType({}))
    """Topic, partition, broker -> bytes of that replica."""
    rates: Mapping[int, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    """Broker -> its own dynamic throttle rates."""
    journal: Journal | None = None
    """This environment's reassignment, None without one."""

    def ours(self, move: ReassignmentInFlight) -> bool:
        """Whether its target is the one in our journal: then we began it, or it does the same."""
        return self.journal is not None and self.journal.targets.get(move.key) == move.target

    def others(self) -> tuple[ReassignmentInFlight, ...]:
        return tuple(move for move in self.moves if not self.ours(move))


@dataclass(frozen=True, slots=True)
class Load:
    replicas: int = 0
    leaders: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """One broker before a plan's changes, during them (its maximum), and after. ``leaders``: preferred ones."""

    cluster: str
    broker: int
    rack: str | None
    before: Load
    during: Load
    after: Load


@dataclass(frozen=True, slots=True)
class ThrottleEdit:
    """One incremental change of one key."""

    key: str
    operation: str
    """Set, delete, append, subtract."""
    value: str = ""
    broker: int | None = None
    """None: the topic's."""
    topic: str = ""


def largest(sizes: Mapping[tuple[str, int, int], int]) -> dict[Partition, int]:
    """The bytes of each partition: its largest replica."""
    offsets: dict[Partition, int] = {}
    for (topic, partition, _), size in sizes.items():
        offsets[topic, partition] = max(size, offsets.get((topic, partition), 0))
    return offsets
