"""The kind of client quotas: risks of limits, and the place of their declaration."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from reconciler.errors import Unknown
from reconciler.model.changes import About, AlterQuota, ConfigChange, KindName, Risk, Subject
from reconciler.model.live import LiveCluster
from reconciler.model.plan import Planned
from reconciler.model.ports import ClusterAdmin
from reconciler.model.principals import QuotaEntity, QuotaPart, limit_words, limits_text
from reconciler.model.reports.drift import Cause, Deviation, FoundCause, History, recorded
from reconciler.model.reports.explain import RuleAnswer
from reconciler.resources.kind import ABSENT, UNKNOWN, Assessment, Kind, World, of_clusters, tally
from reconciler.resources.topics.explain import ExplainBasis

AFTER_RULES = 2_000
"""Place among the removals; no chain of flows is as long."""


def assess(change: AlterQuota, _: World) -> Assessment:
    """Kafka's admin API does not report a client's present use, so every tighter limit may throttle one."""
    tighter = any(
        limit.after is not None and (limit.before is None or limit.after < limit.before) for limit in change.limits
    )
    if tighter:
        return Assessment(Risk.MEDIUM, "clients that use more are slowed down from then on; they lose no records")
    return Assessment(Risk.LOW)


def _state(cluster: LiveCluster, whom: str) -> str:
    if cluster.quotas is None or isinstance(cluster.quotas, Unknown):
        return UNKNOWN
    return next((limits_text(limits) for entity, limits in cluster.quotas.items() if str(entity) == whom), ABSENT)


def confirm(admin: ClusterAdmin, _: Sequence[AlterQuota]) -> Callable[[AlterQuota], bool]:
    quotas = admin.read_quotas()
    return lambda change: change.is_done(quotas.get(change.entity, {}))


def deviations(change: AlterQuota) -> Iterator[Deviation]:
    for limit in change.limits:
        desired, text = (
            "no limit" if value is None else limit_words(limit.key, value) for value in (limit.after, limit.before)
        )
        yield Deviation(f"{change.cluster}: {change.entity} {limit.key}", "quota", desired, text)


def cause(planned: Planned, history: History, _: ConfigChange | None) -> FoundCause | None:
    last = history.last(planned.id)
    if last is None or not isinstance(planned.change, AlterQuota):
        return None
    # An outside change is certain only if that run set every limit to the present desired value.
    done = [(limit.get("key"), limit.get("after")) for limit in recorded(last, "limits")]
    if last.get("result") != "done" or any((limit.key, limit.after) not in done for limit in planned.change.limits):
        return None
    return FoundCause(Cause.EDITED_OUTSIDE, f"set by the apply of {last.get('at')}, and changed since then")


_KINDS = {"User": "user", "client-id": "client-id", "ip": "ip"}


def quotas_about(basis: ExplainBasis, subject: str) -> tuple[RuleAnswer, ...]:
    """``subject``: ``User:orders-app``, ``client-id:batch`` or ``ip:10.0.0.7``; the default entity counts, too."""
    word, sign, name = subject.partition(":")
    if not sign or word not in _KINDS:
        return ()
    kind = _KINDS[word]
    wanted = {QuotaPart(kind, name), QuotaPart(kind, None)}
    parts = tuple(answer for cluster in basis.topology.clusters for answer in _answers(basis, cluster, wanted))
    if not any(QuotaPart(kind, name) in whom.parts for whom, _ in parts):
        return ()
    return tuple(answer for _, answer in parts)


def _answers(basis: ExplainBasis, cluster: str, wanted: set[QuotaPart]) -> Iterator[tuple[QuotaEntity, RuleAnswer]]:
    """For ``explain``: declared and live limits of each entity with one of the wanted parts."""
    declared = {quota.entity: quota for quota in basis.topology.quotas if cluster in quota.clusters}
    known = basis.live.known(cluster) if cluster in basis.answered else None
    quotas = known.quotas if known is not None and isinstance(known.quotas, Mapping) else None
    for whom in sorted({*declared, *(quotas or ())}, key=str):
        if wanted & set(whom.parts):
            quota = declared.get(whom)
            live = None if quotas is None else quotas.get(whom, {})
            place = quota.where.line_words if quota is not None else ""
            desired = "" if quota is None else "absent" if quota.absent else limits_text(quota.limits)
            state = "" if live is None else f"live {limits_text(live) or 'none'}"
            because = "unmanaged: not declared" if quota is None else "declared"
            answer = RuleAnswer(cluster, f"{whom}: {desired or limits_text(live or {})}", because, place, state)
            yield (whom, answer)


KIND: Kind[AlterQuota] = Kind(
    name=KindName.QUOTAS,
    changes=(AlterQuota,),
    assess=assess,
    place=lambda change: (AFTER_RULES, str(change.subject)),
    rests_on=lambda change, _: (
        Subject(About.QUOTA_STATE, change.cluster, str(change.entity)),
        Subject(About.CLUSTER, change.cluster),
    ),
    states={About.QUOTA_STATE: of_clusters(_state)},
    confirm=confirm,
    deviations=deviations,
    cause=cause,
    counts=lambda changes: tally(changes, {AlterQuota: "quota"}),
)
