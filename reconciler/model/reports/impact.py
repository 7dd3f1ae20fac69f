"""Impact of a dangerous change, as its cluster reports it: bytes, records, readers. Frozen values.

An unreadable part is None and named in ``unknown``; it blocks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from reconciler.errors import Unknown
from reconciler.model.acls import WILDCARD, Operation, ResourceType
from reconciler.model.live import LiveTopic
from reconciler.replication.offsets.position_metadata import PositionMark

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ReadingGroup:
    """A consumer group of a topic."""

    group: str
    state: str
    """In the broker's word."""
    members: int
    lag: int | None
    """In records, None if it has committed nothing or the ends are unknown."""


@dataclass(frozen=True, slots=True)
class Stakes:
    """What a dangerous change of one topic puts at risk."""

    bytes: int | None = None
    """On the disks of all replicas."""
    records: int | None = None
    """Offsets from begin to end, an upper bound for a compacted topic."""
    expiring: int | None = None
    """Records older than the planned retention."""
    readers: tuple[ReadingGroup, ...] | None = None
    """Groups with a position in it; None if they are unknown."""
    flows: tuple[str, ...] = ()
    """Flows that carry the topic onwards."""
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AccessShift:
    """Access that a plan gives to a principal (``gained``) or takes from it, over all rules."""

    cluster: str
    principal: str
    gained: bool
    resource: ResourceType
    operations: tuple[Operation, ...]
    names: tuple[str, ...]
    """Existing ones, without ``more`` others; ``patterns`` (``pay.*``): existing and future names."""
    patterns: tuple[str, ...] = ()
    more: int = 0
    """Number of further names, which are not listed."""
    host: str = WILDCARD
    """From which this holds; ``*``: any."""
    readers: tuple[ReadingGroup, ...] = ()
    """Groups with members that lose a topic, as far as they may be the principal's."""
    unknown: tuple[str, ...] = ()
    """Answers about readers that are missing."""


@dataclass(frozen=True, slots=True)
class ImpactQuery:
    """The question about one topic."""

    topic: str
    partitions: int
    keep_ms: int | None = None
    """A planned retention by time that is lower than the present one."""
    tiered: bool = False
    """Older segments may be in remote storage, whose size brokers do not report."""

    @classmethod
    def of(cls, topic: LiveTopic, keep_ms: int | None = None) -> ImpactQuery:
        stored = topic.configs.get("remote.storage.enable") if isinstance(topic.configs, Mapping) else None
        return cls(topic.name, len(topic.partitions), keep_ms, stored is not None and stored.value == "true")


@dataclass(frozen=True, slots=True)
class ClusterFeatures:
    """Features of a cluster, None if not reported. ``apis``: keys of its brokers' requests, with the highest
    version."""

    metadata_version: int | None = None
    authorizer: bool | None = None
    apis: Mapping[int, int] | None = None


@dataclass(frozen=True, slots=True)
class MarkerRight:
    """Whether the mirror's principal may write transaction markers. ``command``: kafka-acls with the missing right."""

    held: bool | Unknown
    principal: str
    command: str


@dataclass(frozen=True, slots=True)
class CopyFacts:
    """A cluster's facts for flows that keep offsets."""

    reports_writers: bool | None = None
    """Whether its brokers know DescribeProducers and DescribeTransactions (since 3.0); None: unknown."""
    offsets: Mapping[tuple[str, int], int] = field(default_factory=lambda: MappingProxyType({}))
    """By topic and partition, the offset of a time or of the end."""
    positions: Mapping[str, Mapping[tuple[str, int], str]] = field(default_factory=lambda: MappingProxyType({}))
    """Flow -> metadata of its positions, by target topic and partition; a missing flow is unknown."""
    unknown: str = ""
    """Why something is missing; else empty."""
    markers: MarkerRight | None = None
    """Of a target; None: not asked."""


@dataclass(frozen=True, slots=True)
class FlowCopies:
    """The copies of a flow on its target: remote partition -> source partition, and the topic ids of both sides."""

    state: str
    partitions: Mapping[Key, Key]
    ids: Mapping[Key, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class RemoteFacts:
    """A target's facts on remote partitions, by the state names of flows and by remote partition."""

    positions: Mapping[str, Mapping[Key, PositionMark]] = field(default_factory=lambda: MappingProxyType({}))
    """The writer of each position; a missing flow is unknown, ``unanswered`` has the reason."""
    unanswered: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    held: Mapping[Key, tuple[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    """Begin and end of partitions without a position, if they are not empty."""
    others: Mapping[Key, tuple[str, PositionMark]] = field(default_factory=lambda: MappingProxyType({}))
    """The group of another flow with a position there."""
    copied: Mapping[str, Mapping[Key, tuple[str, int]]] = field(default_factory=lambda: MappingProxyType({}))
    """By flow, the copier (a flow's state) and the least source offset that it has reached, by the offset map."""
    workers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Groups of Connect workers with their state."""
    written_ms: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """By topic, time of the last known idempotent producer."""
    writers: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Known transactional ids."""
    connect: Mapping[str, Sequence[tuple[bytes | None, bytes | None]] | Unknown] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """Keys and values of topics that look like Kafka Connect's offsets, where MirrorMaker 2 stores its positions."""
    unknown: str = ""
    """Other failed reads."""
