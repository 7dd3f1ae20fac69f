"""Where a rollout stands now: what was left to soak, who has the lock, and which gates hold."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.errors import Unknown
from reconciler.healths import Fault, Sight
from reconciler.live import LiveCluster, LiveState
from reconciler.locks import LockRecord
from reconciler.promotions import Promotion
from reconciler.rollout.judging import faults, health_of, scope_of
from reconciler.rollouts import Course
from reconciler.topology import Topology


@dataclass(frozen=True, slots=True)
class Standing:
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
) -> Standing:
    clusters = {n: health_of(one) if isinstance(one, LiveCluster) else one for n, one in live.clusters.items()}
    scope = scope_of(topology, frozenset(topology.clusters), ())
    return Standing(course, kept, lock, faults(course.gates, scope, Sight(clusters, live.mirrors)))
