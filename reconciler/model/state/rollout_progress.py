"""The progress of a rollout, kept in Kafka beside the lock, so that a new run can resume it.

By cluster, not by wave: if git renames or splits a wave, its clusters keep their soak. Frozen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from reconciler.replication.json_codec import JsonRecord


def promotion_key(environment: str) -> str:
    return f"rollout/{environment}"


class SoakState(StrEnum):
    """BEGUN: changes of its wave are being carried out, or were interrupted. SOAKING: they are done. PASSED: its soak
    is over."""

    BEGUN = "begun"
    SOAKING = "soaking"
    PASSED = "passed"


@dataclass(frozen=True, slots=True)
class ClusterRollout:
    """``soaked_ms``: how long all gates have held without a break since the last change."""

    wave: str
    stand: SoakState
    soaked_ms: int = 0


@dataclass(frozen=True, slots=True)
class Promotion:
    """How far a rollout has come."""

    environment: str
    at_ms: int = 0
    """Time of the last update, since 1970."""
    who: str = ""
    halted: str = ""
    """Why the rollout is halted, or empty."""
    clusters: Mapping[str, ClusterRollout] = field(default_factory=lambda: MappingProxyType({}))

    def pending(self, clusters: Iterable[str]) -> tuple[str, ...]:
        """Changed clusters whose soak is not over."""
        pending = ((name, self.clusters.get(name)) for name in clusters)
        return tuple(
            name for name, progress in pending if progress is not None and progress.stand is not SoakState.PASSED
        )

    def soaked_ms(self, clusters: Iterable[str]) -> int:
        """The shortest soak among them."""
        return min((self.clusters[name].soaked_ms for name in clusters if name in self.clusters), default=0)

    def begun(self, clusters: Iterable[str]) -> bool:
        """Whether changes of one of them are being carried out, or were interrupted."""
        return any(self.clusters[name].stand is SoakState.BEGUN for name in clusters if name in self.clusters)

    def set(self, clusters: Iterable[str], stand: ClusterRollout) -> Promotion:
        return replace(self, clusters=MappingProxyType({**self.clusters, **dict.fromkeys(clusters, stand)}))


_RECORD = JsonRecord(Promotion, "record of a rollout")
dumps, loads = _RECORD.dumps, _RECORD.loads
