"""The declared environment: fields of clusters, topics, flows and mirrors as YAML gives them, frozen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeVar

from reconciler.errors import NOWHERE, Where
from reconciler.model.acls import AccessRule
from reconciler.model.environment.hooks import CutoverHook
from reconciler.model.environment.rollout import Rollout, RolloutWave
from reconciler.model.environment.webhooks import Webhook
from reconciler.model.quotas import Quota
from reconciler.model.replicas import ReassignmentPace
from reconciler.model.users import ScramUser
from reconciler.replication import handover
from reconciler.replication.expressions.added_headers import AddedHeader
from reconciler.replication.expressions.record_filter import Where as Selection
from reconciler.replication.groups import EXCLUDED_GROUPS
from reconciler.replication.handover import ChannelSettings, Deployment, Naming, Start
from reconciler.replication.json_codec import SPARSE

# MirrorMaker 2's DefaultConfigPropertyFilter, config.properties.exclude (MirrorMaker 2.4 to 4.3)
MM2_CONFIG_EXCLUDE = (
    r"follower\.replication\.throttled\.replicas",
    r"leader\.replication\.throttled\.replicas",
    r"message\.timestamp\.difference\.max\.ms",
    r"message\.timestamp\.type",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
)


@dataclass(frozen=True, slots=True)
class ConfigSync:
    """MirrorMaker 2's topic config sync. ``use_defaults_from`` is ``target`` or ``source`` (KIP-894).

    ``carry_undeclared_limits``: also an undeclared lower limit of the source, without asking each time.
    """

    enabled: bool = True
    exclude: tuple[str, ...] = MM2_CONFIG_EXCLUDE
    use_defaults_from: str = "target"
    carry_undeclared_limits: bool = field(default=False, metadata=SPARSE)


GROUPS_INTERVAL_MS = 3_000


@dataclass(frozen=True, slots=True)
class Groups:
    """Which consumer groups travel with a flow. ``exclude`` is MirrorMaker 2's unless written.

    ``follow_rewinds``: a group that goes back at the source goes back at the target, too. ``both_ways``: of a flow that
    keeps offsets, what groups commit on the target is kept on the source, too.
    """

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = EXCLUDED_GROUPS
    sync_offsets: bool = False
    interval_ms: int = GROUPS_INTERVAL_MS
    follow_rewinds: bool = False
    both_ways: bool = field(default=False, metadata=SPARSE)


@dataclass(frozen=True, slots=True)
class MirrorMakerTopics:
    """MirrorMaker 2's own internal topics, for tools built for it; checkpoints come with synced groups, the others only
    when asked for.

    ``heartbeats``: interval in ms, or None. ``offset_syncs``: ``source`` or ``target``, where they lie, or None.
    ``internal_separator``: KIP-949, names before 3.1 when False.
    """

    heartbeats: int | None = None
    offset_syncs: str | None = None
    internal_separator: bool = True


class OffsetsKept(StrEnum):
    """What the offsets of copies are. TRANSLATED: the target's own, and the offset map translates between them. SAME:
    record 4711 of the source is record 4711 of the copy."""

    TRANSLATED = handover.TRANSLATED
    SAME = handover.SAME


class CopyMode(StrEnum):
    """Who may write remote topics of a flow, as far as rules decide it. READ_ONLY: the mirror alone. WRITABLE: whom
    the cluster's rules allow; rules that READ_ONLY made are taken back."""

    READ_ONLY = "read_only"
    WRITABLE = "writable"


@dataclass(frozen=True, slots=True)
class Objectives:
    """What drills of a flow are measured against, in milliseconds; None: not declared. ``rto_ms``: until a group has
    read a record that was written at the target. ``rpo_ms``: age of the oldest record that is not copied.
    ``drill_every_ms``: the longest time between two drills that met both."""

    rto_ms: int | None = None
    rpo_ms: int | None = None
    drill_every_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AccessSync:
    """Flow-derived access: who may read a source topic may read its remote topic. ``groups``: also its group rules.

    ``principals``: a principal's name on the source -> its name on the target, where it differs.
    """

    enabled: bool = False
    groups: bool = False
    principals: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class Principal(StrEnum):
    """Who speaks to a cluster: settings of ``principals.<name>`` lie over ``client``."""

    PLAN = "plan"
    APPLY = "apply"
    MIRROR = "mirror"
    PROBE = "probe"


OURS = (Principal.PLAN, Principal.APPLY, Principal.MIRROR)
"""Without PROBE: an application's login, with which a cut-over asks whether its fence holds, and nothing else."""


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
    """What becomes of an override that is set on a topic and that no file declares. DRIFT: it counts as a difference
    and stays; REMOVE: it is removed."""

    IGNORE = "ignore"
    DRIFT = "drift"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """One layer of values: of the environment, a class, a cluster, or a topic itself.

    ``lower_retention_by``: config -> the most that one apply may lower it by. ``undeclared`` None: a weaker layer
    decides, and in the end it is ``ignore``.
    """

    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=_nothing)
    lower_retention_by: Mapping[str, str] = field(default_factory=_nothing)
    undeclared: Undeclared | None = field(default=None, metadata=SPARSE)
    where: Where = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Cluster:
    """``client`` and ``principals`` hold librdkafka settings with secrets still as ``${env:}``/``${file:}``.

    ``prune_topics``: whole-name expressions of topics this environment may delete there when nothing asks for them.
    ``not_contacted``: what changed in its connection since the base, where no credentials may follow; else empty.
    ``listable``: the words of RECONCILER_ALLOW that would allow all of it; empty where none do.
    ``service``: who runs it, see ``services``; empty: as its addresses say.
    """

    name: str
    bootstrap_servers: tuple[str, ...]
    cluster_id: str | None = None
    region: str | None = None
    client: Mapping[str, str] = field(default_factory=_nothing)
    principals: Mapping[Principal, Mapping[str, str]] = field(default_factory=_nothing)
    defaults: TopicDefaults = TopicDefaults()
    prune_topics: tuple[str, ...] = ()
    reassignment: ReassignmentPace = field(default_factory=ReassignmentPace)
    service: str = field(default="", metadata=SPARSE)
    where: Where = field(default=NOWHERE, compare=False)
    not_contacted: str = field(default="", compare=False)
    listable: tuple[str, ...] = field(default=(), compare=False)

    def client_for(self, principal: Principal) -> dict[str, str]:
        return {**self.client, **self.principals.get(principal, {})}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic desired on each cluster in ``clusters``. ``None`` means: a weaker layer decides.

    ``class_name``: an entry of ``Rules.classes``, or empty.
    """

    name: str
    clusters: tuple[str, ...]
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=_nothing)
    labels: Mapping[str, str] = field(default_factory=_nothing)
    class_name: str = ""
    lower_retention_by: Mapping[str, str] = field(default_factory=_nothing)
    undeclared: Undeclared | None = field(default=None, metadata=SPARSE)
    where: Where = field(default=NOWHERE, compare=False)


class Delivery(StrEnum):
    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


class Isolation(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Carry(StrEnum):
    """Which records a flow with provenance carries. LOCAL: those written at its source. FORWARD: also those that came
    there from other clusters, unless they have been at the target."""

    LOCAL = "local"
    FORWARD = "forward"


@dataclass(frozen=True, slots=True)
class Flow:
    """Topics of ``source`` whose whole name matches one of ``topics`` are mirrored to ``target``.

    ``rate_limit``: bytes per second. ``on_condition``: condition -> ``continue``; what it does not name stops.
    Record work, which costs the whole-batch copy: ``selection`` (``where`` in YAML), ``headers`` that are added,
    ``provenance``. ``copies`` None: nothing is looked at for it. ``filler_limit``: of a flow that keeps offsets, the
    most empty offsets that a partition of a new copy may be begun with; None:
    ``replication.offsets.same.FILLER_LIMIT``. ``moved_from``: not of its entry but of ``moved``: the first name of a
    flow that was renamed.
    """

    name: str
    source: str
    target: str
    topics: tuple[str, ...]
    exclude_topics: tuple[str, ...] = ()
    naming: Naming = field(default_factory=Naming)
    replication_factor: int | None = None
    delivery: Delivery = Delivery.EXACTLY_ONCE
    isolation: Isolation = Isolation.READ_COMMITTED
    start: Start = field(default_factory=Start)
    lanes: int = 2
    rate_limit: int | None = None
    on_condition: Mapping[str, str] = field(default_factory=_nothing)
    configs: ConfigSync = field(default_factory=ConfigSync)
    groups: Groups = field(default_factory=Groups)
    access: AccessSync = field(default_factory=AccessSync)
    copies: CopyMode | None = field(default=None, metadata=SPARSE)
    mirrormaker_topics: MirrorMakerTopics = field(default_factory=MirrorMakerTopics)
    selection: Selection | None = None
    headers: tuple[AddedHeader, ...] = ()
    provenance: Carry | None = None
    offsets: OffsetsKept = field(default=OffsetsKept.TRANSLATED, metadata=SPARSE)
    filler_limit: int | None = field(default=None, metadata=SPARSE)
    moved_from: str = field(default="", metadata=SPARSE)
    objectives: Objectives | None = field(default=None, metadata=SPARSE)
    labels: Mapping[str, str] = field(default_factory=_nothing)
    where: Where = field(default=NOWHERE, compare=False)

    @property
    def state_name(self) -> str:
        """The name that its positions, transactional ids, offset map and pauses have on its target (decision 127)."""
        return self.moved_from or self.name

    @property
    def read_only(self) -> bool:
        return self.copies is CopyMode.READ_ONLY

    @property
    def keeps_offsets(self) -> bool:
        return self.offsets is OffsetsKept.SAME

    @property
    def record_work(self) -> tuple[str, ...]:
        """What keeps its batches from travelling whole, in the YAML's words."""
        asked = {"where": self.selection, "headers": self.headers or None, "provenance": self.provenance}
        return tuple(word for word, desired in asked.items() if desired is not None)


SPARK_SECRET = "spark.authenticate.secret"  # noqa: S105  # a name
"""What a standalone cluster, its workers and its applications know each other by; a reference in ``spark_conf``."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """One Spark application. ``flows`` are names; by default every flow whose target is the mirror's name.

    ``metrics_port`` 0: the job serves no metrics. ``verify_conf``: Spark settings of ``verify`` alone, over the others.
    ``hosted``: mirror hosts keep it running.
    """

    name: str
    flows: tuple[str, ...]
    master: str = "local[2]"
    parallelism: int = 2
    spark_conf: Mapping[str, str] = field(default_factory=_nothing)
    refresh_interval_ms: int = 5_000
    status_interval_ms: int = 2_000
    metrics_port: int = 0
    metrics_host: str = "127.0.0.1"
    deployment: Deployment = field(default=Deployment(), metadata=SPARSE)
    verify_conf: Mapping[str, str] = field(default_factory=_nothing, metadata=SPARSE)
    channel: ChannelSettings | None = field(default=None, metadata=SPARSE)
    hosted: bool = field(default=False, metadata=SPARSE)
    where: Where = field(default=NOWHERE, compare=False)

    @property
    def unauthenticated(self) -> bool:
        """Its Spark cluster lets in anyone who reaches it, as far as this environment says. YARN, Kubernetes and local
        masters make a secret for each application."""
        declared = self.spark_conf.get("spark.authenticate", "true" if SPARK_SECRET in self.spark_conf else "false")
        return self.master.startswith("spark://") and declared != "true"


UNAUTHENTICATED = (
    "anyone who reaches the ports of its Spark master, workers or driver can run code there, "
    "and read what the job reads"
)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Deletes a topic: written, dated, and bound to the one topic that has ``topic_id``.

    ``expires``: the last day (UTC, ISO 8601) on which it counts. ``expired``: that day was over when it was read.
    """

    cluster: str
    topic: str
    topic_id: str
    reason: str
    expires: str
    where: Where = field(default=NOWHERE, compare=False)
    expired: bool = field(default=False, compare=False)

    @property
    def ref(self) -> TopicRef:
        return TopicRef(self.cluster, self.topic)


@dataclass(frozen=True, slots=True)
class Rename:
    """An entry of ``moved``: what ``name`` names was ``before``. ``kind``: flow, environment, or topic, which is always
    refused."""

    kind: str
    name: str
    before: str
    where: Where = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Protection:
    """Topics whose whole name ``pattern`` matches are never deleted, on any cluster."""

    pattern: str
    where: Where = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ShrinkLimit:
    """How much may go at once unasked: a loss is too large when it is more than ``percent`` and at least ``least``."""

    percent: int = 20
    least: int = 5


@dataclass(frozen=True, slots=True)
class AuditTopic:
    """A topic that gets a copy of every audit line. ``cluster`` empty: where the environment's lock is kept."""

    topic: str
    cluster: str = ""
    where: Where = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Rules:
    """What counts for the whole environment: values for its topics, and what must not be lost. ``docs_url``: where the
    pages of this project are read, so that runbooks are links."""

    defaults: TopicDefaults = TopicDefaults()
    classes: Mapping[str, TopicDefaults] = field(default_factory=_nothing)
    protected: tuple[Protection, ...] = ()
    shrink_limit: ShrinkLimit = ShrinkLimit()
    audit: AuditTopic | None = None
    docs_url: str = field(default="", metadata=SPARSE)
    webhooks: tuple[Webhook, ...] = field(default=(), metadata=SPARSE)


@dataclass(frozen=True, slots=True)
class Topology:
    """One environment folder. Mappings are keyed by name, in the order of the files.

    ``*_declared``: the section is written, perhaps empty, so that what left it is looked for.
    """

    environment: str
    clusters: Mapping[str, Cluster]
    topics: Mapping[str, Topic]
    flows: Mapping[str, Flow]
    mirrors: Mapping[str, Mirror]
    deletions: tuple[Tombstone, ...] = ()
    access: tuple[AccessRule, ...] = ()
    access_declared: bool = False
    rules: Rules = Rules()
    quotas: tuple[Quota, ...] = ()
    quotas_declared: bool = False
    users: tuple[ScramUser, ...] = ()
    users_declared: bool = False
    rollout: Rollout | None = field(default=None, metadata=SPARSE)
    hooks: Mapping[str, CutoverHook] = field(default_factory=_nothing, metadata=SPARSE)
    """Of cut-overs, by step."""
    moved_from: tuple[str, ...] = field(default=(), metadata=SPARSE)
    """Names that the environment had, by ``moved``: flows that it began under them are its own."""
    lock_home: str = field(default="", compare=False)
    """Not from git: the cluster where a session found the lock; empty before it looked (decision 107)."""

    @property
    def clusters_alone(self) -> bool:
        """Whether it declares nothing that could change a cluster or a job, as the folder of a mirror host."""
        entries = (self.topics, self.flows, self.mirrors, self.deletions)
        return not (any(entries) or self.access_declared or self.quotas_declared or self.users_declared)

    def flows_of(self, mirror: Mirror) -> tuple[Flow, ...]:
        return tuple(self.flows[name] for name in mirror.flows)

    def audit_place(self) -> TopicRef | None:
        audit = self.rules.audit
        return TopicRef(audit.cluster or min(self.clusters), audit.topic) if audit else None

    def arriving(self, flow: Flow) -> tuple[Flow, ...]:
        """Flows with provenance into the source of a flow with provenance: whose copies it must know."""
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
    """With repetitions, where a cluster is named by its region and by itself."""
    of_regions = [cluster.name for cluster in topology.clusters.values() if cluster.region in wave.regions]
    return [*of_regions, *wave.clusters]
