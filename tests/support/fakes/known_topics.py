"""Topics of a cluster as discovery reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reconciler_mirror.driver.discovery import SourceTopic

from reconciler.kafka.client.errors import ConnectionLostError


@dataclass
class Known:
    """A cluster with the given topics and partition counts; ``broken`` makes every read fail, ``hidden`` topics may not
    be described."""

    counts: dict[str, int]
    ids: dict[str, str] = field(default_factory=dict)
    broken: bool = False
    hidden: set[str] = field(default_factory=set)

    def topics(self) -> Mapping[str, SourceTopic]:
        if self.broken:
            raise ConnectionLostError("no route")
        return {
            name: SourceTopic(count, self.ids.get(name, f"id-{name}"))
            for name, count in self.counts.items()
            if name not in self.hidden
        }

    def close(self) -> None:
        pass

    def denied(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(names) & self.hidden
