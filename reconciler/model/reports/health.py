"""Health: of clusters for rollout gates, and of an environment as its verdict, with the figures of one round of
``run``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.errors import Unknown
from reconciler.model.live import LiveMirror
from reconciler.model.replicas import ReassignmentInFlight


@dataclass(frozen=True, slots=True)
class Short:
    """A partition with replicas out of sync."""

    topic: str
    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


def lacks_replicas(short: Short, move: ReassignmentInFlight | None) -> bool:
    """``move``: its running reassignment; a new replica that is still being copied does not count as missing."""
    adding = move.adding if move is not None else ()
    return bool(set(short.replicas) - set(adding) - set(short.isr))


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """Partitions of one cluster that lack replicas, as far as the principal may see."""

    name: str
    brokers: int
    offline: tuple[str, ...] = ()
    """Partitions without a leader, as ``topic-index``."""
    short: tuple[Short, ...] = ()
    """Under-replicated partitions."""


@dataclass(frozen=True, slots=True)
class Sight:
    """One observation, with an entry for every question, answered or unknown."""

    clusters: Mapping[str, ClusterHealth | Unknown]
    mirrors: Mapping[str, LiveMirror | Unknown]


@dataclass(frozen=True, slots=True)
class Fault:
    """An unmet gate. ``subject``: ``cluster east``, ``flow east-to-west``; ``text`` has the figures."""

    gate: str
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}"


class Health(StrEnum):
    """The state of an environment, best first. PAUSED: on request. DEGRADED: copying goes on, and something is wrong.
    UNKNOWN: nothing shows whether records are copied. STOPPED: records that should be copied are not."""

    OK = "OK"
    PAUSED = "PAUSED"
    DEGRADED = "DEGRADED"
    UNKNOWN = "UNKNOWN"
    STOPPED = "STOPPED"


_ORDER = tuple(Health)


def worst(states: Iterable[Health]) -> Health:
    """OK where there are none."""
    return max(states, key=_ORDER.index, default=Health.OK)


@dataclass(frozen=True, slots=True)
class VerdictCause:
    """A reason for a verdict other than OK. ``code``, ``topic``, ``partition``: of a condition."""

    health: Health
    subject: str
    """``cluster east``, ``mirror west``, ``flow east-to-west``."""
    brief: str
    """A few words for a headline."""
    text: str
    """The whole reason, with both values."""
    todo: str = ""
    """The exact command."""
    code: str = ""
    topic: str = ""
    partition: int | None = None
    heals: bool = False
    """Copying resumes by itself once the cause has ended."""

    @property
    def place(self) -> str:
        """``orders 3``; empty if it concerns more than one topic."""
        return self.topic if self.partition is None else f"{self.topic} {self.partition}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One state for all, and why: ``causes``, the worst first."""

    causes: tuple[VerdictCause, ...] = ()

    @classmethod
    def of_all(cls, causes: Iterable[VerdictCause]) -> Verdict:
        return cls(tuple(sorted(causes, key=lambda cause: -_ORDER.index(cause.health))))

    @property
    def health(self) -> Health:
        return worst(cause.health for cause in self.causes)

    def of(self, subject: str) -> Health:
        """Of one cluster, mirror or flow."""
        return worst(cause.health for cause in self.causes if cause.subject == subject)

    def of_each(self, about: str) -> Health:
        """Of everything of a sort: ``cluster``, ``mirror``, ``flow``."""
        return worst(cause.health for cause in self.causes if cause.subject.startswith(f"{about} "))


@dataclass(frozen=True, slots=True)
class Figures:
    """``pending`` and ``done``: by kind of change. Lag: by flow, only if the job reports it now."""

    seconds: float
    succeeded_at: float | None = None
    """Seconds since 1970, None if the round failed."""
    pending: Mapping[str, int] = field(default_factory=dict)
    done: Mapping[str, int] = field(default_factory=dict)
    failed: int = 0
    refused: int = 0
    unknown_clusters: int = 0
    contested: int = 0
    topology_kept: bool = False
    lag_records: Mapping[str, float] = field(default_factory=dict)
    lag_seconds: Mapping[str, float] = field(default_factory=dict)
    lag_known: Mapping[str, float] = field(default_factory=dict)
    """1 or 0 for every flow of an observed job."""
    unknown_mirrors: int = 0
    """Number of mirrors whose job could not be observed."""
    health: Health | None = None
    """The verdict, None if nothing was observed."""
