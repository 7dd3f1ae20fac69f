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
    """Topics of the canary. ``topic`` on the origin, ``copy`` on the destination. ``written``: the topic of the
    destination into which the canary's client writes there, empty if it must not write. ``back``: the flow that carries
    ``written`` to the origin, as ``returned``; empty if none does. ``note``: what is not rehearsed, and why."""

    topic: str
    copy: str
    written: str = ""
    returned: str = ""
    back: str = ""
    note: str = ""

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
    """``strange``: records of others in the canary's topics. ``compared``: records compared on both sides,
    ``different`` of them unequal."""

    written: int = 0
    read_once: int = 0
    doubled: int = 0
    missing: int = 0
    strange: int = 0
    compared: int = 0
    different: int = 0

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
    """``drill``: its identifier, which its records carry. ``recovery_s``: from the beginning of the failover until the
    group had read a record written at the destination (or everything copied, if none is written there); ``back_s``:
    from the beginning of the way back until it had read a record at the origin again. ``failure``: why it did not end.
    ``left``: what could not be reverted then."""

    environment: str
    flow: str
    origin: str
    destination: str
    group: str
    places: DrillPlaces
    drill: str
    who: str
    host: str
    commit: str
    dirty: bool
    began_ms: int
    ended_ms: int
    steps: tuple[FailoverStep, ...] = ()
    back_steps: tuple[FailoverStep, ...] = ()
    recovery_s: float | None = None
    back_s: float | None = None
    point: RecoveryPoint | None = None
    positions: tuple[GroupSeen, ...] = ()
    records: CanaryRecords = field(default_factory=CanaryRecords)
    objectives: tuple[ObjectiveSeen, ...] = ()
    findings: tuple[str, ...] = ()
    failure: str = ""
    left: tuple[str, ...] = ()

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
