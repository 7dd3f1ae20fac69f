"""A rollout in the real world: health of the clusters, state of the jobs, the clock, and the record beside the lock.

Border: puts edges into ``rollout.conducting``; no arguments, no exit codes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from reconciler.edges.kafka_lock import KafkaLock
from reconciler.edges.rollout_record import read_holder, read_promotion
from reconciler.errors import ReconcilerError, Unknown
from reconciler.healths import ClusterHealth, Sight
from reconciler.live import LiveMirror, LiveState
from reconciler.locks import LockRecord, lock_cluster
from reconciler.promotions import Promotion, dumps, promotion_key
from reconciler.rollout import course_of
from reconciler.rollout.judging import Scope
from reconciler.rollout.standing import Standing, standing_now
from reconciler.topology import Principal
from reconciler.wiring import Session, now_ms

SLICE_SECONDS = 0.2
"""How soon a wished stop is heard while nothing else happens."""


@dataclass(frozen=True, slots=True)
class Ears:
    """``stop``: why nothing further may begin, cheap to ask. ``held``: why the lock is lost; asking renews it.
    ``note``: about what, and what happens."""

    stop: Callable[[], str]
    held: Callable[[], str]
    note: Callable[[str, str], None]


class RealWorld:
    """``conducting.World`` over a session and a lock that is held."""

    def __init__(self, session: Session, lock: KafkaLock, ears: Ears) -> None:
        self.session = session
        self.lock = lock
        self.ears = ears

    def look(self, scope: Scope) -> Sight:
        with ThreadPoolExecutor(len(scope.clusters) + len(scope.flows) + 1) as pool:
            clusters = {name: pool.submit(self._health, name) for name in scope.clusters}
            mirrors = {name: pool.submit(self._mirror, name) for name in scope.flows}
            return Sight(
                {name: found.result() for name, found in clusters.items()},
                {name: found.result() for name, found in mirrors.items()},
            )

    def kept(self) -> Promotion:
        """Raises ClusterError."""
        environment = self.session.topology.environment
        found = read_promotion(self.lock.cluster, environment, Principal.APPLY)
        return found or Promotion(environment)

    def keep(self, promotion: Promotion) -> str:
        """On a thread of its own: an interrupt in the middle of the write would leave its transaction open."""
        told = replace(promotion, at_ms=now_ms(), who=self.lock.holder.who)
        with ThreadPoolExecutor(1) as aside:
            return aside.submit(self.lock.keep, promotion_key(promotion.environment), dumps(told)).result()

    def now_ms(self) -> int:
        return int(time.monotonic() * 1000)

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.ears.stop():
            time.sleep(min(SLICE_SECONDS, left))

    def closed(self) -> str:
        return self.ears.stop() or self.ears.held()

    def note(self, about: str, text: str) -> None:
        self.ears.note(about, text)

    def _health(self, name: str) -> ClusterHealth | Unknown:
        try:
            return self.session.clusters[name].health()
        except ReconcilerError as error:
            return Unknown(f"cluster {name}", error.what, error.todo)

    def _mirror(self, name: str) -> LiveMirror | Unknown:
        try:
            return self.session.runner.observe(name)
        except ReconcilerError as error:
            return Unknown(f"mirror {name}", error.what, error.todo)


def lock_of(session: Session, live: LiveState) -> LockRecord | Unknown | None:
    """Who holds the environment. A cluster that did not answer just now is not asked again."""
    place = lock_cluster(session.topology)
    if live.known(place.name) is None:
        return Unknown(
            "lock", f"cluster {place.name} keeps it, and could not be read", "See what is said of the cluster"
        )
    try:
        return read_holder(place, session.topology.environment, session.principal)
    except ReconcilerError as error:
        return Unknown("lock", error.what, error.todo)


def standing(session: Session, live: LiveState, lock: LockRecord | Unknown | None) -> Standing | None:
    """Where the rollout of the environment stands; None when it has none."""
    topology = session.topology
    course = course_of(topology)
    if course is None:
        return None
    place = lock_cluster(topology)
    kept: Promotion | Unknown | None
    try:
        kept = read_promotion(place, topology.environment, session.principal)
    except ReconcilerError as error:
        kept = Unknown("rollout", error.what, error.todo)
    return standing_now(topology, live, course, kept, None if isinstance(lock, Unknown) else lock)
