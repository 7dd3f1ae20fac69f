"""Declared quotas x the quotas of each cluster -> one change an entity, and what is left alone.

Only what is written is managed. Keys that an earlier run set and git names no longer go by prune; all others that are
not written are told and never touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.changes import AlterQuota, Ignored, LimitChange, Reason, Refused
from reconciler.counts import counted
from reconciler.diffing.findings import Findings, Settled, merged
from reconciler.errors import Unknown
from reconciler.guarding.pruning import PRUNE, names_shown, too_many_pruned
from reconciler.live import LiveCluster, LiveState
from reconciler.quotas import Limits, Quota, QuotaEntity, limits_text
from reconciler.topology import Topology

NONE: Limits = {}
LEFT_OVER = "set by an earlier run, declared no longer"
Keys = Mapping[QuotaEntity, frozenset[str]]


def compare_quotas(topology: Topology, live: LiveState, pruning: bool) -> Findings:
    """``live`` without clusters that are not the declared ones; what was not read of them is told elsewhere.
    ``pruning``: keys that earlier runs set and git names no longer are removed; else it is only told which."""
    return merged(_cluster(topology, live, name, pruning) for name in sorted(topology.clusters))


def _cluster(topology: Topology, live: LiveState, name: str, pruning: bool) -> Findings:
    mine = {quota.entity: quota for quota in topology.quotas if name in quota.clusters}
    cluster = live.known(name)
    if cluster is None or cluster.quotas is None:
        return Findings()
    if isinstance(cluster.quotas, Unknown):
        found = cluster.quotas
        if mine or pruning:
            return Findings(unknown=(Unknown(f"quotas {name}", found.error, found.todo, tuple(map(str, mine))),))
        text = f"no entry names it, and its quotas could not be read: {found.error}"
        return Findings(ignored=(Ignored(f"quota {name}", "quotas-not-looked-at", text),))
    there = cluster.quotas
    changes = [change for quota in mine.values() if (change := _change(name, quota, there.get(quota.entity, NONE)))]
    moved = {change.entity for change in changes}
    declared = Findings(
        changes=tuple(changes),
        settled=tuple(Settled(f"quota {name} {whom}", "limits") for whom in mine if whom not in moved),
    )
    return merged((declared, _undeclared(topology, cluster, mine, there, pruning)))


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


def _undeclared(
    topology: Topology,
    cluster: LiveCluster,
    mine: Mapping[QuotaEntity, Quota],
    there: Mapping[QuotaEntity, Limits],
    pruning: bool,
) -> Findings:
    """Keys that no entry names: those that earlier runs set, and everybody else's."""
    name = cluster.name
    ours: Keys = {} if isinstance(cluster.quota_keys, Unknown) else cluster.quota_keys
    left = dict(_left(mine, there))
    made = dict(_made(left, ours))
    ignored: list[Ignored] = []
    for whom, limits in left.items():
        strange = {key: one for key, one in limits.items() if key not in made.get(whom, {})}
        if strange:
            rule = "quota-key-not-declared" if whom in mine else "quota-unmanaged"
            ignored.append(Ignored(f"quota {name}", rule, f"{whom}: {limits_text(strange)}"))
        if whom in made and not pruning:
            text = f"{whom}: {limits_text(made[whom])}; {LEFT_OVER}; plan --prune removes it"
            ignored.append(Ignored(f"quota {name}", "quota-left-over", text))
    names = [str(whom) for whom in made]
    if isinstance(cluster.quota_keys, Unknown):
        return Findings(ignored=tuple(ignored), unknown=tuple(_doubt(name, cluster.quota_keys, pruning)))
    if not pruning:
        note = f"plan --prune would remove limits from {counted(len(names), 'quota')} of {name}: {names_shown(names)}"
        return Findings(ignored=tuple(ignored), notes=(note,) if names else ())
    refused: tuple[Refused, ...] = tuple(too_many_pruned(topology, f"quotas of {name}", names, _count(ours, there)))
    reason = Reason(PRUNE, LEFT_OVER)
    removals = (
        AlterQuota(name, whom, tuple(LimitChange(key, one, None) for key, one in sorted(limits.items())), reason)
        for whom, limits in made.items()
    )
    return Findings(changes=tuple(removals), refused=refused, ignored=tuple(ignored))


def _left(
    mine: Mapping[QuotaEntity, Quota], there: Mapping[QuotaEntity, Limits]
) -> Iterator[tuple[QuotaEntity, Limits]]:
    for whom, limits in sorted(there.items(), key=lambda one: str(one[0])):
        quota = mine.get(whom)
        if quota is None:
            yield whom, limits
        elif not quota.absent:
            named = {*quota.limits, *quota.remove}
            if others := {key: one for key, one in limits.items() if key not in named}:
                yield whom, others


def _made(left: Mapping[QuotaEntity, Limits], ours: Keys) -> Iterator[tuple[QuotaEntity, Limits]]:
    for whom, limits in left.items():
        if mine := {key: one for key, one in limits.items() if key in ours.get(whom, ())}:
            yield whom, mine


def _doubt(name: str, found: Unknown, pruning: bool) -> Iterator[Unknown]:
    """Without prune the record decides nothing."""
    if pruning:
        yield Unknown(f"quotas {name}", found.error, found.todo, ("which quotas earlier runs set",))


def _count(ours: Keys, there: Mapping[QuotaEntity, Limits]) -> int:
    """Entities with a key that earlier runs set and that is there."""
    return sum(any(key in there.get(whom, NONE) for key in keys) for whom, keys in ours.items())
