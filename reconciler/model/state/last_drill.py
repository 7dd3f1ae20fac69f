"""The last drill of a flow, kept in Kafka beside the lock. Frozen."""

from dataclasses import dataclass

from reconciler.replication.json_codec import JsonRecord


def drill_key(environment: str, flow: str) -> str:
    return f"drill/{environment}/{flow}"


@dataclass(frozen=True, slots=True)
class LastDrill:
    """The last drill of a flow, by its record. ``recovery_s``, ``point_s``: None if not measured."""

    environment: str
    flow: str
    at_ms: int
    met_ms: int
    """When a drill last met its objectives, 0 for never."""
    verdict: str
    recovery_s: float | None
    point_s: float | None
    digest: str
    """Of the report."""
    who: str


_RECORD = JsonRecord(LastDrill, "record of the last drill")
dumps, loads = _RECORD.dumps, _RECORD.loads
