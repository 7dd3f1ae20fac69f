"""Quotas as YAML declares them: read and checked, and written down for a cluster that is adopted.

``diffing.quotas`` compares them with a cluster. Border: nothing here asks a cluster.
"""

from __future__ import annotations

from reconciler.topology import Topology

__all__ = ["quota_clusters"]


def quota_clusters(topology: Topology) -> frozenset[str]:
    """Where quotas are declared; only these clusters are asked for them."""
    return frozenset(name for quota in topology.quotas for name in quota.clusters)
