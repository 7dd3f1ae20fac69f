"""Health of a cluster for rollout gates: offline and under-replicated partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    """``move``: its reassignment in flight; a new replica that has yet to be copied is none that is missing."""
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
