"""Validates quotas: known clusters, no entity declared twice on one."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.environment.yaml.locations import Places, unknown_clusters
from reconciler.errors import Problem
from reconciler.model.environment.topology import Topology
from reconciler.model.quotas import Quota, QuotaEntity


def check_quotas(topology: Topology, places: Places) -> Iterator[Problem]:
    first: dict[tuple[str, QuotaEntity], Quota] = {}
    for quota in topology.quotas:
        yield from unknown_clusters(places, topology.clusters, quota, f"quota {quota.number}")
        for index, name in enumerate(quota.clusters):
            if (other := first.setdefault((name, quota.entity), quota)) is not quota:
                problem = f"quota {quota.number} is for {quota.entity} on {name}, as the one at {other.where}"
                why, where = "It would be unclear which of the two counts", places.of(quota, "clusters", index)
                yield Problem("duplicate-quota", where, problem, why, "Put them together")
