"""What the verify job is asked, and what it answered as values. Names in both: schemas/verify.schema.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from reconciler.errors import ReconcilerError, Unknown
from reconciler.live import LiveCluster, LiveTopic
from reconciler.verification import (
    ComparedPartition,
    Equality,
    FirstDifference,
    OffsetRange,
    Part,
    ShownRecord,
    VerifyWish,
)

FORMAT_VERSION = 1


def time_ms(text: str | None, option: str) -> int | None:
    """``2026-05-01T12:00:00Z`` (UTC where no zone is given) or milliseconds since 1970. Raises ReconcilerError."""
    if text is None or text.isdigit():
        return None if text is None else int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ReconcilerError(
            f"{option} {text!r} is not a time",
            "Records are chosen by their timestamps.",
            "Write it as 2026-05-01T12:00:00Z, or as milliseconds since 1970.",
        ) from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def request(wish: VerifyWish, flows: Iterable[str], clusters: Mapping[str, LiveCluster]) -> dict[str, Any]:
    """What the job is given beside the mirror's hand-over; the job itself needs no right to describe configs."""
    return {
        "flows": sorted(flows),
        "from_ms": wish.from_ms,
        "to_ms": wish.to_ms,
        "parquet": wish.parquet,
        "topics": {name: _traits(live.topics.values()) for name, live in clusters.items()},
    }


def answered(document: Mapping[str, Any]) -> tuple[ComparedPartition, ...]:
    """Raises ReconcilerError for a document of another release."""
    if document.get("format_version") != FORMAT_VERSION:
        raise ReconcilerError(
            f"the verify job answered in format {document.get('format_version')!r}, not {FORMAT_VERSION}",
            "Reconciler and job come from different releases.",
            "Install one release of both.",
        )
    return tuple(_partition(one) for one in document["partitions"])


def _traits(topics: Iterable[LiveTopic]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"compacted": [], "append_time": [], "unknown": []}
    for topic in topics:
        if isinstance(topic.configs, Unknown):
            found["unknown"].append(topic.name)
            continue
        values = {key: value.value or "" for key, value in topic.configs.items()}
        if "compact" in values.get("cleanup.policy", ""):
            found["compacted"].append(topic.name)
        if values.get("message.timestamp.type") == "LogAppendTime":
            found["append_time"].append(topic.name)
    return found


def _partition(given: Mapping[str, Any]) -> ComparedPartition:
    plain = {**given, "state": Equality(given["state"])}
    for side in ("source", "target"):
        plain[side] = OffsetRange(**given[side]) if given.get(side) else None
    plain["difference"] = _difference(given["difference"]) if given.get("difference") else None
    return ComparedPartition(**plain)


def _difference(given: Mapping[str, Any]) -> FirstDifference:
    sides = {side: _shown(given[side]) if given[side] else None for side in ("source", "target")}
    return FirstDifference(**{**given, **sides, "what": tuple(given["what"])})


def _shown(given: Mapping[str, Any]) -> ShownRecord:
    return ShownRecord(Part(**given["key"]), Part(**given["value"]), Part(**given["headers"]), given["timestamp"])
