"""Lock, rollout and verdict of an environment, as ``status``, ``map`` and the live page show them."""

from collections.abc import Mapping

from reconciler.backends.state.environment_records import read_holder, read_last_drills, read_promotion
from reconciler.engine.diff import diff
from reconciler.engine.drift.causes import has_remedy, losing_copies, with_losing_copies, with_remedies
from reconciler.engine.observe.verdict import verdict_of
from reconciler.engine.rollout.waves import RolloutStatus, course_of, rollout_now
from reconciler.errors import Unknown, or_unknown
from reconciler.model.live import LiveState
from reconciler.model.reports.health import Verdict
from reconciler.model.state.last_drill import LastDrill
from reconciler.model.state.lock import LockRecord, lock_cluster
from reconciler.operations.session.session import Session


def lock_of(session: Session, live: LiveState) -> LockRecord | Unknown | None:
    """The holder of the environment's lock. Clusters that ``live`` has as unknown are not asked again."""
    environment, principal = session.topology.environment, session.principal
    return or_unknown("lock", lambda: read_holder(session.find_home(live), environment, principal))


def drills_of(session: Session, live: LiveState) -> Mapping[str, LastDrill] | Unknown:
    """Flow -> its last drill; read only if a flow declares objectives."""
    topology, principal = session.topology, session.principal
    if not any(flow.objectives for flow in topology.flows.values()):
        return {}
    return or_unknown("last drills", lambda: read_last_drills(session.find_home(live), topology.environment, principal))


def rollout_status(session: Session, live: LiveState, lock: LockRecord | Unknown | None) -> RolloutStatus | None:
    """The progress of the environment's rollout; None if it declares none."""
    topology = session.topology
    course = course_of(topology)
    if course is None:
        return None
    place = lock_cluster(topology)
    kept = or_unknown("rollout", lambda: read_promotion(place, topology.environment, session.principal))
    return rollout_now(topology, live, course, kept, None if isinstance(lock, Unknown) else lock)


def verdict_now(session: Session, folder: str) -> Verdict:
    """The verdict after ``observe``, with remedies. ``folder``: the environment's folder, for commands in remedies. Git
    is compared with clusters only if drift may have caused a condition, or a copy that retains less than its source."""
    live = session.last.live
    assert live is not None
    verdict = verdict_of(session.topology, live, folder)
    losing = tuple(losing_copies(session.topology, live))
    if not losing and not has_remedy(verdict):
        return verdict
    findings, _ = diff(session.topology, live)
    verdict = with_losing_copies(verdict, losing, findings.changes, folder)
    return with_remedies(verdict, session.topology, live, findings.changes, folder)
