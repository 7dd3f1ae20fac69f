"""Pauses of the mirror: records in the status topic that the reconciler writes and the mirror job obeys.

One record each, keyed by what it pauses, so that two people who pause different things never overwrite each other;
deleting the record (a tombstone) resumes. The topic is compacted: a pause outlives the job and the CLI.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

FORMAT_VERSION = 1
_PREFIX = "control"


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """A flow as a whole, one of its source topics, or one partition of that. ``partition`` only with ``topic``."""

    flow: str
    topic: str = ""
    partition: int = -1

    def covers(self, topic: str, partition: int) -> bool:
        return self.topic in ("", topic) and self.partition in (-1, partition)

    def within(self, other: Scope) -> bool:
        """Everything of this scope is in ``other``; a scope is within itself."""
        if self.flow != other.flow or other.topic not in ("", self.topic):
            return False
        return other.partition in (-1, self.partition)

    def __str__(self) -> str:
        if not self.topic:
            return f"flow {self.flow}"
        what = f"topic {self.topic}" if self.partition < 0 else f"partition {self.topic}-{self.partition}"
        return f"{what} of flow {self.flow}"


@dataclass(frozen=True, slots=True)
class Pause:
    scope: Scope
    since_ms: int
    by: str
    reason: str = ""


def pause_key(environment: str, scope: Scope) -> str:
    parts = [_PREFIX, environment, scope.flow]
    if scope.topic:
        parts.append(scope.topic)
    if scope.partition >= 0:
        parts.append(str(scope.partition))
    return "/".join(parts)


def scope_of(environment: str, key: str) -> Scope | None:
    """None when the key is none of a pause of this environment."""
    head = f"{_PREFIX}/{environment}/"
    if not key.startswith(head):
        return None
    match key.removeprefix(head).split("/"):
        case [flow]:
            return Scope(flow)
        case [flow, topic]:
            return Scope(flow, topic)
        case [flow, topic, partition] if partition.isdecimal():
            return Scope(flow, topic, int(partition))
    return None


def dumps(pause: Pause) -> bytes:
    value = {"format_version": FORMAT_VERSION, "since_ms": pause.since_ms, "by": pause.by, "reason": pause.reason}
    return json.dumps({"paused": True, **value}, separators=(",", ":")).encode()


def loads(scope: Scope, value: bytes) -> Pause:
    """Whatever is written under the key of a pause pauses: a record nobody understands must not let records flow."""
    try:
        found = json.loads(value)
        return Pause(scope, int(found["since_ms"]), str(found["by"]), str(found["reason"]))
    except (ValueError, KeyError, TypeError):
        return Pause(scope, 0, "somebody", "written by another version")
