"""The progress of a rollout, as kept in Kafka beside the lock, so that a new run can resume.

By cluster, not by wave: a wave that git renames or cuts in two keeps what its clusters still have to soak. Frozen.
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
    """BEGUN: changes of its wave are under way, or were cut off. SOAKING: they are done. PASSED: its soak is over."""

    BEGUN = "begun"
    SOAKING = "soaking"
    PASSED = "passed"


@dataclass(frozen=True, slots=True)
class ClusterRollout:
    """``soaked_ms``: how long all gates were seen to hold, without a break, since the last change."""

    wave: str
    stand: SoakState
    soaked_ms: int = 0


@dataclass(frozen=True, slots=True)
class Promotion:
    """``halted``: why the rollout is halted, or empty. ``at_ms``: since 1970, of the last word."""

    environment: str
    at_ms: int = 0
    who: str = ""
    halted: str = ""
    clusters: Mapping[str, ClusterRollout] = field(default_factory=lambda: MappingProxyType({}))

    def pending(self, clusters: Iterable[str]) -> tuple[str, ...]:
        """Those that were changed and have not soaked to the end."""
        pending = ((name, self.clusters.get(name)) for name in clusters)
        return tuple(
            name for name, progress in pending if progress is not None and progress.stand is not SoakState.PASSED
        )

    def soaked_ms(self, clusters: Iterable[str]) -> int:
        """Of the one that soaked least."""
        return min((self.clusters[name].soaked_ms for name in clusters if name in self.clusters), default=0)

    def begun(self, clusters: Iterable[str]) -> bool:
        """Whether changes of one of them are under way, or were cut off."""
        return any(self.clusters[name].stand is SoakState.BEGUN for name in clusters if name in self.clusters)

    def set(self, clusters: Iterable[str], stand: ClusterRollout) -> Promotion:
        return replace(self, clusters=MappingProxyType({**self.clusters, **dict.fromkeys(clusters, stand)}))


_RECORD = JsonRecord(Promotion, "record of a rollout")
dumps, loads = _RECORD.dumps, _RECORD.loads
