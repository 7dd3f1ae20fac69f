"""Differences from git and their causes, as far as the plan and the audit record of earlier runs show them; and parity:
differences between copies of one topic, and whether a rule allows each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from reconciler.errors import Unknown
from reconciler.model.changes import ConfigChange
from reconciler.model.config_values import THROTTLES, human, same
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import ConfigValue, LiveState, LiveTopic

Line = Mapping[str, Any]
"""One line of an audit record (schemas/audit.schema.json)."""


def recorded(line: Line, name: str) -> list[Mapping[str, Any]]:
    """The parts of the recorded change, such as its ``configs`` or ``limits``; none where the line has no such list."""
    change = line.get("change")
    parts = change.get(name) if isinstance(change, Mapping) else None
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list | tuple) else []


class Cause(StrEnum):
    """A throttle of a reassignment is never a difference: it is ignored, by rule ``throttle``."""

    EDITED_OUTSIDE = "edited-outside"
    HALF_FINISHED = "half-finished-apply"
    DEFAULT_CHANGED = "broker-default-changed"
    NORMALISED = "vendor-normalised"
    UNDETERMINED = "not-told"


@dataclass(frozen=True, slots=True)
class FoundCause:
    cause: Cause
    why: str


@dataclass(frozen=True, slots=True)
class History:
    """What the audit record says of earlier runs, for the causes of drift."""

    changes: Mapping[str, tuple[Line, ...]] = field(default_factory=dict)
    """Change id -> its lines in the audit record, oldest first."""
    cut_off: Mapping[str, str] = field(default_factory=dict)
    """Unfinished runs since the last finished one -> when each began."""
    known: bool = False
    """Whether there is a record at all."""
    overtaken: str = ""
    """When the last unfinished run began that a finished one followed; a missing change may be left from it, or new."""

    @property
    def no_run(self) -> str:
        """Why no earlier run explains a difference: there was none, or no record of runs is here."""
        return "no earlier run did it" if self.known else "no record of earlier runs is here"

    def last(self, change_id: str) -> Line | None:
        """The last outcome of a change."""
        lines = self.changes.get(change_id, ())
        return lines[-1] if lines else None


@dataclass(frozen=True, slots=True)
class Deviation:
    """A difference that one planned change would remove. ``kind`` is stable."""

    subject: str
    kind: str
    wished: str
    found: str
    origin: str = ""
    """As in ``Difference``."""
    config: ConfigChange | None = None
    """The config in question, if the change has several."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between git and a cluster. ``kind`` is stable; ``cause`` and ``why``: its origin, as far as facts
    show."""

    subject: str
    kind: str
    wished: str
    """As git declares it; ``found``: as the cluster has it, both in words."""
    found: str
    risk: str
    """Of the change that would remove it."""
    mended_by: str
    """Id of the planned change that would remove the difference."""
    cause: Cause
    why: str
    origin: str = ""
    """Who needs the topic or config, if the topic's declaration does not give it."""

    @property
    def aim(self) -> str:
        return f"desired: {self.wished} ({self.origin})" if self.origin else f"declared: {self.wished}"


@dataclass(frozen=True, slots=True)
class Disparity:
    """A difference between two clusters that are compared with each other, not with git."""

    flow: str
    """Empty if git declares the topic on both clusters."""
    source: str
    remote: str
    field: str
    """Topic, partitions, replication factor, or a config."""
    here: str
    there: str
    allowed: bool
    """By the rule that ``why`` names."""
    why: str


@dataclass(frozen=True, slots=True)
class Parity:
    """``compared``: number of pairs whose topics were both read."""

    environment: str
    compared: int
    disparities: tuple[Disparity, ...]
    unknown: tuple[Unknown, ...]

    @property
    def exit_code(self) -> int:
        """1 if a read failed, 2 for a difference that no rule allows, else 0."""
        if self.unknown:
            return 1
        return 2 if self.those(allowed=False) else 0

    def those(self, *, allowed: bool) -> tuple[Disparity, ...]:
        return tuple(disparity for disparity in self.disparities if disparity.allowed is allowed)


@dataclass(frozen=True, slots=True)
class ParityVerdict:
    allowed: bool
    why: str


@dataclass(frozen=True, slots=True)
class Ends:
    """Two topics that should be equal, by a flow or a declaration."""

    flow: str
    source: TopicRef
    remote: TopicRef

    def apart(self, field: str, here: str, there: str, verdict: ParityVerdict) -> Disparity:
        names = self.flow, str(self.source), str(self.remote)
        return Disparity(*names, field, here, there, verdict.allowed, verdict.why)


@dataclass(frozen=True, slots=True)
class Configured:
    """One config that both ends have."""

    key: str
    here: ConfigValue
    there: ConfigValue

    def disparity(self, ends: Ends, verdict: ParityVerdict) -> Disparity:
        return ends.apart(self.key, human(self.key, self.here.value), human(self.key, self.there.value), verdict)


@dataclass(frozen=True, slots=True)
class Pair:
    ends: Ends
    here: LiveTopic
    there: LiveTopic

    @property
    def unread(self) -> tuple[Unknown, ...]:
        return tuple(topic.configs for topic in (self.here, self.there) if isinstance(topic.configs, Unknown))


@dataclass(frozen=True, slots=True)
class ComparedTopics:
    """The comparison of two existing topics. ``unread``: configs that could not be read, so they are not compared."""

    disparities: tuple[Disparity, ...]
    unread: tuple[Unknown, ...]


def differing(pair: Pair) -> Iterator[Configured]:
    """Configs with different meanings; none if one side was not read."""
    if isinstance(pair.here.configs, Unknown) or isinstance(pair.there.configs, Unknown):
        return
    for key in sorted(pair.here.configs.keys() & pair.there.configs.keys() - THROTTLES):
        here, there = pair.here.configs[key], pair.there.configs[key]
        if not (here.sensitive or there.sensitive or same(key, here.value, there.value)):
            yield Configured(key, here, there)


def unseen(live: LiveState, ref: TopicRef) -> Unknown | None:
    """For a topic that was not read: why it may exist anyway, else None."""
    cluster = live.known(ref.cluster)
    return cluster.hidden.get(ref.name) if cluster else None


def shown(factor: int | None) -> str:
    """A replication factor; None if partitions of the topic differ."""
    return str(factor or "mixed")
