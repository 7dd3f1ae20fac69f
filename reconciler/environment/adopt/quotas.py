"""Adopts the quotas of a live cluster as ``quotas`` entries; reports what no entry can hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from reconciler.environment.yaml.nodes import CONTROL
from reconciler.model.quotas import BYTE_RATES, CONNECTIONS, KINDS, OF_CLIENTS, Limits, Quota, QuotaEntity, limit_words


@dataclass(frozen=True, slots=True)
class AdoptedQuotas:
    quotas: tuple[Quota, ...] = ()
    left_out: tuple[str, ...] = ()


NO_QUOTAS = AdoptedQuotas()


def adopt_quotas(cluster: str, live: Mapping[QuotaEntity, Limits]) -> AdoptedQuotas:
    """In the order of their entities; one entry each."""
    quotas: list[Quota] = []
    left_out: list[str] = []
    for whom, limits in sorted(live.items(), key=lambda pair: str(pair[0])):
        if why := _why_not(whom):
            left_out.append(f"{whom}: {why}")
            continue
        fitting = (CONNECTIONS,) if whom.parts[0].kind == "ip" else OF_CLIENTS
        taken = {key: value for key, value in sorted(limits.items()) if key in fitting and _writable(key, value)}
        left_out += [
            f"{whom}: {key} {limit_words(key, value) if math.isfinite(value) else value} cannot be declared"
            for key, value in sorted(limits.items())
            if key not in taken
        ]
        if taken:
            quotas.append(Quota(len(quotas) + 1, (cluster,), whom, MappingProxyType(taken)))
    return AdoptedQuotas(tuple(quotas), tuple(left_out))


def _why_not(whom: QuotaEntity) -> str:
    kinds = [part.kind for part in whom.parts]
    if not kinds or not set(kinds) <= set(KINDS) or ("ip" in kinds and len(kinds) > 1):
        return "nobody that an entry can name"
    if any(part.name is not None and (not part.name or CONTROL.search(part.name)) for part in whom.parts):
        return "it contains characters that are not allowed in a topology"
    if any(part.kind == "user" and (part.name or "").startswith("User:") for part in whom.parts):
        return "a user's name does not begin with User:"
    return ""


def _writable(key: str, value: float) -> bool:
    most = (1 << 31) - 1 if key == CONNECTIONS else (1 << 53) - 1
    if not math.isfinite(value) or not 0 < value <= most:
        return False
    return value == int(value) or key not in (*BYTE_RATES, CONNECTIONS)


def fields_of(quota: Quota) -> Iterator[tuple[str, str | None, float | None]]:
    """Field, text and number, of which one is set; neither: the default. In the order in which they are written."""
    for part in quota.entity.parts:
        yield part.kind.replace("-", "_"), part.name, None
    for key, value in quota.limits.items():
        yield key, None, value
