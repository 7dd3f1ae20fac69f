"""How far a rollout has come, as kept in Kafka beside the lock, so that a new run goes on where another ended.

By cluster, not by wave: a wave that git renames or cuts in two keeps what its clusters still have to soak. Frozen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

FORMAT_VERSION = 1


def promotion_key(environment: str) -> str:
    return f"rollout/{environment}"


class Stand(StrEnum):
    """BEGUN: changes of its wave are under way, or were cut off. SOAKING: they are done. PASSED: its soak is over."""

    BEGUN = "begun"
    SOAKING = "soaking"
    PASSED = "passed"


@dataclass(frozen=True, slots=True)
class ClusterStand:
    """``soaked_ms``: how long all gates were seen to hold, without a break, since the last change."""

    wave: str
    stand: Stand
    soaked_ms: int = 0


def _nothing() -> Mapping[str, ClusterStand]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Promotion:
    """``halted``: why the rollout stands still, or empty. ``at_ms``: since 1970, of the last word."""

    environment: str
    at_ms: int = 0
    who: str = ""
    halted: str = ""
    clusters: Mapping[str, ClusterStand] = field(default_factory=_nothing)

    def pending(self, clusters: Iterable[str]) -> tuple[str, ...]:
        """Those that were changed and have not soaked to the end."""
        found = ((name, self.clusters.get(name)) for name in clusters)
        return tuple(name for name, one in found if one is not None and one.stand is not Stand.PASSED)

    def soaked_ms(self, clusters: Iterable[str]) -> int:
        """Of the one that soaked least."""
        return min((self.clusters[name].soaked_ms for name in clusters if name in self.clusters), default=0)

    def begun(self, clusters: Iterable[str]) -> bool:
        """Whether changes of one of them are under way, or were cut off."""
        return any(self.clusters[name].stand is Stand.BEGUN for name in clusters if name in self.clusters)

    def set(self, clusters: Iterable[str], stand: ClusterStand) -> Promotion:
        return replace(self, clusters=MappingProxyType({**self.clusters, **dict.fromkeys(clusters, stand)}))


def dumps(promotion: Promotion) -> bytes:
    told = {"environment": promotion.environment, "at_ms": promotion.at_ms, "who": promotion.who}
    clusters = {name: asdict(one) for name, one in promotion.clusters.items()}
    document = {"format_version": FORMAT_VERSION, **told, "halted": promotion.halted, "clusters": clusters}
    return json.dumps(document, sort_keys=True).encode()


def loads(value: bytes) -> Promotion:
    """Raises ValueError for anything ``dumps`` of this version did not write."""
    try:
        found: dict[str, Any] = json.loads(value)
        if found.pop("format_version") != FORMAT_VERSION:
            raise ValueError("another format version")
        clusters = {
            str(name): ClusterStand(str(one["wave"]), Stand(one["stand"]), int(one["soaked_ms"]))
            for name, one in dict(found.pop("clusters")).items()
        }
        return Promotion(clusters=MappingProxyType(clusters), **found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no record of a rollout: {error}") from None
