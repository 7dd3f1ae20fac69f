"""Reads how far the rollout of an environment came, and who holds its lock, from the topic of the lock.

Writing takes the lock.
"""

from __future__ import annotations

from reconciler.edges.kafka.lock_log import read_newest
from reconciler.errors import ClusterError
from reconciler.locks import LOCK_TOPIC, LockRecord, lock_key
from reconciler.locks import loads as lock_loads
from reconciler.promotions import Promotion, loads, promotion_key
from reconciler.topology import Cluster, Principal


def read_promotion(cluster: Cluster, environment: str, principal: Principal) -> Promotion | None:
    """None when nothing was rolled out yet. Raises ClusterError."""
    value = read_newest(cluster, LOCK_TOPIC, promotion_key(environment), principal)
    try:
        return loads(value) if value is not None else None
    except ValueError as error:
        raise ClusterError(
            cluster.name,
            "invalid",
            f"the record of the rollout of environment {environment} cannot be understood: {error}",
            "Another version of this program wrote it, so what has yet to soak cannot be told",
            "Use that version until the rollout is over, or go on with apply --ignore-gates REASON.",
        ) from None


def read_holder(cluster: Cluster, environment: str, principal: Principal) -> LockRecord | None:
    """None when nobody ever held it, or another version of this program does. Raises ClusterError."""
    value = read_newest(cluster, LOCK_TOPIC, lock_key(environment), principal)
    try:
        return lock_loads(value) if value is not None else None
    except ValueError:
        return None
