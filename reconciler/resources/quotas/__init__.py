"""Quotas as YAML declares them: read and checked, and written down for a cluster that is adopted.

``diffing.quotas`` compares them with a cluster. Border: nothing here asks a cluster.
"""

from __future__ import annotations

from reconciler.topology import Topology

__all__ = ["quota_clusters"]


def quota_clusters(topology: Topology) -> frozenset[str]:
    """Whose quotas are looked at: none where the section is not written."""
    if topology.quotas_declared:
        return frozenset(topology.clusters)
    return frozenset(name for quota in topology.quotas for name in quota.clusters)
