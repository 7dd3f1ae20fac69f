"""Client quotas: desired against live, and explained.

Belongs here: rules of quotas. Not here: YAML (`environment`), requests (`backends.clusters.acls_and_quotas`).
"""

from reconciler.model.environment.topology import Topology

__all__ = ["quota_clusters"]


def quota_clusters(topology: Topology) -> frozenset[str]:
    """Clusters whose quotas are read: none without the section."""
    if topology.quotas_declared:
        return frozenset(topology.clusters)
    return frozenset(name for quota in topology.quotas for name in quota.clusters)
