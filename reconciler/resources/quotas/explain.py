"""Which quotas are about a user, a client id or an address, and where they are declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.explaining.topics import Ground
from reconciler.explanation import RuleAnswer
from reconciler.quotas import Limits, Quota, QuotaEntity, QuotaPart, limits_text

_KINDS = {"User": "user", "client-id": "client-id", "ip": "ip"}
NONE: Limits = {}


def quotas_about(ground: Ground, subject: str) -> tuple[RuleAnswer, ...]:
    """``subject``: ``User:orders-app``, ``client-id:batch`` or ``ip:10.0.0.7``; the default entity counts, too."""
    word, sign, name = subject.partition(":")
    if not sign or word not in _KINDS:
        return ()
    kind = _KINDS[word]
    wanted = {QuotaPart(kind, name), QuotaPart(kind, None)}
    found = tuple(one for cluster in ground.topology.clusters for one in _answers(ground, cluster, wanted))
    if not any(QuotaPart(kind, name) in whom.parts for whom, _ in found):
        return ()
    return tuple(answer for _, answer in found)


def _answers(ground: Ground, cluster: str, wanted: set[QuotaPart]) -> Iterator[tuple[QuotaEntity, RuleAnswer]]:
    declared = {quota.entity: quota for quota in ground.topology.quotas if cluster in quota.clusters}
    known = ground.live.known(cluster) if cluster in ground.answered else None
    there = known.quotas if known is not None and isinstance(known.quotas, Mapping) else None
    for whom in sorted({*declared, *(there or ())}, key=str):
        if wanted & set(whom.parts):
            yield whom, _answer(cluster, whom, declared.get(whom), None if there is None else there.get(whom, NONE))


def _answer(cluster: str, whom: QuotaEntity, quota: Quota | None, there: Limits | None) -> RuleAnswer:
    place = f"{quota.where.file}:{quota.where.line}" if quota is not None and quota.where.line else ""
    wished = "" if quota is None else "absent" if quota.absent else limits_text(quota.limits)
    state = "" if there is None else f"live {limits_text(there) or 'none'}"
    because = "unmanaged: not declared" if quota is None else "declared"
    return RuleAnswer(cluster, f"{whom}: {wished or limits_text(there or NONE)}", because, place, state)
