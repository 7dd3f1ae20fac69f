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
    """A consumer group of a topic. ``lag``: in records, None if it has committed nothing or the ends are unknown."""

    group: str
    state: str
    members: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class Stakes:
    """``bytes``: on the disks of all replicas. ``records``: offsets from begin to end, an upper bound for a compacted
    topic. ``expiring``: records older than the planned retention. ``flows``: flows that carry the topic."""

    bytes: int | None = None
    records: int | None = None
    expiring: int | None = None
    readers: tuple[ReadingGroup, ...] | None = None
    flows: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AccessShift:
    """Access that a plan gives to a principal (``gained``) or takes from it, over all rules. ``names``: existing ones,
    without ``more`` others; ``patterns`` (``pay.*``): existing and future names. ``readers``: groups with members that
    lose a topic, as far as they may be the principal's."""

    cluster: str
    principal: str
    gained: bool
    resource: ResourceType
    operations: tuple[Operation, ...]
    names: tuple[str, ...]
    patterns: tuple[str, ...] = ()
    more: int = 0
    host: str = WILDCARD
    readers: tuple[ReadingGroup, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImpactQuery:
    """The question about one topic. ``keep_ms``: a planned retention by time that is lower than the present one.
    ``tiered``: older segments may be in remote storage, whose size brokers do not report."""

    topic: str
    partitions: int
    keep_ms: int | None = None
    tiered: bool = False

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
    """A cluster's facts for flows that keep offsets. ``offsets``: by topic and partition, the offset of a time or of
    the end. ``reports_writers``: whether its brokers know DescribeProducers and DescribeTransactions (since 3.0); None:
    unknown. ``positions``: flow -> metadata of its positions, by target topic and partition; a missing flow is unknown.
    ``markers``: of a target; None: not asked. ``unknown``: why something is missing; else empty."""

    reports_writers: bool | None = None
    offsets: Mapping[tuple[str, int], int] = field(default_factory=lambda: MappingProxyType({}))
    positions: Mapping[str, Mapping[tuple[str, int], str]] = field(default_factory=lambda: MappingProxyType({}))
    unknown: str = ""
    markers: MarkerRight | None = None


@dataclass(frozen=True, slots=True)
class FlowCopies:
    """The copies of a flow on its target: remote partition -> source partition, and the topic ids of both sides."""

    state: str
    partitions: Mapping[Key, Key]
    ids: Mapping[Key, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class RemoteFacts:
    """A target's facts on remote partitions, by the state names of flows and by remote partition. ``positions``: the
    writer of each position; a missing flow is unknown, ``unanswered`` has the reason. For partitions without a
    position: ``held``: begin and end, if not empty; ``others``: the group of another flow with a position there;
    ``copied``: by flow, the copier (a flow's state) and the least source offset that it has reached, by the offset map.
    ``workers``: groups of Connect workers with their state. ``written_ms``: by topic, time of the last known idempotent
    producer; ``writers``: known transactional ids. ``connect``: keys and values of topics that look like Kafka
    Connect's offsets, where MirrorMaker 2 stores its positions. ``unknown``: other failed reads."""

    positions: Mapping[str, Mapping[Key, PositionMark]] = field(default_factory=lambda: MappingProxyType({}))
    unanswered: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    held: Mapping[Key, tuple[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    others: Mapping[Key, tuple[str, PositionMark]] = field(default_factory=lambda: MappingProxyType({}))
    copied: Mapping[str, Mapping[Key, tuple[str, int]]] = field(default_factory=lambda: MappingProxyType({}))
    workers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    written_ms: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    writers: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    connect: Mapping[str, Sequence[tuple[bytes | None, bytes | None]] | Unknown] = field(
        default_factory=lambda: MappingProxyType({})
    )
    unknown: str = ""
