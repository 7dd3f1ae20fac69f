"""What differs from git, and why, as far as facts show: the plan's own, and the audit record of earlier runs. And
parity: differences between copies of one topic, and whether a rule allows each.
"""

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


class Cause(StrEnum):
    """A throttle of a reassignment is never a difference: it is among the ignored, rule ``throttle``."""

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
    """By change id: the outcomes of earlier runs, oldest first; and when runs began that never ended their plan.

    ``cut_off``: none has ended since, so what is not done is what they left. ``overtaken``: the last one after which
    others ended; what these held back may be left of it, or be new. ``known``: there is a record at all.
    """

    changes: Mapping[str, tuple[Line, ...]] = field(default_factory=dict)
    cut_off: Mapping[str, str] = field(default_factory=dict)
    known: bool = False
    overtaken: str = ""

    @property
    def no_run(self) -> str:
        """Why no run is known that did something: there was none, or there is no record of runs here."""
        return "no earlier run did it" if self.known else "no record of earlier runs is here"

    def last(self, change_id: str) -> Line | None:
        """What became of a change the last time."""
        lines = self.changes.get(change_id, ())
        return lines[-1] if lines else None


@dataclass(frozen=True, slots=True)
class Deviation:
    """What one change would bring back. ``kind`` is stable. ``origin``: as in ``Difference``; ``config``: of which it
    is, where a change has several."""

    subject: str
    kind: str
    wished: str
    found: str
    origin: str = ""
    config: ConfigChange | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """``kind`` is stable; ``mended_by`` is the id of the planned change that would bring it back.

    ``cause`` and ``why``: how it came to be, as far as facts show. ``origin``: who needs it, of a topic that git does
    not declare and of a config that the topic itself does not.
    """

    subject: str
    kind: str
    wished: str
    found: str
    risk: str
    mended_by: str
    cause: Cause
    why: str
    origin: str = ""

    @property
    def aim(self) -> str:
        return f"desired: {self.wished} ({self.origin})" if self.origin else f"declared: {self.wished}"


@dataclass(frozen=True, slots=True)
class Disparity:
    """``flow``: empty where git declares the topic on both clusters. ``field``: topic, partitions, replication factor,
    or a config. ``allowed``: by the rule that ``why`` names."""

    flow: str
    source: str
    remote: str
    field: str
    here: str
    there: str
    allowed: bool
    why: str


@dataclass(frozen=True, slots=True)
class Parity:
    """``compared``: pairs of topics of which both were read."""

    environment: str
    compared: int
    disparities: tuple[Disparity, ...]
    unknown: tuple[Unknown, ...]

    @property
    def exit_code(self) -> int:
        """1 when something could not be read, 2 when something differs that no rule allows, else 0."""
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
    """The two topics that are one, by a flow or by a declaration."""

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
    """Of two topics that are both there. ``unread``: configs that could not be read, so nothing is said of them."""

    disparities: tuple[Disparity, ...]
    unread: tuple[Unknown, ...]


def differing(pair: Pair) -> Iterator[Configured]:
    """The configs whose values mean different things; none where one side was not read."""
    if isinstance(pair.here.configs, Unknown) or isinstance(pair.there.configs, Unknown):
        return
    for key in sorted(pair.here.configs.keys() & pair.there.configs.keys() - THROTTLES):
        here, there = pair.here.configs[key], pair.there.configs[key]
        if not (here.sensitive or there.sensitive or same(key, here.value, there.value)):
            yield Configured(key, here, there)


def unseen(live: LiveState, ref: TopicRef) -> Unknown | None:
    """Of a topic that is not among those that were read: set where it may yet be there."""
    cluster = live.known(ref.cluster)
    return cluster.hidden.get(ref.name) if cluster else None


def shown(factor: int | None) -> str:
    """A replication factor; None where partitions of one topic differ."""
    return str(factor or "mixed")
