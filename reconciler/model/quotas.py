"""Client quotas of a user, client id or address (KIP-546), as declared and as keys and entities."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from reconciler.errors import NOWHERE, Where
from reconciler.text import BYTES, quoted

KINDS = ("user", "client-id", "ip")
BYTE_RATES = ("producer_byte_rate", "consumer_byte_rate")
CONNECTIONS = "connection_creation_rate"
OF_CLIENTS = (*BYTE_RATES, "request_percentage", "controller_mutation_rate")
KEYS = (*OF_CLIENTS, CONNECTIONS)
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@/=+-]*")

Limits = Mapping[str, float]


@dataclass(frozen=True, slots=True, order=True)
class QuotaPart:
    """``name`` None: Kafka's default entity, which holds for everybody without a quota of their own."""

    kind: str
    name: str | None

    def __str__(self) -> str:
        if self.name is None:
            return f"default {self.kind}"
        return f"{self.kind} {self.name if _PLAIN.fullmatch(self.name) else quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """``parts`` in the order of ``KINDS``: a user, a client id, both, or an IP address."""

    parts: tuple[QuotaPart, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.parts))


def entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    """``parts``: kind -> name."""

    def place(kind: str) -> tuple[int, str]:
        return KINDS.index(kind) if kind in KINDS else len(KINDS), kind

    return QuotaEntity(tuple(QuotaPart(kind, parts[kind]) for kind in sorted(parts, key=place)))


@dataclass(frozen=True, slots=True)
class Quota:
    """One entry of ``quotas``. ``number`` counts entries from 1, in file order."""

    number: int
    clusters: tuple[str, ...]
    entity: QuotaEntity
    limits: Limits = field(default_factory=lambda: MappingProxyType({}))
    """Key -> the desired value."""
    remove: tuple[str, ...] = ()
    """Keys that must have none."""
    absent: bool = False
    """No key may have one."""
    where: Where = field(default=NOWHERE, compare=False)


def limit_words(key: str, value: float) -> str:
    """``10 MiB/s``, ``200 %``; exact."""
    plain = f"{int(value)}" if value == int(value) else repr(value)
    if key in BYTE_RATES:
        return f"{exact_size(value) or f'{plain} B'}/s"
    return f"{plain} %" if key == "request_percentage" else f"{plain}/s"


def exact_size(value: float) -> str:
    """With the largest unit that divides it; empty for what is no whole number of bytes."""
    if value != int(value) or value <= 0:
        return ""
    unit, size = max((pair for pair in BYTES.items() if int(value) % pair[1] == 0), key=lambda key: key[1])
    return f"{int(value) // size} {unit}"


def limits_text(limits: Limits) -> str:
    return ", ".join(f"{key} {limit_words(key, value)}" for key, value in sorted(limits.items()))
