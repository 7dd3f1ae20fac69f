"""Settings of record work from the hand-over: a filter, headers to add, provenance. Frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.replication.expressions.added_headers import AddedHeader
from reconciler.replication.expressions.record_filter import Where
from reconciler.replication.handover import FlowSettings, Provenance


@dataclass(frozen=True, slots=True)
class ProvenanceSettings:
    """What was found out when the flow was taken over: short ids of both clusters; ``floors``: by source topic and
    partition, the offset below which records may be unmarked copies, so that a copy never begins there. ``unknown``:
    where another client committed the position that should say so, and whose flow's it is; no copy begins there."""

    source: bytes = b""
    target: bytes = b""
    floors: Mapping[tuple[str, int], int] = field(default_factory=dict)
    unknown: Mapping[tuple[str, int], str] = field(default_factory=dict)

    def not_before(self, place: tuple[str, int], offset: int) -> int:
        """Where a first copy of a source topic and partition begins, if it should begin at ``offset``."""
        return max(offset, self.floors.get(place, 0))


NO_GROUND = ProvenanceSettings()


@dataclass(frozen=True, slots=True)
class RecordWork:
    where: Where | None = None
    headers: tuple[AddedHeader, ...] = ()
    provenance: Provenance | None = None

    def __bool__(self) -> bool:
        return self.where is not None or bool(self.headers) or self.provenance is not None

    def first_mark(self, offset: int) -> tuple[int, int] | None:
        """``Position.marked`` of a partition whose first copy begins at a source offset."""
        return None if self.provenance is None else (0, offset)

    @property
    def reason(self) -> str:
        """Why batches do not travel whole, in the words of the environment."""
        asked = {"where": self.where, "headers": self.headers or None, "provenance": self.provenance}
        return "record work: " + ", ".join(word for word, desired in asked.items() if desired is not None)


NO_WORK = RecordWork()


def work_of(flow: FlowSettings) -> RecordWork:
    return RecordWork(flow.where, () if flow.headers is None else flow.headers.add, flow.provenance)
