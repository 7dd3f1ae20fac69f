"""Declared quotas x the quotas of each cluster -> one change an entity, and what is left alone.

Only what is written is managed: other keys of a declared entity, and other entities, are told and never touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.changes import AlterQuota, Ignored, LimitChange, Reason
from reconciler.diffing.findings import Findings, Settled, merged
from reconciler.errors import Unknown
from reconciler.live import LiveState
from reconciler.quotas import Limits, Quota, QuotaEntity, limits_text
from reconciler.topology import Topology

NONE: Limits = {}


def compare_quotas(topology: Topology, live: LiveState) -> Findings:
    """``live`` without clusters that are not the declared ones; what was not read of them is told elsewhere."""
    return merged(_cluster(topology, live, name) for name in sorted(topology.clusters))


def _cluster(topology: Topology, live: LiveState, name: str) -> Findings:
    mine = {quota.entity: quota for quota in topology.quotas if name in quota.clusters}
    cluster = live.known(name)
    if cluster is None or cluster.quotas is None or not mine:
        return Findings()
    if isinstance(cluster.quotas, Unknown):
        found = cluster.quotas
        return Findings(unknown=(Unknown(f"quotas {name}", found.error, found.todo, tuple(map(str, mine))),))
    there = cluster.quotas
    changes = [change for quota in mine.values() if (change := _change(name, quota, there.get(quota.entity, NONE)))]
    moved = {change.entity for change in changes}
    return Findings(
        changes=tuple(changes),
        ignored=tuple(_left_alone(name, mine, there)),
        settled=tuple(Settled(f"quota {name} {whom}", "limits") for whom in mine if whom not in moved),
    )


def _change(cluster: str, quota: Quota, there: Limits) -> AlterQuota | None:
    gone = there.keys() if quota.absent else set(quota.remove) & there.keys()
    wished: dict[str, float | None] = {**quota.limits, **dict.fromkeys(gone)}
    limits = tuple(
        LimitChange(key, there.get(key), wished[key]) for key in sorted(wished) if there.get(key) != wished[key]
    )
    if not limits:
        return None
    word = "declared absent in" if quota.absent else "declared in"
    reason = Reason("declared-absent" if quota.absent else "declared", f"{word} {quota.where}")
    return AlterQuota(cluster, quota.entity, limits, reason)


def _left_alone(name: str, mine: Mapping[QuotaEntity, Quota], there: Mapping[QuotaEntity, Limits]) -> Iterator[Ignored]:
    for whom, limits in sorted(there.items(), key=lambda one: str(one[0])):
        quota = mine.get(whom)
        if quota is None:
            yield Ignored(f"quota {name}", "quota-unmanaged", f"{whom}: {limits_text(limits)}")
            continue
        others = {
            key: value
            for key, value in limits.items()
            if not quota.absent and key not in quota.limits and key not in quota.remove
        }
        if others:
            yield Ignored(f"quota {name}", "quota-key-not-declared", f"{whom}: {limits_text(others)}")
