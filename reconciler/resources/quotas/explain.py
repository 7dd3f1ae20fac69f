"""Explains quotas: which are about a user, a client id or an address, and where they are declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.model.quotas import Limits, QuotaEntity, QuotaPart, limits_text
from reconciler.model.reports.explain import RuleAnswer
from reconciler.resources.topics.explain import ExplainBasis

_KINDS = {"User": "user", "client-id": "client-id", "ip": "ip"}
NONE: Limits = {}


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
    declared = {quota.entity: quota for quota in basis.topology.quotas if cluster in quota.clusters}
    known = basis.live.known(cluster) if cluster in basis.answered else None
    quotas = known.quotas if known is not None and isinstance(known.quotas, Mapping) else None
    for whom in sorted({*declared, *(quotas or ())}, key=str):
        if wanted & set(whom.parts):
            quota = declared.get(whom)
            live = None if quotas is None else quotas.get(whom, NONE)
            place = quota.where.line_words if quota is not None else ""
            desired = "" if quota is None else "absent" if quota.absent else limits_text(quota.limits)
            state = "" if live is None else f"live {limits_text(live) or 'none'}"
            because = "unmanaged: not declared" if quota is None else "declared"
            answer = RuleAnswer(cluster, f"{whom}: {desired or limits_text(live or NONE)}", because, place, state)
            yield (whom, answer)
