"""Impact of a dangerous change, as its cluster reported: bytes, records, readers. Frozen values.

A part that could not be read is None and named in ``unknown``; it blocks nothing.
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
    """A consumer group of a topic. ``lag`` in records, None where it committed nothing or the ends are not known."""

    group: str
    state: str
    members: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class Stakes:
    """``bytes``: on the disks of all replicas. ``records``: offsets between begin and end, an upper bound where a
    topic is compacted. ``expiring``: of these, older than the retention that is planned. ``flows`` carry the topic."""

    bytes: int | None = None
    records: int | None = None
    expiring: int | None = None
    readers: tuple[ReadingGroup, ...] | None = None
    flows: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AccessShift:
    """What a plan gives (``gained``) to a principal, or takes from it, by all rules together.

    ``names`` are there today, ``more`` of them left out; ``patterns`` (``pay.*``): and whatever comes that begins so.
    ``readers``: groups with members that this takes a topic from, as far as they can be those of the principal.
    """

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
    """What to ask about one topic. ``keep_ms``: a retention by time that is planned below the one it has. ``tiered``:
    older segments may lie in remote storage, of whose size brokers say nothing."""

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
    """What kind of cluster it is. None where it was not reported. ``apis``: keys of requests that its brokers offer,
    with the highest version."""

    metadata_version: int | None = None
    authorizer: bool | None = None
    apis: Mapping[int, int] | None = None


@dataclass(frozen=True, slots=True)
class MarkerRight:
    """Whether the mirror's principal may write transaction markers. ``command``: of kafka-acls, which gives it that."""

    held: bool | Unknown
    principal: str
    command: str


@dataclass(frozen=True, slots=True)
class CopyFacts:
    """What one cluster reports for flows that keep offsets. ``offsets``: by topic and partition, the offset of a time
    or of the end. ``reports_writers``: whether its brokers know DescribeProducers and DescribeTransactions (from
    3.0 on); None: not known. ``positions``: flow -> metadata of its positions, by target topic and partition; those of
    a missing flow are unknown. ``markers``: of a target; None: not asked. ``unknown``: why something is missing;
    else empty."""

    reports_writers: bool | None = None
    offsets: Mapping[tuple[str, int], int] = field(default_factory=lambda: MappingProxyType({}))
    positions: Mapping[str, Mapping[tuple[str, int], str]] = field(default_factory=lambda: MappingProxyType({}))
    unknown: str = ""
    markers: MarkerRight | None = None


@dataclass(frozen=True, slots=True)
class FlowCopies:
    """What a flow copies into on its target: remote partition -> source partition, topics' ids on both sides."""

    state: str
    partitions: Mapping[Key, Key]
    ids: Mapping[Key, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class RemoteFacts:
    """What a target reports about remote partitions, by the names of flows' states and by remote partition.

    ``positions``: who wrote each position; a flow that is missing could not be asked, ``unanswered`` says why. Of
    partitions without a position: ``held``: begin and end, where they are not empty; ``others``: group of another flow
    that has a position there; ``copied``: by flow, who copied it (a flow's state), up to which source offset at least,
    as the offset map says. ``workers``: groups of Connect workers with their state. ``written_ms``: by topic, when the
    last idempotent producer that is known wrote; ``writers``: transactional ids of those that have one. ``connect``:
    keys and values of topics that look like Kafka Connect's offsets, as MirrorMaker 2 stores its positions.
    ``unknown``: what else could not be read."""

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
