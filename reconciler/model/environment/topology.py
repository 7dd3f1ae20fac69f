"""The declared environment: fields of clusters, topics, flows and mirrors as YAML gives them, frozen."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeVar

from reconciler.errors import NOWHERE, Where
from reconciler.model.environment import flow_settings
from reconciler.model.environment.hooks import CutoverHook, Webhook
from reconciler.model.environment.rollout import Rollout, RolloutWave
from reconciler.model.principals import AccessRule, Quota, ScramUser
from reconciler.model.replicas import ReassignmentPace
from reconciler.replication.expressions.record_filter import AddedHeader
from reconciler.replication.expressions.record_filter import Where as Selection
from reconciler.replication.handover import ChannelSettings, Deployment, Naming, Start
from reconciler.replication.json_codec import SPARSE
from reconciler.replication.names import OwnTopics


class Principal(StrEnum):
    """The identity of a connection: settings of ``principals.<name>`` override ``client``."""

    PLAN = "plan"
    APPLY = "apply"
    MIRROR = "mirror"
    PROBE = "probe"


OURS = (Principal.PLAN, Principal.APPLY, Principal.MIRROR)
"""Without PROBE, the login of an application, by which a cut-over only checks its fence."""


def _nothing() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, order=True)
class TopicRef:
    """``cluster/name``: the key of a topic everywhere."""

    cluster: str
    name: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.name}"


class Undeclared(StrEnum):
    """Treatment of an undeclared override. DRIFT: a reported difference that stays; REMOVE: it is removed."""

    IGNORE = "ignore"
    DRIFT = "drift"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """One layer of values: of the environment, a class, a cluster, or a topic itself. None: a weaker layer decides."""

    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=_nothing)
    """Configs by Kafka's names."""
    lower_retention_by: Mapping[str, str] = field(default_factory=_nothing)
    """Config -> the most by which one apply may lower it."""
    undeclared: Undeclared | None = field(default=None, metadata=SPARSE)
    """None: the next layer decides; ``ignore`` without any."""
    where: Where = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster as git declares it. Settings are librdkafka's, with secrets still as ``${env:}`` or ``${file:}``."""

    name: str
    """The alias, by which remote topics are named."""
    bootstrap_servers: tuple[str, ...]
    cluster_id: str | None = None
    """None: any cluster that answers at the servers is accepted."""
    region: str | None = None
    """For waves of a rollout, and the map."""
    client: Mapping[str, str] = field(default_factory=_nothing)
    """Settings of every principal."""
    principals: Mapping[Principal, Mapping[str, str]] = field(default_factory=_nothing)
    """By principal, settings that override ``client``."""
    defaults: TopicDefaults = TopicDefaults()
    prune_topics: tuple[str, ...] = ()
    """Whole-name expressions of topics that this environment may delete there if nothing asks for them."""
    reassignment: ReassignmentPace = field(default_factory=ReassignmentPace)
    """The pace of moving replicas."""
    service: str = field(default="", metadata=SPARSE)
    """The service that runs it, see ``services``; empty: guessed from its addresses."""
    topic_prefix: str = field(default="", metadata=SPARSE)
    """Before the names of the program's own topics, see ``own_topics``."""
    own_configs: Mapping[str, str] = field(default_factory=_nothing, metadata=SPARSE)
    """Configs of the program's own topics, over those that it chooses."""
    where: Where = field(default=NOWHERE, compare=False)
    not_contacted: str = field(default="", compare=False)
    """Changes of its connection since the base that credentials may not follow; else empty."""
    listable: tuple[str, ...] = field(default=(), compare=False)
    """Words of RECONCILER_ALLOW that would allow the change; empty if none can."""

    @property
    def own_topics(self) -> OwnTopics:
        return OwnTopics(self.topic_prefix)

    def client_for(self, principal: Principal) -> dict[str, str]:
        return {**self.client, **self.principals.get(principal, {})}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic desired on each cluster in ``clusters``. None: a weaker layer decides."""

    name: str
    clusters: tuple[str, ...]
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=_nothing)
    labels: Mapping[str, str] = field(default_factory=_nothing)
    """For users and ``--label``; not sent to brokers."""
    class_name: str = ""
    """An entry of ``Rules.classes``, or empty."""
    lower_retention_by: Mapping[str, str] = field(default_factory=_nothing)
    undeclared: Undeclared | None = field(default=None, metadata=SPARSE)
    where: Where = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Flow:
    """Topics of ``source`` whose whole name matches one of ``topics`` are mirrored to ``target``."""

    name: str
    source: str
    target: str
    topics: tuple[str, ...]
    exclude_topics: tuple[str, ...] = ()
    """In addition to topics that no flow carries (``policy.EXCLUDED_TOPICS``)."""
    naming: Naming = field(default_factory=Naming)
    """The rule for names of copies (``replication.policy``)."""
    replication_factor: int | None = None
    """Factor of remote topics; None: from the target's layers."""
    delivery: flow_settings.Delivery = flow_settings.Delivery.EXACTLY_ONCE
    isolation: flow_settings.Isolation = flow_settings.Isolation.READ_COMMITTED
    """READ_COMMITTED waits for open transactions and leaves out aborted records."""
    start: Start = field(default_factory=Start)
    """Where a partition without a position begins; it never moves an existing position."""
    lanes: int = 2
    """Number of lanes that share its partitions, each with its own transactional id."""
    rate_limit: int | None = None
    """Bytes per second over all lanes; None: no limit."""
    on_condition: Mapping[str, str] = field(default_factory=_nothing)
    """Condition -> ``continue``; other conditions stop their partition."""
    configs: flow_settings.ConfigSync = field(default_factory=flow_settings.ConfigSync)
    """Which configs of the source its copies follow."""
    groups: flow_settings.Groups = field(default_factory=flow_settings.Groups)
    """Which consumer groups move at a failover, and whether their offsets are synced before."""
    access: flow_settings.AccessSync = field(default_factory=flow_settings.AccessSync)
    """Whether readers of a source topic may read its copy."""
    copies: flow_settings.CopyMode | None = field(default=None, metadata=SPARSE)
    """None: nothing is checked for it."""
    mirrormaker_topics: flow_settings.MirrorMakerTopics = field(default_factory=flow_settings.MirrorMakerTopics)
    selection: Selection | None = None
    """``where`` in YAML. Record work, as ``headers`` and ``provenance``: it costs the whole-batch copy."""
    headers: tuple[AddedHeader, ...] = ()
    """Added to each copy."""
    provenance: flow_settings.Carry | None = None
    """None: copies get no provenance header."""
    offsets: flow_settings.OffsetsKept = field(default=flow_settings.OffsetsKept.TRANSLATED, metadata=SPARSE)
    filler_limit: int | None = field(default=None, metadata=SPARSE)
    """For a flow that keeps offsets: limit of filler records at the beginning of a new copy's partition; None:
    ``replication.offsets.same.FILLER_LIMIT``."""
    moved_from: str = field(default="", metadata=SPARSE)
    """From ``moved``, not from its entry: the first name of a renamed flow."""
    objectives: flow_settings.Objectives | None = field(default=None, metadata=SPARSE)
    """Objectives that its drills measure."""
    labels: Mapping[str, str] = field(default_factory=_nothing)
    """For users and the map; not sent to brokers."""
    where: Where = field(default=NOWHERE, compare=False)

    @property
    def state_name(self) -> str:
        """The name that its positions, transactional ids, offset map and pauses have on its target (decision 127)."""
        return self.moved_from or self.name

    @property
    def internal_separator(self) -> str:
        """In names of MirrorMaker 2's internal topics."""
        return self.naming.separator if self.mirrormaker_topics.internal_separator else "."

    @property
    def read_only(self) -> bool:
        return self.copies is flow_settings.CopyMode.READ_ONLY

    @property
    def keeps_offsets(self) -> bool:
        return self.offsets is flow_settings.OffsetsKept.SAME

    @property
    def record_work(self) -> tuple[str, ...]:
        """The settings that keep its batches from travelling whole, in the YAML's words."""
        asked = {"where": self.selection, "headers": self.headers or None, "provenance": self.provenance}
        return tuple(word for word, desired in asked.items() if desired is not None)


SPARK_SECRET = "spark.authenticate.secret"  # noqa: S105  # a name
"""The shared secret of a standalone cluster, its workers and applications; a reference in ``spark_conf``."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """One Spark application, which carries one or more flows to their targets."""

    name: str
    flows: tuple[str, ...]
    """Names of flows; by default every flow to the cluster with the mirror's name."""
    master: str = "local[2]"
    """The master for spark-submit."""
    parallelism: int = 2
    """Number of concurrent Spark tasks, one per core."""
    spark_conf: Mapping[str, str] = field(default_factory=_nothing)
    """Overrides settings of this program."""
    refresh_interval_ms: int = 5_000
    """Interval at which the job looks for matching topics."""
    status_interval_ms: int = 2_000
    """Interval of status records; readers call a job stale after several of them without a record."""
    metrics_port: int = 0
    """0: the job serves no metrics."""
    metrics_host: str = "127.0.0.1"
    """Address at which metrics are served; the default is this machine alone."""
    deployment: Deployment = field(default=Deployment(), metadata=SPARSE)
    """Client mode on the machine that starts it, or deploy mode cluster."""
    verify_conf: Mapping[str, str] = field(default_factory=_nothing, metadata=SPARSE)
    """Spark settings of ``verify`` alone, which override the others."""
    channel: ChannelSettings | None = field(default=None, metadata=SPARSE)
    """Address at which tasks reach the driver; None: from Spark's settings."""
    hosted: bool = field(default=False, metadata=SPARSE)
    """Mirror hosts keep it running, not a supervisor of this machine."""
    where: Where = field(default=NOWHERE, compare=False)

    @property
    def unauthenticated(self) -> bool:
        """Whether the Spark cluster accepts any client, as far as this environment shows. YARN, Kubernetes and local
        masters generate a secret for each application."""
        declared = self.spark_conf.get("spark.authenticate", "true" if SPARK_SECRET in self.spark_conf else "false")
        return self.master.startswith("spark://") and declared != "true"


UNAUTHENTICATED = (
    "anyone who reaches the ports of its Spark master, workers or driver can run code there, "
    "and read what the job reads"
)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Deletes a topic: written, dated, and bound to the one topic that has ``topic_id``."""

    cluster: str
    topic: str
    topic_id: str
    """As Kafka prints it; protects a later topic of the same name from deletion."""
    reason: str
    """For readers of the plan and of the audit record."""
    expires: str
    """The last day (UTC, ISO 8601) on which it counts."""
    where: Where = field(default=NOWHERE, compare=False)
    expired: bool = field(default=False, compare=False)
    """The day had passed when the file was read."""

    @property
    def ref(self) -> TopicRef:
        return TopicRef(self.cluster, self.topic)


@dataclass(frozen=True, slots=True)
class Rename:
    """An entry of ``moved``: ``before`` is the former name of ``name``. ``kind``: flow, environment, or topic, which is
    always refused."""

    kind: str
    name: str
    before: str
    where: Where = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Protection:
    """Topics that match ``pattern`` (whole names) are never deleted, on any cluster."""

    pattern: str
    where: Where = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ShrinkLimit:
    """Limit of a loss without consent: a loss is too large if it exceeds ``percent`` and is at least ``least``."""

    percent: int = 20
    least: int = 5


@dataclass(frozen=True, slots=True)
class AuditTopic:
    """A topic with a copy of every audit line. ``cluster`` empty: the one with the environment's lock."""

    topic: str
    cluster: str = ""
    """Empty: the cluster with the environment's lock."""
    where: Where = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings of the whole environment: defaults of topics, and protections."""

    defaults: TopicDefaults = TopicDefaults()
    """The weakest layer of topics' values that git declares."""
    classes: Mapping[str, TopicDefaults] = field(default_factory=_nothing)
    """Class name -> layer, which topics choose by ``class``."""
    protected: tuple[Protection, ...] = ()
    """Names that no command deletes."""
    shrink_limit: ShrinkLimit = ShrinkLimit()
    """A plan that takes away more than it allows is refused without consent."""
    audit: AuditTopic | None = None
    """A topic for audit lines besides the record beside the lock; None: none."""
    docs_url: str = field(default="", metadata=SPARSE)
    """URL of this project's pages, to which runbooks link."""
    webhooks: tuple[Webhook, ...] = field(default=(), metadata=SPARSE)


@dataclass(frozen=True, slots=True)
class Topology:
    """One environment folder. Mappings are keyed by name, in the order of the files. ``*_declared``: the section
    exists, perhaps empty, so that removed entries are looked for."""

    environment: str
    """Name of the folder, which is part of every record's key on the clusters."""
    clusters: Mapping[str, Cluster]
    topics: Mapping[str, Topic]
    flows: Mapping[str, Flow]
    mirrors: Mapping[str, Mirror]
    deletions: tuple[Tombstone, ...] = ()
    """Tombstones; an expired one is kept, and deletes nothing."""
    access: tuple[AccessRule, ...] = ()
    """Entries in file order; ``quotas`` and ``users``: likewise."""
    access_declared: bool = False
    rules: Rules = Rules()
    quotas: tuple[Quota, ...] = ()
    quotas_declared: bool = False
    users: tuple[ScramUser, ...] = ()
    users_declared: bool = False
    rollout: Rollout | None = field(default=None, metadata=SPARSE)
    """None: all clusters change in one wave, without gates."""
    hooks: Mapping[str, CutoverHook] = field(default_factory=_nothing, metadata=SPARSE)
    """Step of a cut-over -> hook."""
    moved_from: tuple[str, ...] = field(default=(), metadata=SPARSE)
    """Former names of the environment, by ``moved``: flows that it began under them are its own."""
    lock_home: str = field(default="", compare=False)
    """Not from git: the cluster where a session found the lock; empty before the search (decision 107)."""

    @property
    def clusters_alone(self) -> bool:
        """Whether it declares nothing that could change a cluster or a job, like the folder of a mirror host."""
        entries = (self.topics, self.flows, self.mirrors, self.deletions)
        return not (any(entries) or self.access_declared or self.quotas_declared or self.users_declared)

    def flows_of(self, mirror: Mirror) -> tuple[Flow, ...]:
        return tuple(self.flows[name] for name in mirror.flows)

    def audit_place(self) -> TopicRef | None:
        audit = self.rules.audit
        return TopicRef(audit.cluster or min(self.clusters), audit.topic) if audit else None

    def arriving(self, flow: Flow) -> tuple[Flow, ...]:
        """For a flow with provenance: the flows with provenance to its source, since it must recognise their copies."""
        if flow.provenance is None:
            return ()
        into = (other for other in self.flows.values() if other.target == flow.source)
        return tuple(other for other in into if other.provenance is not None)

    def status_cluster(self, mirror: Mirror) -> str:
        """The cluster that carries the mirror's status records: the target of its first flow by name."""
        return min(self.flows_of(mirror), key=lambda flow: flow.name).target


Named = TypeVar("Named", Cluster, Topic, Flow, Mirror)


def by_name(items: Iterable[Named]) -> Mapping[str, Named]:
    return MappingProxyType({item.name: item for item in items})


def clusters_in(wave: RolloutWave, topology: Topology) -> list[str]:
    """With repetitions if a cluster is named by its region and by itself."""
    of_regions = [cluster.name for cluster in topology.clusters.values() if cluster.region in wave.regions]
    return [*of_regions, *wave.clusters]
