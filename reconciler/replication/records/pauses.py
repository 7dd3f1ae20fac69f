"""Pauses of a flow or mirror: the reconciler writes them as records in the status topic, and the job obeys them.

Each pause is one record, keyed by its scope, so that users who pause different scopes never overwrite each other; a
tombstone resumes. The topic is compacted, so a pause outlives job and CLI.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from reconciler.replication.json_codec import Codec, JsonRecord

_PREFIX = "control"
_NUMBER = re.compile("[0-9]{1,10}")


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

    @property
    def typed(self) -> str:
        """The scope as arguments of a command: ``east-to-west --topic orders --partition 3``."""
        topic = f" --topic {quote(self.topic)}" if self.topic else ""
        return f"{quote(self.flow)}{topic}{f' --partition {self.partition}' if self.partition >= 0 else ''}"

    def __str__(self) -> str:
        if not self.topic:
            return f"flow {self.flow}"
        description = f"topic {self.topic}" if self.partition < 0 else f"partition {self.topic}-{self.partition}"
        return f"{description} of flow {self.flow}"


def scopes_around(flow: str, topic: str, partition: int) -> tuple[Scope, Scope, Scope]:
    """Scopes that cover this partition: three look-ups in a set, for any number of pauses."""
    return Scope(flow), Scope(flow, topic), Scope(flow, topic, partition)


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause, as its record has it."""

    scope: Scope
    since_ms: int
    by: str
    """``user@host`` of the command."""
    reason: str = ""
    """The user's words, or a failover's."""


def pause_key(environment: str, scope: Scope) -> str:
    parts = [_PREFIX, environment, scope.flow]
    if scope.topic:
        parts.append(scope.topic)
    if scope.partition >= 0:
        parts.append(str(scope.partition))
    return "/".join(parts)


def scope_of(environment: str, key: str) -> Scope | None:
    """The scope of a key; None if it is not a pause of this environment."""
    head = f"{_PREFIX}/{environment}/"
    if not key.startswith(head):
        return None
    match key.removeprefix(head).split("/"):
        case [flow]:
            return Scope(flow)
        case [flow, topic]:
            return Scope(flow, topic)
        case [flow, topic, partition] if _NUMBER.fullmatch(partition):
            return Scope(flow, topic, int(partition))
    return None


@dataclass(frozen=True, slots=True)
class _Written:
    """The value of a pause's record, without the scope in its key."""

    since_ms: int
    by: str
    reason: str
    paused: bool = True


def pauses_in(environments: Sequence[str], records: Mapping[str, bytes | None]) -> Mapping[Scope, Pause | None]:
    """Scope -> pause; None for a resumed one. Without scopes that have no record.

    ``environments``: the environment's names, the present one first. The record under the latest name counts.
    """
    said: dict[Scope, Pause | None] = {}
    for environment in reversed(environments):
        for key, value in records.items():
            if (scope := scope_of(environment, key)) is not None:
                said[scope] = None if value is None else loads(scope, value)
    return said


_RECORD = JsonRecord(_Written, "pause", codec=Codec(lenient=True))


def dumps(pause: Pause) -> bytes:
    return _RECORD.dumps(_Written(pause.since_ms, pause.by, pause.reason))


def loads(scope: Scope, value: bytes) -> Pause:
    """Any record under the key of a pause pauses: an unreadable one must not let records flow."""
    try:
        written = _RECORD.loads(value)
    except ValueError:
        return Pause(scope, 0, "somebody", "written by another version")
    return Pause(scope, written.since_ms, written.by, written.reason)
