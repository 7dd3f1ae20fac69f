"""The live state: what clusters and mirror jobs answered. A read that failed is ``Unknown``, never empty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from reconciler.errors import Unknown
from reconciler.model.environment.topology import TopicRef
from reconciler.model.principals import (
    WILDCARD,
    AclBinding,
    Credentials,
    QuotaEntity,
    QuotaLimits,
    Unsupported,
    UserRecord,
)
from reconciler.model.replicas import ReplicaFacts
from reconciler.replication.status import FlowStatus


class Source(StrEnum):
    """Source of a config value (DescribeConfigs v1+, ``ConfigEntry.source``)."""

    TOPIC = "topic"
    BROKER = "dynamic broker"
    CLUSTER = "cluster default"
    STATIC = "static broker"
    BUILT_IN = "broker default"
    """Kafka's DEFAULT_CONFIG, also where ``server.properties`` decides it by another name (log.retention.hours)."""


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One config of a topic, as a broker has it or as it will be."""

    value: str | None
    """None if the broker hides it (sensitive)."""
    source: Source
    sensitive: bool = False
    read_only: bool = False
    goal: str | None = None
    """For a topic after the plan: the final desired value, if ``value`` is only a step towards it."""
    declared: bool = False
    """Whether a file declares the value."""


@dataclass(frozen=True, slots=True)
class LivePartition:
    """One partition as the metadata has it; brokers by id."""

    index: int
    leader: int
    """-1: none."""
    replicas: tuple[int, ...]
    """In order: the first is the preferred leader."""
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LiveTopic:
    """``configs`` holds every key the broker returned, with its source; overrides are those with ``Source.TOPIC``."""

    name: str
    topic_id: str
    """As Kafka prints it (base64)."""
    partitions: tuple[LivePartition, ...]
    configs: Mapping[str, ConfigValue] | Unknown
    """Every key the broker returned, with its source; overrides are those with ``Source.TOPIC``."""
    internal: bool = False
    """Whether brokers report the topic as internal (``__consumer_offsets``)."""

    @property
    def replication_factor(self) -> int | None:
        """The common factor of all partitions, None if they differ."""
        if len(self.partitions) == 1:  # asked of every topic, and most have one
            return len(self.partitions[0].replicas)
        factors = {len(p.replicas) for p in self.partitions}
        return factors.pop() if len(factors) == 1 else None

    @property
    def overrides(self) -> Mapping[str, str]:
        if isinstance(self.configs, Unknown):
            return {}
        return {k: v.value for k, v in self.configs.items() if v.source is Source.TOPIC and v.value is not None}

    def config(self, key: str) -> str | None:
        """A config's value; None also if it is hidden or could not be read."""
        entry = None if isinstance(self.configs, Unknown) else self.configs.get(key)
        return entry.value if entry is not None else None


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as its cluster advertises it."""

    id: int
    host: str
    port: int
    rack: str | None = None
    """None: not declared, so replicas are not spread over racks."""


@dataclass(frozen=True, slots=True)
class Made:
    """A rule's entry in the ownership record: its maker and title (see ``changes.Grant``)."""

    title: str
    maker: str


@dataclass(frozen=True, slots=True)
class Before:
    """State of a rule before a wave, which undoing restores. ``made``: its ownership entry; None: it was not ours."""

    there: bool
    made: Made | None = None


@dataclass(frozen=True, slots=True, order=True)
class LiftedCopies:
    """Remote topics of one flow (``Flow.state_name``) that are not kept read-only any more; topic ``*``: all of it."""

    flow: str
    topic: str = WILDCARD

    def __str__(self) -> str:
        return f"{self.flow}/{self.topic}"


@dataclass(frozen=True, slots=True)
class LiveAccess:
    """The access control of one cluster."""

    acls: frozenset[AclBinding] | Unknown | Unsupported
    """Of all principals, as the authorizer has them."""
    owned: Mapping[AclBinding, Made] | Unknown = field(default_factory=lambda: MappingProxyType({}))
    """Rules that runs of this environment made, by the ownership record; a rule in it that is not in ``acls`` was
    removed by someone else."""
    not_understood: tuple[str, ...] = ()
    """Rules whose resource or operation this version has no word for; they are left alone."""
    pending: Mapping[AclBinding, Before] = field(default_factory=lambda: MappingProxyType({}))
    """Rules that a wave touched and no probe has confirmed yet: the run was cut off, or could not find out."""
    lifted: Mapping[LiftedCopies, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Remote topics that take writes since a failover or cut-over -> the principals that were denied before."""

    @property
    def ours(self) -> Mapping[AclBinding, Made]:
        """``owned``; none if that could not be read."""
        return {} if isinstance(self.owned, Unknown) else self.owned


@dataclass(frozen=True, slots=True)
class LiveUsers:
    """The SCRAM users of one cluster. ``recorded``: users that runs of this environment set, by the ownership record;
    one that ``credentials`` lacks was removed by others."""

    credentials: Mapping[str, Credentials] | Unknown | Unsupported
    recorded: Mapping[str, UserRecord] | Unknown = field(default_factory=lambda: MappingProxyType({}))


def _nothing() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """Everything read from one cluster. None: not read, because no declaration depends on it."""

    name: str
    cluster_id: str
    """Kafka's; compared with the declared one before anything is written."""
    brokers: tuple[Broker, ...]
    """Those alive now: a broker that is down is missing, and nothing says that it exists."""
    topics: Mapping[str, LiveTopic]
    """Topics that the principal may describe."""
    sees_all: bool = True
    """False: the principal may not describe every topic, so a topic that was not asked for by name may exist."""
    hidden: Mapping[str, Unknown] = field(default_factory=_nothing)
    """Requested names that the principal may not describe, so that even their existence is unknown."""
    replicas: ReplicaFacts | Unknown | None = None
    """None: there was no reason to read them."""
    access: LiveAccess | None = None
    """None: no declaration depends on access rules."""
    quotas: Mapping[QuotaEntity, QuotaLimits] | Unknown | None = None
    quota_keys: Mapping[QuotaEntity, frozenset[str]] | Unknown = field(default_factory=_nothing)
    """Quota keys that runs of this environment set, by the ownership record."""
    users: LiveUsers | None = None
    """None: no declaration depends on SCRAM users."""
    defaults: Mapping[str, str] | Unknown = field(default_factory=_nothing)
    """By one broker, read where no topic shows what a new one has (``usual_configs``)."""

    @property
    def topic_count(self) -> int:
        """As `plan`, `status` and the map show it: without topics that the brokers call internal
        (``__consumer_offsets``, ``__transaction_state``), which are never declared and come and go with brokers."""
        return sum(not topic.internal for topic in self.topics.values())

    @property
    def partitions_amiss(self) -> tuple[int, int]:
        """Number of leaderless partitions, and of under-replicated ones."""
        partitions = [partition for topic in self.topics.values() for partition in topic.partitions]
        leaderless = sum(partition.leader < 0 for partition in partitions)
        return leaderless, sum(len(partition.isr) < len(partition.replicas) for partition in partitions)

    def place_for(self, replicas: int) -> int:
        """Number of brokers, at most ``replicas``, that can have a new topic's replicas, including brokers that are
        down but have replicas of other topics: Kafka places some there, and they come back."""
        broker_ids = {broker.id for broker in self.brokers}
        if len(broker_ids) < replicas:
            broker_ids |= {
                replica for topic in self.topics.values() for part in topic.partitions for replica in part.replicas
            }
        return min(replicas, len(broker_ids))

    @property
    def acls(self) -> frozenset[AclBinding] | Unknown | Unsupported:
        """Every rule of the cluster, or why there is no such set."""
        return self.access.acls if self.access is not None else Unknown(f"access of {self.name}", "it was not read")


BrokerConfigs = Mapping[str, ConfigValue]


def broker_configs(different: Iterable[Mapping[str, ConfigValue]]) -> dict[str, ConfigValue]:
    """Values of a topic without overrides, as far as the cluster's topics show them. ``different``: their configs."""
    config_values: dict[str, ConfigValue] = {}
    for each_configs in different:
        for key, value in each_configs.items():
            if value.source is not Source.TOPIC:
                config_values.setdefault(key, value)
    return config_values


def different_configs(cluster: LiveCluster) -> list[Mapping[str, ConfigValue]]:
    """Distinct config objects of all topics: of ten thousand topics perhaps fifty."""
    every = {id(topic.configs): topic.configs for topic in cluster.topics.values()}
    return [config_values for config_values in every.values() if not isinstance(config_values, Unknown)]


_OF_BROKERS = {
    "retention.bytes": "log.retention.bytes", "cleanup.policy": "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms", "segment.bytes": "log.segment.bytes",
    "max.message.bytes": "message.max.bytes", "message.timestamp.type": "log.message.timestamp.type",
    "max.decompressed.message.bytes": "max.decompressed.message.bytes",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
}  # fmt: skip
_TIMES = {"retention.ms": "log.retention", "segment.ms": "log.roll"}
_UNITS = (("ms", 1), ("minutes", 60_000), ("hours", 3_600_000))
"""The first of these that a broker has counts."""


def broker_defaults(configs: Mapping[str, str | None]) -> Mapping[str, str]:
    """Values of a topic without overrides on a broker with ``configs``, by topic config names."""
    defaults = {key: value for key, name in _OF_BROKERS.items() if (value := configs.get(name)) is not None}
    for key, stem in _TIMES.items():
        said = ((configs.get(f"{stem}.{unit}"), factor) for unit, factor in _UNITS)
        value, factor = next(((value, factor) for value, factor in said if value is not None), (None, 1))
        if value is not None and value.removeprefix("-").isdecimal():
            defaults[key] = str(int(value) * factor) if int(value) >= 0 else value
    return defaults


SHOWN_BY_ALL = frozenset({*_OF_BROKERS, *_TIMES} - {
    "max.decompressed.message.bytes", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
})  # fmt: skip
"""Since Kafka 2.8. An internal topic overrides some of them, so it does not show what a new topic has."""


def shows_defaults(cluster: LiveCluster) -> bool:
    return broker_configs(different_configs(cluster)).keys() >= SHOWN_BY_ALL


def usual_configs(cluster: LiveCluster) -> dict[str, ConfigValue]:
    """Values of a topic of ``cluster`` without overrides: as topics show them, else from a broker."""
    told = cluster.defaults if isinstance(cluster.defaults, Mapping) else {}
    defaults = {key: ConfigValue(value, Source.BUILT_IN) for key, value in told.items()}
    return {**defaults, **broker_configs(different_configs(cluster))}


LAG_LATE_MS = 10_000
"""The lag of a record that comes later than this is unknown."""


class JobState(StrEnum):
    """``STALE``: a status record says running, but it is older than it may be, or its process is gone."""

    ABSENT = "absent"
    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"
    FAILED = "failed"
    STALE = "stale"

    @property
    def runs(self) -> bool:
        """Its application runs, or begins to: it has given partitions their positions, and its next commit would
        overwrite any other."""
        return self in (JobState.STARTING, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class LiveMirror:
    """A mirror job as seen from outside: what the runner knows of the process, and its last status record."""

    name: str
    state: JobState
    application_id: str | None = None
    """Spark's; None before any was seen."""
    fingerprint: str | None = None
    """Fingerprint of the running or last hand-over."""
    started_at_ms: int | None = None
    """Start of the present application, in ms since 1970; ``updated_at_ms``: its last status record."""
    updated_at_ms: int | None = None
    pid: int | None = None
    """Pid of its Spark driver on ``host``."""
    detail: str = ""
    """The reason of its state, from its report or the runner."""
    flows: Mapping[str, FlowStatus] = field(default_factory=lambda: MappingProxyType({}))
    """By name, as its last record has them, however old it is."""
    late_ms: int = 0
    """Age of the last record beyond two status intervals; its lags are as old."""
    gone: bool = False
    """This machine ran it, and its process has ended."""
    host: str = ""
    """Host of its driver, from its report."""
    unseen: Unknown | None = None
    """Why its process cannot be observed; then its state is unknown."""
    run: str = ""
    """In deploy mode cluster: the run id, by which any machine can send orders to its driver."""
    unkept: str = ""
    """Why no process would restart its application after a crash; empty if one would, or if unknown."""

    @property
    def lag_is_current(self) -> bool:
        """Whether the lags in ``flows`` are current, since a source grows between reports."""
        return self.state is JobState.RUNNING and self.late_ms <= LAG_LATE_MS


@dataclass(frozen=True, slots=True)
class LiveState:
    """``clusters`` and ``mirrors`` have an entry for everything the topology names, known or not."""

    clusters: Mapping[str, LiveCluster | Unknown]
    mirrors: Mapping[str, LiveMirror | Unknown]

    def as_reported(self) -> LiveState:
        """For people: a mirror whose job cannot be observed is unknown, even if its process runs."""
        seen = {name: getattr(mirror, "unseen", None) or mirror for name, mirror in self.mirrors.items()}
        return LiveState(self.clusters, seen)

    @property
    def unread(self) -> tuple[Unknown, ...]:
        """Every requested part without an answer, apart from hidden topics."""
        known = [cluster for cluster in self.clusters.values() if isinstance(cluster, LiveCluster)]
        accesses = [cluster.access for cluster in known if cluster.access is not None]
        users = [cluster.users for cluster in known if cluster.users is not None]
        parts = (
            *self.clusters.values(),
            *self.mirrors.values(),
            *(part for access in accesses for part in (access.acls, access.owned)),
            *(cluster.quotas for cluster in known),
            *(part for each in users for part in (each.credentials, each.recorded)),
        )
        return tuple(part for part in parts if isinstance(part, Unknown))

    @property
    def unanswered(self) -> tuple[Unknown, ...]:
        """``unread``, and hidden topics."""
        known = [cluster for cluster in self.clusters.values() if isinstance(cluster, LiveCluster)]
        return (*self.unread, *(why for cluster in known for why in cluster.hidden.values()))

    def known(self, cluster: str) -> LiveCluster | None:
        live_cluster = self.clusters.get(cluster)
        return live_cluster if isinstance(live_cluster, LiveCluster) else None

    def topic(self, ref: TopicRef) -> LiveTopic | None:
        """None also where its cluster was not read."""
        cluster = self.known(ref.cluster)
        return cluster.topics.get(ref.name) if cluster else None
