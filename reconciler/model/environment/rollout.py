"""A rollout as declared: waves in order, gates between them, soak time. Frozen values.

``Rollout``: as declared in git; ``Course``: its waves in a plan, with resolved clusters.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.errors import NOWHERE, Where


class MirrorGate(StrEnum):
    """HEALTHY: the job runs, and no condition stops a partition. RUNNING: it runs. IGNORED: not checked."""

    HEALTHY = "healthy"
    RUNNING = "running"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class Gates:
    """Conditions before a wave, after it, and during its soak. Counts are the most allowed partitions."""

    offline_partitions: int = 0
    under_replicated_partitions: int = 0
    lag_ms: int | None = 60_000
    """Greatest allowed lag of a flow; None: not checked."""
    mirrors: MirrorGate = MirrorGate.HEALTHY
    wait_ms: int = 300_000
    """Longest time after a wave until all gates hold."""


@dataclass(frozen=True, slots=True)
class RolloutWave:
    """``regions`` and ``clusters`` as written. ``soak_ms`` None: that of the rollout."""

    name: str
    regions: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    soak_ms: int | None = None
    where: Where = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Rollout:
    waves: tuple[RolloutWave, ...]
    soak_ms: int = 0
    gates: Gates = Gates()
    where: Where = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CourseWave:
    """``clusters``: names of the wave's clusters."""

    name: str
    clusters: tuple[str, ...]
    soak_ms: int


@dataclass(frozen=True, slots=True)
class Course:
    waves: tuple[CourseWave, ...]
    gates: Gates

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(wave.name for wave in self.waves)

    def index(self, name: str) -> int:
        return self.names.index(name)

    def wave(self, name: str) -> CourseWave:
        return self.waves[self.index(name)]
