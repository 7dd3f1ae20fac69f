"""The status of a rollout: soak time that is left, who holds the lock, which gates fail."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.engine.rollout.gates import faults, health_of, scope_of
from reconciler.errors import Unknown
from reconciler.model.environment.rollout import Course, CourseWave
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveCluster, LiveState
from reconciler.model.reports.health import Fault, Sight
from reconciler.model.state.lock import LockRecord
from reconciler.model.state.rollout_progress import Promotion


@dataclass(frozen=True, slots=True)
class RolloutStatus:
    """``promotion`` None: nothing was rolled out yet. ``lock`` None: nobody holds it, or it could not be read.
    ``found``: gates that do not hold now, over all clusters."""

    course: Course
    promotion: Promotion | Unknown | None
    lock: LockRecord | None
    found: tuple[Fault, ...]

    @property
    def under_way(self) -> bool:
        kept = self.promotion
        return isinstance(kept, Promotion) and any(kept.pending(wave.clusters) for wave in self.course.waves)


def standing_now(
    topology: Topology, live: LiveState, course: Course, kept: Promotion | Unknown | None, lock: LockRecord | None
) -> RolloutStatus:
    clusters = {
        n: health_of(cluster) if isinstance(cluster, LiveCluster) else cluster for n, cluster in live.clusters.items()
    }
    scope = scope_of(topology, frozenset(topology.clusters), ())
    return RolloutStatus(course, kept, lock, faults(course.gates, scope, Sight(clusters, live.mirrors)))


def wave_state(wave: CourseWave, kept: Promotion | Unknown | None) -> str:
    """``not begun``, ``begun``, ``soaking``, ``passed`` or ``unknown``."""
    if isinstance(kept, Unknown):
        return "unknown"
    if kept is None or not any(name in kept.clusters for name in wave.clusters):
        return "not begun"
    pending = kept.pending(wave.clusters)
    return "passed" if not pending else "begun" if kept.begun(pending) else "soaking"
