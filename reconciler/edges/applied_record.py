"""Reads the record of the last apply of an environment from the topic of its lock. Writing it takes the lock."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from reconciler.applied import Applied, applied_key, loads
from reconciler.edges.kafka.lock_log import read_newest
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.locks import LOCK_TOPIC
from reconciler.topology import Cluster, Principal


def read_applied(cluster: Cluster, environment: str, principal: Principal) -> Applied | None:
    """None when nothing was applied yet. Opens and closes a connection of its own. Raises ClusterError."""
    value = read_newest(cluster, LOCK_TOPIC, applied_key(environment), principal)
    try:
        return loads(value) if value is not None else None
    except ValueError as error:
        raise ClusterError(
            cluster.name,
            "invalid",
            f"the record of the last apply of environment {environment} cannot be understood: {error}",
            "Another version of this program wrote it, so a wish that shrank and a first contact cannot be told",
            "Use that version, or agree with apply --allow-shrink --first-contact.",
        ) from None


def read_applied_elsewhere(
    clusters: Iterable[Cluster], environment: str, principal: Principal
) -> tuple[str, Applied] | None:
    """The newest record on clusters that do not keep it now, and on which; those that do not answer have none."""
    found: list[tuple[str, Applied]] = []
    for cluster in clusters:
        with suppress(ReconcilerError):
            if (applied := read_applied(cluster, environment, principal)) is not None:
                found.append((cluster.name, applied))
    return max(found, key=lambda one: one[1].at_ms, default=None)
