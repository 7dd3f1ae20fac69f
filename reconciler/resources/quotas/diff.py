"""Compares desired and live client quotas of each cluster: one change for each user, client id or address.

Only declared keys are managed. Prune removes keys that an earlier run set and git no longer names; other undeclared
keys are reported and never touched.
"""

from collections.abc import Iterator, Mapping

from reconciler.errors import Unknown
from reconciler.model.changes import About, AlterQuota, Ignored, LimitChange, Reason, Refused, Subject, Why
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveCluster, LiveState
from reconciler.model.plan import Findings, merged
from reconciler.model.principals import Quota, QuotaEntity, QuotaLimits, limits_text
from reconciler.resources.prune import too_many_pruned
from reconciler.text import counted, first_of

LEFT_OVER = "set by an earlier run, declared no longer"
Keys = Mapping[QuotaEntity, frozenset[str]]


def quota_clusters(topology: Topology) -> frozenset[str]:
    """Clusters whose quotas are read: none without the section."""
    if topology.quotas_declared:
        return frozenset(topology.clusters)
    return frozenset(name for quota in topology.quotas for name in quota.clusters)


def compare_quotas(topology: Topology, live: LiveState, pruning: bool) -> Findings:
    """``live``: without wrong and unread clusters, which are reported elsewhere. ``pruning``: remove keys that earlier
    runs set and git no longer names; otherwise a note names them."""
    return merged(_cluster(topology, live, name, pruning) for name in sorted(topology.clusters))


def _cluster(topology: Topology, live: LiveState, name: str, pruning: bool) -> Findings:
    """Compares one cluster. Unreadable quotas are Unknown only if quotas are declared there; otherwise a note."""
    mine = {quota.entity: quota for quota in topology.quotas if name in quota.clusters}
    cluster = live.known(name)
    if cluster is None or cluster.quotas is None:
        return Findings()
    if isinstance(cluster.quotas, Unknown):
        unknown = cluster.quotas
        # Pruning needs to know what is there, even if no entry names this cluster.
        if mine or pruning:
            return Findings(unknown=(Unknown(f"quotas {name}", unknown.error, unknown.todo, tuple(map(str, mine))),))
        text = f"no entry names it, and its quotas could not be read: {unknown.error}"
        return Findings(ignored=(Ignored(Subject(About.QUOTAS, name), "quotas-not-looked-at", text),))
    quotas = cluster.quotas
    changes = [change for quota in mine.values() if (change := _change(name, quota, quotas.get(quota.entity, {})))]
    moved = {change.entity for change in changes}
    declared = Findings(
        changes=tuple(changes),
        settled=tuple(Subject(About.QUOTA_STATE, name, str(whom)) for whom in mine if whom not in moved),
    )
    return merged((declared, _undeclared(topology, cluster, mine, quotas, pruning)))


def _change(cluster: str, quota: Quota, live: QuotaLimits) -> AlterQuota | None:
    """The change of an entry; None without a difference. Limits that the entry does not name stay."""
    gone = live.keys() if quota.absent else set(quota.remove) & live.keys()
    desired: dict[str, float | None] = {**quota.limits, **dict.fromkeys(gone)}
    limits = tuple(
        LimitChange(key, live.get(key), desired[key]) for key in sorted(desired) if live.get(key) != desired[key]
    )
    if not limits:
        return None
    word = "declared absent in" if quota.absent else "declared in"
    reason = Reason(Why.DECLARED_ABSENT if quota.absent else Why.DECLARED, f"{word} {quota.where}")
    return AlterQuota(cluster, quota.entity, limits, reason)


def _undeclared(
    topology: Topology,
    cluster: LiveCluster,
    mine: Mapping[QuotaEntity, Quota],
    quotas: Mapping[QuotaEntity, QuotaLimits],
    pruning: bool,
) -> Findings:
    """Undeclared keys: of earlier runs, and of other tools."""
    name = cluster.name
    ours: Keys = {} if isinstance(cluster.quota_keys, Unknown) else cluster.quota_keys
    undeclared = dict(_undeclared_keys(mine, quotas))
    set_by_runs = {
        whom: {key: number for key, number in limits.items() if key in ours.get(whom, ())}
        for whom, limits in undeclared.items()
    }
    ours_left = {whom: limits for whom, limits in set_by_runs.items() if limits}
    ignored: list[Ignored] = []
    for whom, limits in undeclared.items():
        strange = {key: number for key, number in limits.items() if key not in ours_left.get(whom, {})}
        if strange:
            rule = "quota-key-not-declared" if whom in mine else "quota-unmanaged"
            ignored.append(Ignored(Subject(About.QUOTAS, name), rule, f"{whom}: {limits_text(strange)}"))
        if whom in ours_left and not pruning:
            text = f"{whom}: {limits_text(ours_left[whom])}; {LEFT_OVER}; plan --prune removes it"
            ignored.append(Ignored(Subject(About.QUOTAS, name), "quota-left-over", text))
    names = [str(whom) for whom in ours_left]
    if isinstance(cluster.quota_keys, Unknown):
        # Without prune the ownership record is not needed.
        failed = cluster.quota_keys
        doubt = Unknown(f"quotas {name}", failed.error, failed.todo, ("which quotas earlier runs set",))
        return Findings(ignored=tuple(ignored), unknown=(doubt,) if pruning else ())
    if not pruning:
        note = f"plan --prune would remove limits from {counted(len(names), 'quota')} of {name}: {first_of(names)}"
        return Findings(ignored=tuple(ignored), notes=(note,) if names else ())
    # Entities with a key of earlier runs.
    there = sum(any(key in quotas.get(whom, {}) for key in keys) for whom, keys in ours.items())
    refused: tuple[Refused, ...] = tuple(too_many_pruned(topology, f"quotas of {name}", names, there))
    reason = Reason(Why.PRUNE, LEFT_OVER)
    removals = (
        AlterQuota(name, whom, tuple(LimitChange(key, number, None) for key, number in sorted(limits.items())), reason)
        for whom, limits in ours_left.items()
    )
    return Findings(changes=tuple(removals), refused=refused, ignored=tuple(ignored))


def _undeclared_keys(
    mine: Mapping[QuotaEntity, Quota], quotas: Mapping[QuotaEntity, QuotaLimits]
) -> Iterator[tuple[QuotaEntity, QuotaLimits]]:
    """Undeclared limits: of other entities, and other keys of declared entities."""
    for whom, limits in sorted(quotas.items(), key=lambda pair: str(pair[0])):
        quota = mine.get(whom)
        if quota is None:
            yield whom, limits
        elif not quota.absent:
            named = {*quota.limits, *quota.remove}
            if others := {key: number for key, number in limits.items() if key not in named}:
                yield whom, others
