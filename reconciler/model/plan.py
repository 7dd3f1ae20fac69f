"""The plan: changes in order, refusals and other findings of its diffs, its basis, and the impact of dangerous changes.

Impact is as its cluster reports it; an unreadable part is None and named in ``unknown``, and blocks nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from reconciler.errors import ExitCode, Unknown
from reconciler.model.changes import (
    AdoptedAcl,
    Change,
    Ignored,
    OutsideChange,
    Refused,
    Subject,
    Unmanaged,
    UnmanagedAcl,
)
from reconciler.model.environment.rollout import Course
from reconciler.model.live import LiveTopic
from reconciler.model.principals import WILDCARD, Operation, ResourceType
from reconciler.model.replicas import BrokerLoad
from reconciler.replication.json_codec import SPARSE
from reconciler.replication.offsets.position_metadata import PositionMark

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """A cluster at planning time; apply checks ``cluster_id`` again. None: not read, or not reported."""

    name: str
    cluster_id: str | None
    brokers: int
    """Number of live brokers."""
    topics: int
    """Number of topics that the principal sees."""
    acls: int | None = None
    """Number of rules; ``quotas`` and ``users`` likewise."""
    sees_all: bool = True
    """False: it hides topics from the principal."""
    metadata_version: int | None = None
    """Finalized level of that feature."""
    authorizer: bool | None = None
    """Whether it has one."""
    quotas: int | None = None
    """Number of entities with quotas; ``users``: of SCRAM users."""
    users: int | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """Fingerprint of an observed subject behind a change, with words for messages about a difference."""

    subject: Subject
    fingerprint: str
    text: str


@dataclass(frozen=True, slots=True)
class Edition:
    """Version of the files of a plan. ``revision``, ``dirty``: as in ``Basis``. ``digest``: of their topology
    (``engine.plan.file.topology_digest``); None: not computed yet."""

    revision: str = ""
    dirty: bool = False
    digest: str | None = None


NO_EDITION = Edition()


@dataclass(frozen=True, slots=True)
class Basis:
    """The ground of a plan: the files and the live state that it was made of. Apply refuses a saved plan whose ground
    has moved."""

    environment: str
    topology_digest: str
    """Of what the files declare, not of their text: comments and order do not count."""
    revision: str = ""
    """Git commit of the files, or empty."""
    dirty: bool = False
    """The files differ from ``revision``."""
    clusters: tuple[SeenCluster, ...] = ()
    observed: tuple[Observation, ...] = ()
    """Live subjects on which the changes rest, each with its state in words."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One change with its place in the order."""

    id: str
    """Stable for a change of a subject, so that plans can be compared."""
    change: Change
    stage: str
    """Of ``Stage``; the order of stages is fixed (``engine.plan.order``)."""
    risk: str
    risk_why: str
    """The reason for ``risk``, for readers."""
    reversibility: str
    """How to revert it, or that this is impossible."""
    needs: tuple[str, ...] = ()
    """Ids of changes that must succeed first."""
    needs_why: str = ""
    """Why these come first; empty without ``needs``."""
    stakes: Stakes | None = None
    """The cluster's facts about a dangerous change; None if not asked."""
    wave: str = field(default="", metadata=SPARSE)
    """Wave of the plan's rollout; empty without one."""
    wave_why: str = field(default="", metadata=SPARSE)
    """Why its wave is later than its cluster's."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Changes in order, and findings without a change. Preview and execution walk ``changes`` in this order."""

    basis: Basis
    changes: tuple[Planned, ...] = ()
    refused: tuple[Refused, ...] = ()
    """Stops the whole plan: the rest is safe only after a person has checked it."""
    unknown: tuple[Unknown, ...] = ()
    """Failed reads, which stop the plan, too."""
    unmanaged: tuple[Unmanaged, ...] = ()
    """Topics that nothing asks for; never touched."""
    unmanaged_acls: tuple[UnmanagedAcl, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    """Ignored differences, with reasons."""
    notes: tuple[str, ...] = ()
    unchanged: int = 0
    """Number of subjects in their declared state."""
    loads: tuple[BrokerLoad, ...] = ()
    """Loads of brokers, for clusters with moving replicas."""
    shifts: tuple[AccessShift, ...] = ()
    """Access that principals gain or lose by the whole plan."""
    rollout: Course | None = field(default=None, metadata=SPARSE)
    """The waves of the plan."""
    outside: tuple[OutsideChange, ...] = field(default=(), metadata=SPARSE)
    """Changes since the last apply that no apply made."""
    adopted_acls: tuple[AdoptedAcl, ...] = field(default=(), metadata=SPARSE)
    """Rules that it adopts without a change."""
    format_version: int = field(default=FORMAT_VERSION)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code for callers, decided only here."""
        if self.unknown:
            return ExitCode.ERROR
        if self.refused:
            return ExitCode.BLOCKED
        return ExitCode.CHANGES if self.changes else ExitCode.DONE


class Result(StrEnum):
    """UNDONE: done, and reverted after its probe failed. UNPROVEN: done, but could not be probed. LEFT: its probe
    failed, and it could not be reverted."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    UNDONE = "undone"
    UNPROVEN = "unproven"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one planned change. ``error``: problem, reason and remedy."""

    id: str
    result: Result
    error: str = ""
    """Problem, reason and remedy, a line each; empty if done."""
    seconds: float = 0.0
    """Time that it took; changes that go to a cluster in one batch share the batch's evenly."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of comparing desired and live: changes, and everything that is no change."""

    changes: tuple[Change, ...] = ()
    """Not in order yet (``engine.plan.order``)."""
    refused: tuple[Refused, ...] = ()
    """Desired states that are impossible or dangerous; one of them stops the whole plan."""
    unknown: tuple[Unknown, ...] = ()
    """Failed reads on which a comparison depends; they stop it, too."""
    unmanaged: tuple[Unmanaged, ...] = ()
    """Live topics that nothing declares; never touched."""
    ignored: tuple[Ignored, ...] = ()
    """Differences that a rule leaves alone, each with the reason."""
    notes: tuple[str, ...] = ()
    """For readers, without a change."""
    settled: tuple[Subject, ...] = ()
    """Subjects of which one declared field is as desired."""
    as_desired: tuple[Subject, ...] = ()
    """Subjects with all fields as desired."""
    unmanaged_acls: tuple[UnmanagedAcl, ...] = ()
    """Live rules that neither git nor this environment's record knows."""
    adopted_acls: tuple[AdoptedAcl, ...] = ()
    """Declared rules that existed before: apply records them as ours."""
    outside: tuple[OutsideChange, ...] = ()
    """Changes that no apply made."""


def merged(parts: Iterable[Findings]) -> Findings:
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for part in parts:
        for name, column in columns.items():
            if members := getattr(part, name):
                column.extend(members)
    return Findings(**{name: tuple(column) for name, column in columns.items()})


_COLUMNS = tuple(column.name for column in fields(Findings))


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
