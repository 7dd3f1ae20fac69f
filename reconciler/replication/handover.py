"""The hand-over, a mirror job's definition: one frozen type for the reconciler that writes and the job that reads it.

Its canonical JSON and the fingerprints decide whether a running job must restart, so fields with their default are left
out. Secrets stay references. Format: schemas/mirror.schema.json.

The deployment defines where a mirror's driver runs, and the resources of its executors. Settings without effect are
refused when the environment is read (reconciler.environment.declarations.mirrors).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from reconciler.replication.expressions import record_filter
from reconciler.replication.expressions.record_filter import AddedHeader, Where
from reconciler.replication.expressions.tree import ExpressionError
from reconciler.replication.groups import GroupSelector, make_group_selector
from reconciler.replication.json_codec import SPARSE, Codec, MalformedError, named
from reconciler.replication.policy import TopicSelector, make_selector

CLIENT, CLUSTER = "client", "cluster"
UNPACKED = "environment"
"""The folder of a container or executor in which Spark unpacks the archive."""


class MasterKind(Enum):
    LOCAL = "local"
    STANDALONE = "standalone"
    YARN = "yarn"
    KUBERNETES = "kubernetes"


def master_kind(master: str) -> MasterKind:
    """``master`` has the form of a master URL; what begins otherwise is a local one."""
    if master.startswith("spark://"):
        return MasterKind.STANDALONE
    if master.startswith("k8s://"):
        return MasterKind.KUBERNETES
    return MasterKind.YARN if master == "yarn" else MasterKind.LOCAL


@dataclass(frozen=True, slots=True)
class ExecutorPython:
    """``archive``: an absolute path or URI, unpacked on each executor; empty: installed packages are used.
    ``executable``: of executors, relative to the container's folder; empty: the archive's."""

    archive: str = field(default="", metadata=SPARSE)
    executable: str = field(default="", metadata=SPARSE)


@dataclass(frozen=True, slots=True)
class Deployment:
    """Where a mirror's driver runs, and resources of its executors. 0 and empty: Spark's default."""

    deploy_mode: str = field(default=CLIENT, metadata=SPARSE)
    """CLIENT: the driver is a process of the machine that submits; CLUSTER: Spark chooses a machine."""
    executors: int = field(default=0, metadata=SPARSE)
    """Number of executors. A standalone master only counts cores, so there it gets executors times cores."""
    cores: int = field(default=0, metadata=SPARSE)
    """Cores of each executor."""
    memory: str = field(default="", metadata=SPARSE)
    """Memory of each executor, in Spark's notation, such as 2g."""
    python: ExecutorPython = field(default=ExecutorPython(), metadata=SPARSE)

    def spark_conf(self, master: str) -> Mapping[str, str]:
        """The equivalent Spark settings."""
        kind = master_kind(master)
        conf = {
            "spark.executor.cores": str(self.cores or ""),
            "spark.executor.memory": self.memory,
            "spark.archives": f"{self.python.archive}#{UNPACKED}" if self.python.archive else "",
            "spark.pyspark.python": self.executable,
        }
        if kind is MasterKind.STANDALONE:  # it has no number of executors, only one of cores
            conf["spark.cores.max"] = str(self.executors * self.cores or "")
        else:
            conf["spark.executor.instances"] = str(self.executors or "")
        return {key: value for key, value in conf.items() if value}

    @property
    def executable(self) -> str:
        """Python of the executors; empty: Spark decides."""
        return self.python.executable or (f"./{UNPACKED}/bin/python" if self.python.archive else "")

    def settings(self) -> Mapping[str, str]:
        """YAML key -> value, without defaults."""
        values = {
            "deploy_mode": self.deploy_mode if self.deploy_mode != CLIENT else "",
            "executors": str(self.executors or ""),
            "cores": str(self.cores or ""),
            "memory": self.memory,
            "python.archive": self.python.archive,
            "python.executable": self.python.executable,
        }
        return {key: value for key, value in values.items() if value}


FORMAT_VERSION = 1
MOST_LANES = 64
LOCAL, FORWARD = "local", "forward"
TRANSLATED, SAME = "translated", "same"


UNCOVERED = ("cluster_id", "docs_url")
"""Fields that no fingerprint covers: a running job takes them at its next start (decisions 232, 289)."""


class HandoverError(ValueError):
    """An unusable hand-over: the problem and the remedy, in one paragraph."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One side of a flow. ``client`` holds librdkafka settings with secrets still as references. ``cluster_id``: of the
    expected cluster; empty: whichever answers first."""

    cluster: str = field(metadata=named("name"))
    """The alias, by which remote topics are named and which words use."""
    bootstrap_servers: tuple[str, ...]
    client: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str = field(default="", metadata=SPARSE)
    topic_prefix: str = field(default="", metadata=SPARSE)
    """Of the program's own topics there, see ``names.OwnTopics``."""
    uncompressed: bool = field(default=False, metadata=SPARSE)
    """Its brokers refuse compressed records, or some codecs."""
    request_bytes: int = field(default=0, metadata=SPARSE)
    """Its brokers hang up on a longer Produce request; 0: none is too long."""


@dataclass(frozen=True, slots=True)
class StatusPlace:
    """Where the job writes its status record, and reads pauses."""

    cluster: Endpoint
    topic: str
    key: str
    """Key of the record: environment and mirror."""


@dataclass(frozen=True, slots=True)
class Naming:
    """``policy``: ``default``, ``identity`` or an import path ``package.module:Class``."""

    policy: str = "default"
    separator: str = "."
    """Between the source's alias and the topic's name."""


AGAIN = "again"
"""A start at the earliest record, also where the target holds records already: the user agreed to have them twice."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a partition without a position begins."""

    kind: str = "earliest"
    """earliest, latest, again, timestamp or offsets."""
    timestamp_ms: int | None = None
    """Since 1970; only for kind ``timestamp``."""
    offsets: Mapping[str, Mapping[int, int]] | None = None
    """By topic and partition; only for kind ``offsets``."""
    otherwise: str | None = None
    """For partitions that ``offsets`` does not name: earliest, latest or again."""

    @property
    def unnamed(self) -> str:
        """How partitions begin that ``offsets`` does not name."""
        return (self.otherwise or "earliest") if self.kind == "offsets" else self.kind


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Groups with synced offsets, and the interval of reading them."""

    include: tuple[str, ...]
    """Expressions of whole names, as ``exclude``; exclusions win."""
    exclude: tuple[str, ...]
    interval_ms: int
    """Time between the beginnings of two rounds, unless a round takes longer."""
    follow_rewinds: bool
    """Whether a group that goes back at the source goes back at the target."""
    returning: str = field(default="", metadata=SPARSE)
    """The flow that carries the target's records into the same topics of the source, empty without one."""
    both_ways: bool = field(default=False, metadata=SPARSE)
    """For a flow that keeps offsets, commits on the target are synced to the source, too."""

    def selector(self) -> GroupSelector:
        """Raises HandoverError for a pattern that cannot be used."""
        try:
            return make_group_selector(self.include, self.exclude)
        except ExpressionError as error:
            raise HandoverError(f"A pattern for groups: {error}. Correct the flow's groups and run apply.") from error


@dataclass(frozen=True, slots=True)
class OffsetSyncs:
    """MirrorMaker 2's topic of offset syncs. ``side``: ``source`` or ``target``."""

    side: str
    topic: str


@dataclass(frozen=True, slots=True)
class InternalTopics:
    """MirrorMaker 2's internal topics beside the groups' checkpoints; None: not that one. ``separator``: in internal
    names, when it is not the naming's (KIP-949)."""

    heartbeats_ms: int | None = None
    offset_syncs: OffsetSyncs | None = None
    separator: str | None = None


@dataclass(frozen=True, slots=True)
class AddedHeaders:
    """Headers that each copy gets beside its own."""

    add: tuple[AddedHeader, ...]


@dataclass(frozen=True, slots=True)
class Provenance:
    """``carry``: LOCAL for records written at the source, FORWARD for records from other clusters, too. ``arriving``:
    flows with provenance to the source."""

    carry: str
    arriving: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """One flow, as the lanes get it. The fingerprint covers all but ``handover.UNCOVERED``."""

    name: str
    """Present name in git; state on the target is named by ``state_name``."""
    fingerprint: str
    source: Endpoint
    """With addresses and logins; secrets are references."""
    target: Endpoint
    topics: tuple[str, ...]
    """Expressions of whole names, as ``exclude_topics``; exclusions win."""
    exclude_topics: tuple[str, ...]
    naming: Naming
    delivery: str
    """``exactly_once`` in transactions, or ``at_least_once`` by an idempotent producer."""
    isolation: str
    """``read_committed``, or ``read_uncommitted``: records of open and aborted transactions are copied as well."""
    start: Start
    """Start of partitions without a position."""
    lanes: int
    """Number of lanes that share its partitions, at most MOST_LANES."""
    groups: GroupSettings | None = field(default=None, metadata=SPARSE)
    """None: no offsets are synced."""
    mirrormaker_topics: InternalTopics | None = field(default=None, metadata=SPARSE)
    rate_limit: int | None = field(default=None, metadata=SPARSE)
    """Bytes per second over all lanes; None: no limit."""
    continue_on: tuple[str, ...] | None = field(default=None, metadata=SPARSE)
    """Conditions after which a partition continues past the loss; None if the files do not say."""
    where: Where | None = field(default=None, metadata=SPARSE)
    """Which records are copied; None: all."""
    headers: AddedHeaders | None = field(default=None, metadata=SPARSE)
    """Added to each copy, which costs the whole-batch copy."""
    provenance: Provenance | None = field(default=None, metadata=SPARSE)
    """None: copies get no provenance header."""
    offsets: str = field(default=TRANSLATED, metadata=SPARSE)
    """TRANSLATED, or SAME for copies at the source's offsets."""
    filler_limit: int | None = field(default=None, metadata=SPARSE)
    """With SAME: limit of filler records at the beginning of a copy's partition; None:
    ``offsets.same.FILLER_LIMIT``."""
    moved_from: str = field(default="", metadata=SPARSE)
    """The first name of a renamed flow (decision 127)."""

    @property
    def state_name(self) -> str:
        """The name that its state has on the target for ever: positions, transactional ids, offset map, pauses."""
        return self.moved_from or self.name

    @property
    def keeps_offsets(self) -> bool:
        """Whether copies lie at the source's offsets."""
        return self.offsets == SAME

    @property
    def start_offsets(self) -> Mapping[tuple[str, int], int]:
        """Source partition -> offset, for partitions without a position."""
        offsets = self.start.offsets or {}
        return {(topic, number): offset for topic, each in offsets.items() for number, offset in each.items()}

    def starts_at(self, topic: str, partition: int) -> int | None:
        """The entry in ``start_offsets``, if any."""
        return (self.start.offsets or {}).get(topic, {}).get(partition)

    @property
    def mirrormaker(self) -> InternalTopics:
        return self.mirrormaker_topics or InternalTopics()

    def selector(self) -> TopicSelector:
        """Raises HandoverError for a pattern or policy that cannot be used."""
        try:
            return make_selector(
                self.topics,
                self.exclude_topics,
                self.naming.policy,
                self.naming.separator,
                self.source.cluster,
                self.target.cluster,
                heartbeats=self.mirrormaker.heartbeats_ms is not None,
                internal_separator=self.mirrormaker.separator,
                trusted=True,
            )
        except ValueError as error:
            raise HandoverError(
                f"Flow {self.name}: {error}. Correct the flow's topics or naming and run apply."
            ) from error


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """Settings of the control channel between driver and tasks."""

    bind_address: str = field(default="", metadata=SPARSE)
    """Where the driver listens; empty: ``spark.driver.bindAddress``."""
    advertised_address: str = field(default="", metadata=SPARSE)
    """What tasks connect to; empty: ``spark.driver.host``."""
    first_port: int = field(default=0, metadata=SPARSE)
    """First of a range, of which the driver takes a free one; 0: any port."""
    last_port: int = field(default=0, metadata=SPARSE)


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """One mirror: all that its job has to know."""

    environment: str
    mirror: str
    fingerprint: str
    parallelism: int
    """Number of concurrent leases, each a Spark task on a separate core."""
    refresh_interval_ms: int
    """Interval of topic discovery."""
    status_interval_ms: int
    status: StatusPlace
    """The cluster and topic of its status records."""
    flows: tuple[FlowSettings, ...]
    metrics_port: int = field(default=0, metadata=SPARSE)
    """0: no metrics are served."""
    metrics_address: str = field(default="", metadata={**SPARSE, **named("metrics_host")})
    """Empty: on this machine only."""
    deployment: Deployment = field(default=Deployment(), metadata=SPARSE)
    """The deployment with which the job was submitted; included so that a change restarts the job."""
    channel: ChannelSettings | None = field(default=None, metadata=SPARSE)
    moved_from: tuple[str, ...] = field(default=(), metadata={**SPARSE, **named("environment_moved_from")})
    """Names that the environment had: pauses and claims under them are its own."""
    docs_url: str = field(default="", metadata=SPARSE)
    """The job's conditions link to their runbooks below it; no fingerprint covers it (decision 232)."""

    @property
    def metrics_host(self) -> str:
        return self.metrics_address or "127.0.0.1"


def canonical_json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def fingerprint(value: object) -> str:
    """First 16 hex digits of the sha256 of canonical JSON, without what restarts no job."""
    return hashlib.sha256(canonical_json(_covered(value)).encode()).hexdigest()[:16]


def _covered(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _covered(inner) for key, inner in value.items() if key not in UNCOVERED}
    return [_covered(inner) for inner in value] if isinstance(value, list) else value


def document(settings: MirrorSettings | FlowSettings) -> dict[str, Any]:
    """The document of schemas/mirror.schema.json, or an entry of its ``flows``."""
    version = {"format_version": FORMAT_VERSION} if isinstance(settings, MirrorSettings) else {}
    return {**version, **CODEC.encoded(settings)}


def _start_document(start: Start) -> dict[str, Any]:
    if start.offsets is None:
        return {"kind": start.kind, "timestamp_ms": start.timestamp_ms}
    return {"kind": start.kind, "offsets": _PARTIAL.encoded(start)["offsets"], "otherwise": start.otherwise}


def _where(given: Mapping[str, Any]) -> Where:
    where = record_filter.read(given)
    try:
        record_filter.compiled(where)
    except ExpressionError as error:
        raise MalformedError(f"holds a regular expression that is none: {error}") from error
    return where


_PARTIAL = Codec(lenient=True)
CODEC = Codec(
    {
        Start: (_start_document, lambda given: _PARTIAL.decoded(Start, given)),
        Where: (record_filter.filter_document, _where),
    }
)
