"""Values of ``drill``: the places of its canary, its measurements, and the report.

Origin and destination as in ``failover``. Names in ``_s`` are seconds, names in ``_ms`` milliseconds since 1970.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.errors import ExitCode
from reconciler.model.reports.cutover import GroupSeen
from reconciler.model.reports.failover import FailoverStep


class BackStep(StrEnum):
    """The way back of a drill, in order. The names are stable."""

    DRAIN = "drain-back"
    GROUPS = "groups-back"
    RESUME = "resume"
    RESTORE = "restore"
    UNFENCE = "unfence"
    CLIENT = "client-back"
    COMPARE = "compare"


@dataclass(frozen=True, slots=True)
class DrillPlaces:
    """Topics of the canary. ``topic`` on the origin, ``copy`` on the destination."""

    topic: str
    copy: str
    written: str = ""
    """The topic of the destination into which the canary's client writes there, empty if it must not write."""
    returned: str = ""
    back: str = ""
    """The flow that carries ``written`` to the origin, as ``returned``; empty if none does."""
    note: str = ""
    """What is not rehearsed, and why."""

    @property
    def here(self) -> tuple[str, ...]:
        """Topics that the group reads on the origin."""
        return tuple(dict.fromkeys(filter(None, (self.topic, self.returned))))

    @property
    def there(self) -> tuple[str, ...]:
        """Topics that the group reads on the destination."""
        return tuple(dict.fromkeys(filter(None, (self.copy, self.written))))


@dataclass(frozen=True, slots=True)
class RecoveryPoint:
    """The loss of records if the origin had failed at the worst of the observed moments: accepted but uncopied records,
    and the age of the oldest."""

    records: int = 0
    age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class CanaryRecords:
    """Counts of a drill's own records. Each of them should be read once, over both clusters together."""

    written: int = 0
    """Accepted by a broker, on either cluster."""
    read_once: int = 0
    """By the canary's group, on both clusters together; ``doubled``: more than once; ``missing``: never."""
    doubled: int = 0
    missing: int = 0
    strange: int = 0
    """Records of others in the canary's topics."""
    compared: int = 0
    """Records compared on both sides, ``different`` of them unequal."""
    different: int = 0
    """Of the compared ones, those whose bytes differ."""

    @property
    def proved(self) -> bool:
        """Each record was read once, and is the same on both sides."""
        return bool(self.written and self.compared) and not (self.doubled or self.missing or self.different)


@dataclass(frozen=True, slots=True)
class ObjectiveSeen:
    """``name``: rto or rpo. None: not declared, or not measured."""

    name: str
    declared_s: float | None
    measured_s: float | None

    @property
    def missed(self) -> bool:
        return self.declared_s is not None and (self.measured_s is None or self.measured_s > self.declared_s)


class DrillVerdict(StrEnum):
    """MET: every record was read once, positions were exact, and every declared objective was met. MISSED: it ended
    without one of these. FAILED: it did not end."""

    MET = "met"
    MISSED = "missed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class DrillReport:
    """A drill, from its beginning to the last step that it took."""

    environment: str
    flow: str
    origin: str
    destination: str
    group: str
    """The canary's consumer group."""
    places: DrillPlaces
    """The canary's topics and the way back."""
    drill: str
    """Its identifier, which its records carry."""
    who: str
    """The user who ran it, on ``host``."""
    host: str
    commit: str
    """Of the environment's files; ``dirty``: they differed from it."""
    dirty: bool
    began_ms: int
    ended_ms: int
    steps: tuple[FailoverStep, ...] = ()
    """Of the failover; ``back_steps``: of the way back."""
    back_steps: tuple[FailoverStep, ...] = ()
    recovery_s: float | None = None
    """From the beginning of the failover until the group had read a record written at the destination (or everything
    copied, if none is written there)."""
    back_s: float | None = None
    """From the beginning of the way back until it had read a record at the origin again."""
    point: RecoveryPoint | None = None
    """None if the drill ended before it was measured."""
    positions: tuple[GroupSeen, ...] = ()
    """Of the canary's group, as set at the destination."""
    records: CanaryRecords = field(default_factory=CanaryRecords)
    objectives: tuple[ObjectiveSeen, ...] = ()
    """Declared and measured, both in seconds."""
    findings: tuple[str, ...] = ()
    """Facts for readers that decide nothing."""
    failure: str = ""
    """Why it did not end."""
    left: tuple[str, ...] = ()
    """What could not be reverted then."""

    @property
    def exact(self) -> bool:
        return bool(self.positions) and all(
            group.exact and group.again == 0 and group.missed == 0 for group in self.positions
        )

    @property
    def verdict(self) -> DrillVerdict:
        if self.failure:
            return DrillVerdict.FAILED
        missed = any(objective.missed for objective in self.objectives)
        return DrillVerdict.MET if self.records.proved and self.exact and not missed else DrillVerdict.MISSED

    @property
    def exit_code(self) -> ExitCode:
        if self.failure:
            return ExitCode.PARTIAL if self.left else ExitCode.ERROR
        return ExitCode.DONE if self.verdict is DrillVerdict.MET else ExitCode.CHANGES
