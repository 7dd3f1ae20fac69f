"""What a rollout needs of the world: health of clusters, state of jobs, the clock, its progress record."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from reconciler.backends.state.environment_records import read_holder, read_promotion
from reconciler.backends.state.lock.kafka_lock import KafkaLock
from reconciler.engine.rollout.gates import GateScope
from reconciler.engine.rollout.status import RolloutStatus, standing_now
from reconciler.engine.rollout.waves import course_of
from reconciler.errors import Unknown, or_unknown
from reconciler.model.environment.topology import Principal
from reconciler.model.live import LiveState
from reconciler.model.reports.health import Sight
from reconciler.model.state.lock import LockRecord, lock_cluster
from reconciler.model.state.rollout_progress import Promotion, dumps, promotion_key
from reconciler.operations.session.session import Session, now_ms

SLICE_SECONDS = 0.2
"""How soon a requested stop is heard while nothing else happens."""


@dataclass(frozen=True, slots=True)
class RolloutCallbacks:
    """``stop``: why nothing further may begin, cheap to ask. ``held``: why the lock is lost; asking renews it.
    ``note``: about what, and what happens."""

    stop: Callable[[], str]
    held: Callable[[], str]
    note: Callable[[str, str], None]


class LiveRolloutIO:
    """``conducting.World`` over a session and a lock that is held."""

    def __init__(self, session: Session, lock: KafkaLock, ears: RolloutCallbacks) -> None:
        self.session = session
        self.lock = lock
        self.ears = ears

    def look(self, scope: GateScope) -> Sight:
        with ThreadPoolExecutor(len(scope.clusters) + len(scope.flows) + 1) as pool:
            clusters = {
                name: pool.submit(or_unknown, f"cluster {name}", self.session.clusters[name].health)
                for name in scope.clusters
            }
            observe = self.session.runner.observe
            mirrors = {name: pool.submit(or_unknown, f"mirror {name}", partial(observe, name)) for name in scope.flows}
            return Sight(
                {name: future.result() for name, future in clusters.items()},
                {name: future.result() for name, future in mirrors.items()},
            )

    def kept(self) -> Promotion:
        """Raises ClusterError."""
        environment = self.session.topology.environment
        promotion = read_promotion(self.lock.cluster, environment, Principal.APPLY)
        return promotion or Promotion(environment)

    def keep(self, promotion: Promotion) -> str:
        """Runs on a separate thread: an interrupt in the middle of the write would leave its transaction open."""
        this_promotion = replace(promotion, at_ms=now_ms(), who=self.lock.holder.who)
        with ThreadPoolExecutor(1) as aside:
            return aside.submit(self.lock.keep, promotion_key(promotion.environment), dumps(this_promotion)).result()

    def now_ms(self) -> int:
        return int(time.monotonic() * 1000)

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (seconds_left := until - time.monotonic()) > 0 and not self.ears.stop():
            time.sleep(min(SLICE_SECONDS, seconds_left))

    def closed(self) -> str:
        return self.ears.stop() or self.ears.held()

    def note(self, about: str, text: str) -> None:
        self.ears.note(about, text)


def lock_of(session: Session, live: LiveState) -> LockRecord | Unknown | None:
    """Who holds the environment. A cluster that did not answer just now is not asked again."""
    environment, principal = session.topology.environment, session.principal
    return or_unknown("lock", lambda: read_holder(session.find_home(live), environment, principal))


def standing(session: Session, live: LiveState, lock: LockRecord | Unknown | None) -> RolloutStatus | None:
    """The progress of the environment's rollout; None when it has none."""
    topology = session.topology
    course = course_of(topology)
    if course is None:
        return None
    place = lock_cluster(topology)
    kept = or_unknown("rollout", lambda: read_promotion(place, topology.environment, session.principal))
    return standing_now(topology, live, course, kept, None if isinstance(lock, Unknown) else lock)
