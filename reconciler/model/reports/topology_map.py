"""The map of an environment: clusters as nodes, flows as edges, a plan's effect on them, and waves. Frozen values.

None and ``State.UNKNOWN`` mean not read or no answer; they are never zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from reconciler.model.environment.rollout import Gates

NOT_LOOKED_AT = "not looked at"
"""What a flow says before its job was asked."""


class State(StrEnum):
    """State of a cluster or flow, as in the verdict. IDLE: a flow that is paused, or whose job the plan starts
    first."""

    OK = "ok"
    PROBLEM = "problem"
    IDLE = "idle"
    UNKNOWN = "unknown"


class PlanMark(StrEnum):
    """A plan's effect on a cluster or flow. The worst one counts: ``MARKS`` has their order."""

    UNKNOWN = "unknown"
    BLOCKED = "blocked"
    REMOVED = "removed"
    RESTARTING = "restarting"
    CHANGED = "changed"
    ADDED = "added"


MARKS = tuple(PlanMark)


def worst_mark(marks: frozenset[PlanMark]) -> PlanMark | None:
    return next((mark for mark in MARKS if mark in marks), None)


@dataclass(frozen=True, slots=True)
class PlannedCounts:
    """A plan's effect on one cluster: numbers of changes by their sign (``Action``), of refusals and unknowns."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    high_risk: int = 0
    blocked: int = 0
    unknown: int = 0

    @property
    def marks(self) -> frozenset[PlanMark]:
        counts = {
            PlanMark.ADDED: self.added,
            PlanMark.CHANGED: self.changed,
            PlanMark.REMOVED: self.removed,
            PlanMark.BLOCKED: self.blocked,
            PlanMark.UNKNOWN: self.unknown,
        }
        return frozenset(mark for mark, count in counts.items() if count)


@dataclass(frozen=True, slots=True)
class MapCluster:
    """A node of the map."""

    name: str
    region: str
    """Empty: not declared."""
    declared: int
    """Number of topics in git."""
    state: State = State.UNKNOWN
    brokers: int | None = None
    topics: int | None = None
    """Live ones that are not internal and that the principal may see."""
    problems: tuple[str, ...] = ()
    """Why ``state`` is not OK, in words."""
    planned: PlannedCounts | None = None
    """None: the map shows no plan."""
    outside: int | None = None
    """Changes on the cluster that no apply made, by the plan."""
    wave: str = ""

    @property
    def mark(self) -> PlanMark | None:
        return worst_mark(self.planned.marks) if self.planned is not None else None


@dataclass(frozen=True, slots=True)
class MapFlow:
    """An edge of the map. Rates are per second; a lag is the present one, None if unknown; ``lag_at_least`` is then its
    known part."""

    name: str
    source: str
    target: str
    mirror: str
    """The application that carries it."""
    delivery: str
    state: State = State.UNKNOWN
    said: str = NOT_LOOKED_AT
    """The job's word for the state."""
    topics: int | None = None
    """Number that travel."""
    records_per_second: float | None = None
    bytes_per_second: float | None = None
    records_lag: int | None = None
    """Source offsets without a committed copy."""
    seconds_lag: float | None = None
    """Age of the oldest record that was read and not committed."""
    lag_at_least: int = 0
    conditions: int | None = None
    """None: not read."""
    mark: PlanMark | None = None
    """The plan's effect on it; None without a plan, or without an effect."""
    plan_why: tuple[str, ...] = ()
    """The plan's words on the flow."""
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """As declared, for those who look for their own flows."""
    offsets: str = "translated"
    """``translated``, or ``same`` if copies keep the source's."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Topics that travel over several flows: ``clusters`` in the order of travel, one more than ``flows``."""

    clusters: tuple[str, ...]
    flows: tuple[str, ...]
    topics: int


@dataclass(frozen=True, slots=True)
class MapWave:
    """A wave of the rollout on the map."""

    name: str
    clusters: tuple[str, ...]
    soak_ms: int
    changes: int | None = None
    """None: the map shows no plan."""
    state: str = ""
    """``not begun``, ``begun``, ``soaking``, ``passed`` or ``unknown``; empty: not read."""


@dataclass(frozen=True, slots=True)
class TopologyMap:
    """Everything that a map shows, whatever draws it."""

    environment: str
    clusters: tuple[MapCluster, ...]
    flows: tuple[MapFlow, ...]
    chains: tuple[Chain, ...] | None = None
    """None: nothing shows which topics travel."""
    waves: tuple[MapWave, ...] = ()
    gates: Gates | None = None
    live: bool = False
    """Clusters and jobs were asked."""
    planned: bool = False
    """The map shows a plan, and ``verdict`` is the plan's."""
    verdict: str = ""
