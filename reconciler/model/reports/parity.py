"""What the parity report holds: differences between two copies of one topic, and whether a rule allows each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.errors import Unknown
from reconciler.live import ConfigValue, LiveState, LiveTopic
from reconciler.topic_configs import THROTTLES, human, same
from reconciler.topology import TopicRef


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
        return 2 if any(not one.allowed for one in self.disparities) else 0


@dataclass(frozen=True, slots=True)
class Verdict:
    allowed: bool
    why: str


@dataclass(frozen=True, slots=True)
class Ends:
    """The two topics that are one, by a flow or by a declaration."""

    flow: str
    source: TopicRef
    remote: TopicRef

    def apart(self, field: str, here: str, there: str, verdict: Verdict) -> Disparity:
        found = verdict.allowed, verdict.why
        return Disparity(self.flow, str(self.source), str(self.remote), field, here, there, *found)


@dataclass(frozen=True, slots=True)
class Configured:
    """One config that both ends have."""

    key: str
    here: ConfigValue
    there: ConfigValue

    def told(self, ends: Ends, verdict: Verdict) -> Disparity:
        return ends.apart(self.key, human(self.key, self.here.value), human(self.key, self.there.value), verdict)


@dataclass(frozen=True, slots=True)
class Pair:
    ends: Ends
    here: LiveTopic
    there: LiveTopic

    @property
    def unread(self) -> tuple[Unknown, ...]:
        return tuple(one.configs for one in (self.here, self.there) if isinstance(one.configs, Unknown))


@dataclass(frozen=True, slots=True)
class Compared:
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


def topic_at(live: LiveState, ref: TopicRef) -> LiveTopic | None:
    """None also where the cluster was not read."""
    cluster = live.known(ref.cluster)
    return cluster.topics.get(ref.name) if cluster else None


def unseen(live: LiveState, ref: TopicRef) -> Unknown | None:
    """Of a topic that is not among those that were read: set where it may yet be there."""
    cluster = live.known(ref.cluster)
    if cluster is None or cluster.sees_all:
        return None
    what = "it is not among the topics that may be described there, and others are hidden"
    return Unknown(str(ref), what, f"Let the plan principal describe it, if it is there: {ref.name} on {ref.cluster}")


def shown(factor: int | None) -> str:
    """A replication factor; None where partitions of one topic differ."""
    return str(factor or "mixed")
