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
    """A partition whose replicas are not all in sync."""

    topic: str
    index: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


def lacks_replicas(short: Short, move: ReassignmentInFlight | None) -> bool:
    """``move``: its reassignment in flight; a new replica that is still being copied is none that is missing."""
    adding = move.adding if move is not None else ()
    return bool(set(short.replicas) - set(adding) - set(short.isr))


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """``offline``: ``topic-index`` of partitions without a leader. ``short``: under-replicated ones. Only of what the
    principal may see."""

    name: str
    brokers: int
    offline: tuple[str, ...] = ()
    short: tuple[Short, ...] = ()


@dataclass(frozen=True, slots=True)
class Sight:
    """One look, with an entry for everything that was asked about, known or not."""

    clusters: Mapping[str, ClusterHealth | Unknown]
    mirrors: Mapping[str, LiveMirror | Unknown]


@dataclass(frozen=True, slots=True)
class Fault:
    """A gate that does not hold. ``subject``: ``cluster east``, ``flow east-to-west``; ``text`` has the figures."""

    gate: str
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}"


class Health(StrEnum):
    """Of an environment, best first. PAUSED: on request. DEGRADED: copying goes on, and something is wrong.
    UNKNOWN: whether records are copied could not be found out. STOPPED: records are not copied that should be."""

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
    """Why a verdict is not OK. ``subject``: ``cluster east``, ``mirror west``, ``flow east-to-west``. ``brief``: a few
    words for a headline; ``text`` has all of it, with both values; ``todo`` has the exact command.

    ``code``, ``topic``, ``partition``: of a condition. ``heals``: copying resumes by itself once the cause has ended.
    """

    health: Health
    subject: str
    brief: str
    text: str
    todo: str = ""
    code: str = ""
    topic: str = ""
    partition: int | None = None
    heals: bool = False

    @property
    def place(self) -> str:
        """``orders 3``; empty where it is not about one topic."""
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
    """``succeeded_at``: seconds since 1970, None when the round failed. ``pending`` and ``done`` by kind of change;
    lag by flow, only where the job reports it now; ``lag_known`` has 1 or 0 for every flow of a job that was seen, and
    ``unknown_mirrors`` counts those whose job could not be. ``health``: the verdict, None: nothing was looked at."""

    seconds: float
    succeeded_at: float | None = None
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
    unknown_mirrors: int = 0
    health: Health | None = None
