"""Report of ``doctor``: questions, answers, findings, and the check that builds the findings of one subject."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.errors import Unknown
from reconciler.model.environment.topology import Principal


class DoctorVerdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of ``doctor``."""

    subject: str
    """A cluster, flow or this machine."""
    check: str
    """A stable word."""
    verdict: DoctorVerdict
    text: str
    why: str = ""
    todo: tuple[str, ...] = ()
    """Lines, often commands."""


@dataclass(frozen=True, slots=True)
class Checkup:
    environment: str
    findings: tuple[Finding, ...]

    def count(self, verdict: DoctorVerdict) -> int:
        return sum(1 for finding in self.findings if finding.verdict is verdict)

    @property
    def exit_code(self) -> int:
        return 1 if self.count(DoctorVerdict.PROBLEM) else 0


@dataclass(frozen=True, slots=True)
class Certificate:
    """A server's certificate: its times in seconds since 1970, and its DNS names and addresses."""

    not_before: int
    not_after: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """One bootstrap server. ``error``: empty if it answered; ``certificate``: only with TLS."""

    server: str
    error: str = ""
    certificate: Certificate | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """The rights of one principal to check on one cluster; no check changes anything there. ``reads``, ``writes``: Read
    and Write on topics that do not exist yet."""

    topics: tuple[str, ...] = ()
    creates: tuple[str, ...] = ()
    """Names of topics to create."""
    groups: tuple[str, ...] = ()
    """Read on these."""
    transactional_ids: tuple[str, ...] = ()
    """Write on these."""
    described: tuple[str, ...] = ()
    """Describe on these groups."""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    markers: bool = False
    """The right to write transaction markers."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of one principal. Other mappings: name -> allowed. A part without an answer is Unknown."""

    principal: Principal
    kafka_principal: str
    """As brokers know it, ``User:name``."""
    server: str
    failed: Unknown | None = None
    """Why it could not even connect."""
    operations: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By existing topic (KIP-430)."""
    denied: frozenset[str] = frozenset()
    """Existing topics that it may not describe: brokers hide them, so these were asked by name."""
    sees_all: bool = False
    """It may describe every topic, so that a missing one does not exist."""
    creates: Mapping[str, bool] | Unknown = field(default_factory=dict)
    groups: Mapping[str, bool] | Unknown = field(default_factory=dict)
    transactional_ids: Mapping[str, bool] | Unknown = field(default_factory=dict)
    described: Mapping[str, bool] | Unknown = field(default_factory=dict)
    reads: Mapping[str, bool] | Unknown = field(default_factory=dict)
    writes: Mapping[str, bool] | Unknown = field(default_factory=dict)
    cluster: frozenset[str] | None = None
    """Operations on the cluster itself, empty without Describe there; None: not asked."""
    markers: bool | Unknown | None = None
    """The right to write transaction markers; None: not asked."""
    granted: str = ""
    """Where, if not by Kafka's rules."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Facts of one cluster, as its plan principal sees them."""

    name: str
    addresses: tuple[Address, ...]
    cluster_id: str | None = None
    brokers: Mapping[int, Mapping[str, str | None]] | Unknown = field(default_factory=dict)
    """Broker id -> its configs."""
    authorizer: bool | Unknown = False
    """Whether it has one; without one every client may do everything."""
    features: Mapping[str, int] | Unknown = field(default_factory=dict)
    """Name -> finalized level."""
    apis: Mapping[str, int] = field(default_factory=dict)
    """Request -> highest version, of the broker that was asked."""
    skew_ms: int | Unknown = 0
    """The active controller's clock minus ours, give or take ``skew_error_ms``."""
    skew_error_ms: int = 0
    quotas: Mapping[str, float] | Unknown = field(default_factory=dict)
    """Entity -> rate of controller_mutation_rate."""
    late: Unknown | None = None
    """Why all of this is unknown."""
    tickets: Mapping[str, str] = field(default_factory=dict)
    """With Kerberos, ``host:port`` as a broker advertises it -> why there is no ticket for it, or empty."""

    @property
    def zookeeper(self) -> bool:
        """Whether its brokers use ZooKeeper: only these offer requests of its controllers (KIP-631)."""
        return "LeaderAndIsr" in self.apis


@dataclass(frozen=True, slots=True)
class SparkMaster:
    """A mirror's Spark master, as it answered."""

    master: str
    reached: str | Unknown
    """How it answers, in words, or why it does not."""
    workers: int = 0
    free_cores: int | Unknown | None = None
    """None: this kind of master is not asked."""
    own_cores: int = 0
    """Cores that the mirror holds now."""
    version: str = ""
    """Spark's, if its page shows it."""


@dataclass(frozen=True, slots=True)
class ExecutorLook:
    """The findings of one executor about its machine. ``problems``: sentences, empty if all is well."""

    host: str
    python: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine on which the mirror job would start."""

    java: int | Unknown
    """Major version, or why it is unusable."""
    spark: str | Unknown
    """Likewise."""
    free_bytes: int | Unknown
    folder: str


@dataclass(frozen=True, slots=True)
class Check:
    """``subject`` and ``name`` as in ``Finding``."""

    subject: str
    name: str

    def ok(self, text: str, why: str = "") -> Finding:
        return self._finding(DoctorVerdict.OK, text, why)

    def warning(self, text: str, why: str, todo: str) -> Finding:
        return self._finding(DoctorVerdict.WARNING, text, why, todo)

    def problem(self, text: str, why: str, todo: str) -> Finding:
        return self._finding(DoctorVerdict.PROBLEM, text, why, todo)

    def unknown(self, text: str, why: str = "", todo: str = "") -> Finding:
        return self._finding(DoctorVerdict.UNKNOWN, text, why, todo)

    def unread(self, part: Unknown, why: str = "") -> Finding:
        return self.unknown(part.error, why, part.todo)

    def _finding(self, verdict: DoctorVerdict, text: str, why: str, todo: str = "") -> Finding:
        return Finding(self.subject, self.name, verdict, text, why, (todo,) if todo else ())
