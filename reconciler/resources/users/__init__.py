"""SCRAM users as YAML declares them: read, checked, written down for a cluster that is adopted; and our own logins.

``diffing.users`` compares them with a cluster. Border: nothing here asks a cluster or resolves a reference.
"""

from __future__ import annotations

from reconciler.topology import Topology

__all__ = ["user_clusters"]


def user_clusters(topology: Topology) -> frozenset[str]:
    """Whose users are looked at: none where the section is not written."""
    if topology.users_declared:
        return frozenset(topology.clusters)
    return frozenset(name for user in topology.users for name in user.clusters)
