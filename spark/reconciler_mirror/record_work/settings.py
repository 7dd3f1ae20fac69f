"""What a flow asks of single records: a filter, headers to add, provenance. Frozen, and read from the hand-over.

Border: says what is wished; ``provenance`` and ``batch_records`` carry it out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replication import selection
from replication.additions import AddedHeader

LOCAL, FORWARD = "local", "forward"


@dataclass(frozen=True, slots=True)
class Provenance:
    """``carry``: LOCAL, only records written at the source; FORWARD, also those that came there from elsewhere.
    ``arriving``: flows with provenance that write to the source."""

    carry: str
    arriving: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProvenanceGround:
    """What was found out when the flow was taken over: short ids of both clusters; ``floors``: by source topic and
    partition, the offset below which records may be unmarked copies, so that a copy never begins there."""

    source: bytes = b""
    target: bytes = b""
    floors: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def not_before(self, place: tuple[str, int], offset: int) -> int:
        """Where a first copy of a source topic and partition begins, if it should begin at ``offset``."""
        return max(offset, self.floors.get(place, 0))


NO_GROUND = ProvenanceGround()


@dataclass(frozen=True, slots=True)
class RecordWork:
    where: selection.Where | None = None
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
        return "record work: " + ", ".join(word for word, wish in asked.items() if wish is not None)


NO_WORK = RecordWork()


def read(flow: Mapping[str, Any]) -> RecordWork:
    """From a flow of the hand-over. Raises ValueError, KeyError or TypeError, with the field in the text."""
    where = selection.read(flow["where"]) if "where" in flow else None
    if where is not None:
        try:
            selection.compiled(where)
        except re.error as error:
            raise ValueError(f"where holds a regular expression that is none: {error}") from error
    added = flow.get("headers", {}).get("add", ())
    provenance = flow.get("provenance")
    return RecordWork(
        where,
        tuple(AddedHeader(str(one["name"]), str(one["value"])) for one in added),
        None if provenance is None else _provenance(provenance),
    )


def _provenance(given: Mapping[str, Any]) -> Provenance:
    carry = str(given["carry"])
    if carry not in (LOCAL, FORWARD):
        raise ValueError(f"provenance.carry is {carry!r}; it must be {LOCAL} or {FORWARD}")
    return Provenance(carry, tuple(map(str, given["arriving"])))
