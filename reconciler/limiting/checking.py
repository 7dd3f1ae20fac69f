"""Quotas against the rest of the topology: clusters they name, and one entity declared twice on a cluster.

Border: as ``checking``: nouns in, problems out.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.errors import Problem
from reconciler.places import Places, unknown_cluster
from reconciler.quotas import Quota, QuotaEntity
from reconciler.topology import Topology


def check_quotas(topology: Topology, places: Places) -> Iterator[Problem]:
    first: dict[tuple[str, QuotaEntity], Quota] = {}
    for quota in topology.quotas:
        for index, name in enumerate(quota.clusters):
            where = places.find("quotas", str(quota.number), "clusters", index, or_else=quota.where)
            if problem := unknown_cluster(places, topology.clusters, name, f"quota {quota.number}", where):
                yield problem
            other = first.setdefault((name, quota.entity), quota)
            if other is not quota:
                what = f"quota {quota.number} is for {quota.entity} on {name}, as the one at {other.where}"
                why = "Nobody could tell which of the two holds"
                yield Problem("duplicate-quota", where, what, why, "Put them together")
