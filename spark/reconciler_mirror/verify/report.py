"""The result document of the verify job (schemas/verify.schema.json)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from reconciler_mirror.verify.chunks import PartitionReading
from reconciler_mirror.verify.diverged import Writer
from reconciler_mirror.verify.diverged import words as diverged_words
from reconciler_mirror.verify.first_difference import FoundDifference
from reconciler_mirror.verify.model import OffsetSpan, PartitionRange, Unread
from reconciler_mirror.verify.tasks import ChunkCounts, Located

FORMAT_VERSION = 1
_AGAIN = "Verify again; if it comes back, compare a smaller range with --from."


def partition(
    plan: PartitionRange,
    read: PartitionReading | None,
    counts: ChunkCounts,
    located: Located | None,
    writer: Writer | None = None,
) -> dict[str, Any]:
    """``read`` None: its task gave nothing back, which is never taken for equal. ``writer``: see ``diverged``."""
    state, reason, todo = _state(plan, read, counts, located)
    difference = located.difference if located is not None and state == "different" else None
    if difference is not None and plan.same_offsets:
        reason, todo = diverged_words(plan, difference, writer)
    older = (counts.older_source, counts.older_target)
    if read is not None and not plan.compacted:
        older = (read.older_source, read.older_target)
    return {
        **_names(plan.flow, plan.source.topic, plan.target.topic, plan.source.partition),
        "state": state,
        "compared": "keys" if plan.compacted else "records",
        "equal": counts.equal,
        "source_records": counts.source,
        "target_records": counts.target,
        "differing": counts.differing,
        "changing": counts.changing,
        "older_at_source": older[0],
        "older_at_target": older[1],
        "lag": max(0, plan.until - max(plan.position, read.source_end if read else 0)),
        "position": plan.position,
        "source": _range(plan.source, read.source_start if read else 0),
        "target": _range(plan.target, read.target_start if read else 0),
        "timestamps": plan.timestamps,
        "difference": _difference(difference),
        "reason": reason,
        "todo": todo,
    }


def unread(given_unread: Unread) -> dict[str, Any]:
    """A partition (or topic or flow: partition -1) of which nothing was read."""
    return {
        **_names(given_unread.flow, given_unread.topic, given_unread.target_topic, given_unread.partition),
        "state": "unknown",
        "compared": "nothing",
        "reason": given_unread.reason,
        "todo": given_unread.todo,
    }


def document(application: str, partitions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    ordered = sorted(partitions, key=lambda p: (p["flow"], p["source_topic"], p["partition"]))
    return {"format_version": FORMAT_VERSION, "application_id": application, "partitions": ordered}


def _state(
    plan: PartitionRange, read: PartitionReading | None, counts: ChunkCounts, located: Located | None
) -> tuple[str, str, str]:
    if read is None:
        return "unknown", "the Spark task that read it gave nothing back", _AGAIN
    if read.error:
        return "unknown", read.error, read.todo
    if counts.suspect is None and plan.source.start < plan.position <= read.source_start:
        return "unknown", "everything was removed from the source before it was read", _AGAIN
    if counts.suspect is None:
        return "equal", "", ""
    if located is None or located.error:
        return "unknown", located.error if located else "its difference was not looked for", _AGAIN
    if located.difference is None:
        kind = "keys" if plan.compacted else "records"
        return "unknown", f"a first reading found different {kind}, a second one did not", _AGAIN
    return "different", "", ""


def _names(flow: str, source: str, target: str, number: int) -> dict[str, Any]:
    return {"flow": flow, "source_topic": source, "target_topic": target, "partition": number}


def _range(span: OffsetSpan, start: int) -> dict[str, Any]:
    return {"cluster": span.endpoint.cluster, "start": max(start, span.start), "end": span.end}


def _difference(difference: FoundDifference | None) -> dict[str, Any] | None:
    if difference is None:
        return None
    return {**asdict(difference), "what": list(difference.what)}
