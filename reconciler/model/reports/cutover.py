"""Values of ``cutover``: what a plan saw on both clusters, the plan, and how its steps ended.

Origin and destination as in ``failover``. Offsets are positions; times are seconds where the name ends in ``_s``,
milliseconds since 1970 where it ends in ``_ms``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.model.acls import AclBinding
from reconciler.model.environment.rollout import Gates
from reconciler.model.reports.failover import FailoverCheck, FailoverStep, Level, StepResult
from reconciler.replication.json_codec import SPARSE


class CutoverStep(StrEnum):
    """In the order in which they are carried out. Stable names."""

    BEFORE = "before"
    FENCE = "fence"
    VERIFY_FENCE = "verify-fence"
    DRAIN = "drain"
    PAUSE = "pause"
    GROUPS = "groups"
    LIFT = "lift"
    SWITCH = "switch"
    CLIENTS = "clients"
    TAIL = "tail"
    START = "start"
    UNFENCE = "unfence"
    AFTER = "after"
    SOAK = "soak"


class RollbackStep(StrEnum):
    """As ``CutoverStep``, of a rollback. HOLD: the way back is paused again. RESUME: the flow copies again. RESTORE:
    its copies are read-only again."""

    GROUPS = "groups-back"
    HOLD = "hold-back"
    RESUME = "resume"
    RESTORE = "restore"
    UNFENCE = "unfence"


@dataclass(frozen=True, slots=True)
class CutoverSettings:
    """``hold_s``: how long ends must not move before the fence counts as verified. ``within_s``: how long producers may
    take to be off, and then the flow to catch up. ``catch_up_s``: how long groups with members may take to read the
    rest. ``clients_s``: how long clients are waited for at the destination. ``opens``: the fence is taken back in the
    end. ``aborts``: transactions that outlast ``within_s`` are aborted. ``soak_s``: how long gates must hold before the
    cut-over is over, and the next one of the flow may begin; 0: they are not looked at."""

    hold_s: float = 5.0
    within_s: float = 60.0
    catch_up_s: float = 30.0
    clients_s: float = 600.0
    opens: bool = False
    aborts: bool = False
    soak_s: float = field(default=0.0, metadata=SPARSE)


@dataclass(frozen=True, slots=True)
class ProducerSeen:
    """``last_ms``: timestamp of its last record. ``open_from``: first offset of its open transaction, -1 for none.
    ``transactional_id`` empty: it has none, or none that we may see."""

    topic: str
    partition: int
    producer_id: int
    last_ms: int
    open_from: int = -1
    transactional_id: str = ""

    @property
    def words(self) -> str:
        return self.transactional_id or f"producer {self.producer_id}"


@dataclass(frozen=True, slots=True)
class TopicSeen:
    """``copy``: its name at the destination. ``left``: offsets not copied, None where it is not known. ``rate``,
    ``copy_rate``: offsets a second that were written and copied while the plan looked. ``writers``: principals that
    may write by access rules."""

    topic: str
    copy: str
    topic_id: str
    partitions: int
    left: int | None
    rate: float
    copy_rate: float
    writers: tuple[str, ...] = ()
    producers: tuple[ProducerSeen, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberSeen:
    client_id: str
    host: str


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """``offsets``: how many are set. ``again``, ``missed``: records, at most, None where it is not known. ``exact``:
    both are exact. ``there``: members at the destination. ``note``: why its offsets would not be as they should."""

    group: str
    kind: str
    members: tuple[MemberSeen, ...]
    offsets: int
    again: int | None
    missed: int | None
    exact: bool
    there: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class FenceChosen:
    """``rules``: the rules that keep producers off; empty with an ``obstacle``, which says why there is no
    fence. ``spared``: principals of mirrors that go on writing, where rules name the producers one by one."""

    rules: frozenset[AclBinding] = frozenset()
    spared: tuple[str, ...] = ()
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """``rollback``: what takes it back, and until when."""

    name: CutoverStep
    text: str
    rollback: str


@dataclass(frozen=True, slots=True)
class CutoverPlan:
    """The expressions are as given, empty for all. ``flow_digest``: of what git says of the flow. ``unsupported``:
    group -> why its state is more than offsets. ``started``: the flow back that is started, or empty. ``stop_s``: the
    estimated time in which writes are refused, without what groups and clients take; None where it is not known."""

    environment: str
    flow: str
    origin: str
    destination: str
    topics_expression: str
    groups_expression: str
    settings: CutoverSettings
    made_ms: int
    clusters: Mapping[str, str]
    flow_digest: str
    topics: tuple[TopicSeen, ...]
    groups: tuple[GroupSeen, ...]
    unsupported: Mapping[str, str]
    fence: FenceChosen
    started: str
    checks: tuple[FailoverCheck, ...]
    steps: tuple[PlannedStep, ...]
    stop_s: float | None
    shared: tuple[str, ...] = ()
    """Topics of the destination that other flows write, too: its ends do not say whose records are new."""
    hooks: Mapping[str, str] = field(default_factory=dict)
    """Step -> the exact call, with references to secrets as they are written."""
    probe: str = ""
    """Whose writes are tried to verify the fence; empty where the origin has no ``principals.probe``."""
    lifts: bool = field(default=False, metadata=SPARSE)
    """Deny rules keep the copies read-only on the destination, and are taken back for the clients."""
    gates: Gates | None = field(default=None, metadata=SPARSE)
    """What must hold before it, and for ``settings.soak_s`` after it; None where it has no soak."""

    @property
    def whole(self) -> bool:
        """All topics of the flow: it is paused as a whole, and the way back is started."""
        return not self.topics_expression

    @property
    def blocked(self) -> bool:
        return any(check.level is Level.STOPS for check in self.checks)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(topic.topic for topic in self.topics)


@dataclass(frozen=True, slots=True)
class CutoverReport:
    """How a run of ``cutover apply`` or ``rollback`` ended. ``findings``: what its reader must know, such as records
    that were written behind the fence. ``stopped_s``: how long writes were refused on the origin before clients were
    seen at the destination, or until now; None where the fence is not in force. ``groups``: as the plan's, as they were
    set."""

    command: str
    plan: CutoverPlan
    steps: tuple[FailoverStep, ...]
    findings: tuple[str, ...] = ()
    groups: tuple[GroupSeen, ...] = ()
    stopped_s: float | None = None
    seconds: float = 0.0
    own: Mapping[str, int] = field(default_factory=dict)
    """At a rollback: ``topic-partition`` of the destination -> records of its own."""
    untouched: bool = False
    """By all that this plan has done, earlier runs among it, neither cluster nor client is changed."""

    @property
    def failed(self) -> FailoverStep | None:
        return next((step for step in self.steps if step.result is StepResult.FAILED), None)
