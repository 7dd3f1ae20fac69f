"""Values of ``cutover``: the state of both clusters at the time of the plan, the plan, and the ends of its steps.

Origin and destination as in ``failover``. Offsets are positions. Names in ``_s`` are seconds, names in ``_ms``
milliseconds since 1970.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.errors import ExitCode
from reconciler.model.environment.rollout import Gates
from reconciler.model.principals import AclBinding
from reconciler.model.reports.failover import FailoverCheck, FailoverStep, Level, StepResult
from reconciler.replication.json_codec import SPARSE


class CutoverStep(StrEnum):
    """In the order of execution. The names are stable."""

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
    """Limits and choices of a cut-over. The saved plan keeps them, so apply uses the reviewed ones."""

    hold_s: float = 5.0
    """How long ends must stay still before the fence counts as verified."""
    within_s: float = 60.0
    """Limit for producers to stop, and then for the flow to catch up."""
    catch_up_s: float = 30.0
    """Limit for groups with members to read the rest."""
    clients_s: float = 600.0
    """Limit for clients to appear at the destination."""
    opens: bool = False
    """The fence is removed in the end."""
    aborts: bool = False
    """Transactions that outlast ``within_s`` are aborted."""
    soak_s: float = field(default=0.0, metadata=SPARSE)
    """How long gates must hold before the cut-over is over and the flow's next one may begin; 0: gates are not
    checked."""


@dataclass(frozen=True, slots=True)
class ProducerSeen:
    """An active producer of one partition of the origin, at the time of the plan."""

    topic: str
    partition: int
    producer_id: int
    last_ms: int
    """Timestamp of its last record."""
    open_from: int = -1
    """First offset of its open transaction, -1 without one."""
    transactional_id: str = ""
    """Empty: it has none, or we may not see it."""

    @property
    def words(self) -> str:
        return self.transactional_id or f"producer {self.producer_id}"


@dataclass(frozen=True, slots=True)
class TopicSeen:
    """A topic of the origin at the time of the plan. ``rate``, ``copy_rate``: offsets a second that producers wrote and
    the flow copied meanwhile."""

    topic: str
    copy: str
    """Its name at the destination."""
    topic_id: str
    """A topic that was recreated since is another one, and makes the plan stale."""
    partitions: int
    left: int | None
    """Uncopied offsets, None if unknown."""
    rate: float
    copy_rate: float
    writers: tuple[str, ...] = ()
    """Principals that access rules let write."""
    producers: tuple[ProducerSeen, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberSeen:
    client_id: str
    host: str


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A group at the time of the plan, or as a run left it. ``again``, ``missed``: upper bounds in records, None if
    unknown."""

    group: str
    kind: str
    members: tuple[MemberSeen, ...]
    offsets: int
    """Number of offsets to set."""
    again: int | None
    missed: int | None
    exact: bool
    """Both bounds are exact."""
    there: int
    """Members at the destination."""
    note: str = ""
    """Why its offsets would not be as they should."""


@dataclass(frozen=True, slots=True)
class FenceChosen:
    """``rules``: deny rules against producers; empty with an ``obstacle``, the reason why no fence is possible.
    ``spared``: principals of mirrors that go on writing, where the rules name each producer."""

    rules: frozenset[AclBinding] = frozenset()
    spared: tuple[str, ...] = ()
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """``rollback``: what reverts the step, and until when."""

    name: CutoverStep
    text: str
    rollback: str


@dataclass(frozen=True, slots=True)
class CutoverPlan:
    """A cut-over of a flow or of some of its topics, as it is reviewed. The expressions are as given, empty for all."""

    environment: str
    flow: str
    origin: str
    destination: str
    topics_expression: str
    """Topics of the origin, by whole names."""
    groups_expression: str
    settings: CutoverSettings
    """Limits and choices, which apply uses as they were reviewed."""
    made_ms: int
    clusters: Mapping[str, str]
    """Alias -> cluster id at the time of the plan."""
    flow_digest: str
    """Of the flow in git."""
    topics: tuple[TopicSeen, ...]
    groups: tuple[GroupSeen, ...]
    unsupported: Mapping[str, str]
    """Group -> why its state is more than offsets."""
    fence: FenceChosen
    """Fixed here, so that reviewers see each deny rule."""
    started: str
    """The flow back that the cut-over starts, or empty."""
    checks: tuple[FailoverCheck, ...]
    """The worst first; one that stops makes the plan unusable."""
    steps: tuple[PlannedStep, ...]
    stop_s: float | None
    """Estimated time of refused writes, without the time that groups and clients take; None if unknown."""
    shared: tuple[str, ...] = ()
    """Topics of the destination that other flows write, too: their ends do not show whose records are new."""
    hooks: Mapping[str, str] = field(default_factory=dict)
    """Step -> the exact call, with secrets as references."""
    probe: str = ""
    """The principal whose writes test the fence; empty if the origin has no ``principals.probe``."""
    lifts: bool = field(default=False, metadata=SPARSE)
    """Deny rules keep the copies on the destination read-only; the cut-over removes them for the clients."""
    gates: Gates | None = field(default=None, metadata=SPARSE)
    """Gates before the cut-over, and for ``settings.soak_s`` after it; None without a soak."""

    @property
    def whole(self) -> bool:
        """It moves all topics of the flow, so it pauses the flow and starts the way back."""
        return not self.topics_expression

    @property
    def blocked(self) -> bool:
        return any(check.level is Level.STOPS for check in self.checks)

    @property
    def exit_code(self) -> ExitCode:
        """3: blocked; 2: there are steps to take; 0: no topic is chosen."""
        if self.blocked:
            return ExitCode.BLOCKED
        return ExitCode.CHANGES if self.topics else ExitCode.DONE

    @property
    def names(self) -> frozenset[str]:
        return frozenset(topic.topic for topic in self.topics)


@dataclass(frozen=True, slots=True)
class CutoverReport:
    """The result of ``cutover apply`` or ``rollback``."""

    command: str
    plan: CutoverPlan
    steps: tuple[FailoverStep, ...]
    findings: tuple[str, ...] = ()
    """Facts for the reader, such as records behind the fence."""
    groups: tuple[GroupSeen, ...] = ()
    """As in the plan, with the offsets that were set."""
    stopped_s: float | None = None
    """Time from the first refused write on the origin to the first client at the destination, or to now; None without a
    fence."""
    seconds: float = 0.0
    own: Mapping[str, int] = field(default_factory=dict)
    """At a rollback: ``topic-partition`` of the destination -> records of its own."""
    untouched: bool = False
    """This plan, with its earlier runs, has changed neither cluster nor client."""

    @property
    def failed(self) -> FailoverStep | None:
        return next((step for step in self.steps if step.result is StepResult.FAILED), None)
