"""SCRAM users: desired against live, explained, and which of them are our own logins.

Belongs here: rules of users. Not here: YAML (`environment`), requests (`backends.clusters.users`).
"""

from reconciler.model.environment.topology import Topology

__all__ = ["user_clusters"]


def user_clusters(topology: Topology) -> frozenset[str]:
    """Clusters whose users are read: none if git has no section ``users``."""
    if topology.users_declared:
        return frozenset(topology.clusters)
    return frozenset(name for user in topology.users for name in user.clusters)
