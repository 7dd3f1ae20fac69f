"""Reads what earlier runs of an environment left beside its lock: the last apply, a rollout's progress, who holds it.

Writing takes the lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from reconciler.backends.state.compare_and_set import LockLog, understood
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.state import last_apply, lock, rollout_progress
from reconciler.model.state.last_apply import Applied, applied_key
from reconciler.model.state.left_by_apply import LeftCluster, left_key, loads
from reconciler.model.state.lock import LOCK_TOPIC, LockRecord, lock_key
from reconciler.model.state.rollout_progress import Promotion, promotion_key

ANOTHER_VERSION = "Another version of this program wrote it, so"


def read_applied(cluster: Cluster, environment: str, principal: Principal) -> Applied | None:
    """None when nothing was applied yet. Opens and closes its own connection. Raises ClusterError."""
    return read_last_apply(cluster, environment, principal)[0]


def read_last_apply(
    cluster: Cluster, environment: str, principal: Principal
) -> tuple[Applied | None, Mapping[str, LeftCluster]]:
    """As ``read_applied``, and what that apply left on each cluster, as far as it is known."""
    records = _newest(cluster, environment, principal)
    record = f"the record of the last apply of environment {environment}"
    why = f"{ANOTHER_VERSION} neither a shrunken topology nor a first contact can be detected"
    todo = "Use that version, or accept with apply --allow-shrink --first-contact."
    value = records.get(applied_key(environment))
    applied = understood(value, last_apply.loads, cluster.name, record, why, todo)
    prefix = left_key(environment, "")
    left = {key.removeprefix(prefix): loads(value) for key, value in records.items() if key.startswith(prefix)}
    return applied, {name: cluster for name, cluster in left.items() if cluster is not None}


def read_promotion(cluster: Cluster, environment: str, principal: Principal) -> Promotion | None:
    """None when nothing was rolled out yet. Raises ClusterError."""
    value = _newest(cluster, environment, principal).get(promotion_key(environment))
    record = f"the record of the rollout of environment {environment}"
    why = f"{ANOTHER_VERSION} it is not known what has yet to soak"
    todo = "Use that version until the rollout is over, or go on with apply --ignore-gates REASON."
    return understood(value, rollout_progress.loads, cluster.name, record, why, todo)


def read_holder(cluster: Cluster, environment: str, principal: Principal) -> LockRecord | None:
    """None when it was never held, or another version of this program does. Raises ClusterError."""
    value = _newest(cluster, environment, principal).get(lock_key(environment))
    with suppress(ValueError):
        return lock.loads(value) if value is not None else None
    return None


def _newest(cluster: Cluster, environment: str, principal: Principal) -> Mapping[str, bytes]:
    log = LockLog(cluster, LOCK_TOPIC, lock_key(environment), "", principal)
    try:
        return log.read_all() if log.exists() else {}
    finally:
        log.close()
