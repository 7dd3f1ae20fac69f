"""Topics as they will be once everything wished is there: the ground on which the next hop is worked out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.errors import Unknown
from reconciler.layers import Layers, configs, partitions, retention_steps
from reconciler.live import ConfigValue, LiveCluster, LiveTopic, Source
from reconciler.topic_configs import human, number
from reconciler.topology import Topic, TopicRef

BrokerConfigs = Mapping[str, ConfigValue]
Configs = Mapping[str, ConfigValue] | Unknown


@dataclass(frozen=True, slots=True)
class Wanted:
    """A wished config value and where the wish comes from, in words for a plan.

    ``goal``: what is wished in the end, where ``value`` is only a step on the way. ``hold``: why it cannot be set.
    """

    value: str
    origin: str
    goal: str | None = None
    hold: str = ""


@dataclass(frozen=True, slots=True)
class Prospect:
    """``partitions`` None: nobody said how many, the broker will decide when it makes the topic.

    ``unseen``: why nobody can tell whether it is there, and so what it is like; what git says of it may not be so.
    """

    partitions: int | None
    configs: Configs
    unseen: Unknown | None = None

    def at_least(self, partitions: int | None) -> Prospect:
        if self.partitions is None or partitions is None:
            return replace(self, partitions=self.partitions or partitions)
        return replace(self, partitions=max(self.partitions, partitions))


def prospect_of_live(topic: LiveTopic) -> Prospect:
    return Prospect(len(topic.partitions), topic.configs)


def prospect_of_hidden(hidden: Unknown) -> Prospect:
    return Prospect(None, hidden, hidden)


def prospect_of_declared(found: Prospect | None, wish: Topic, layers: Layers, brokers: BrokerConfigs) -> Prospect:
    """A declared topic: its wish over what is live, or over the brokers' values when it is not there yet."""
    base = found or Prospect(None, brokers)
    wished = wish.partitions or (None if found else partitions(layers))
    wanted = wanted_configs(layers, found.configs if found else None)
    return replace(base.at_least(wished), configs=overlaid(base.configs, wanted))


def overlaid(found: Configs, wanted: Mapping[str, Wanted]) -> Configs:
    if isinstance(found, Unknown):
        return found
    there = {
        key: ConfigValue(wish.value, Source.TOPIC, goal=wish.goal) for key, wish in wanted.items() if not wish.hold
    }
    return {**found, **there}


def declared_over(remote: Configs, declared: Prospect, layers: Layers) -> Configs:
    """Configs of a topic that a flow makes and git declares as well: what git says wins, as ``declared`` has it."""
    if isinstance(remote, Unknown) or isinstance(declared.configs, Unknown):
        return remote
    return {**remote, **{key: declared.configs[key] for key in configs(layers) if key in declared.configs}}


def wanted_configs(layers: Layers, live: Configs | None) -> dict[str, Wanted]:
    """What the layers wish. ``live``: what the topic has now, None when it is not there; a retention that is to be
    lowered in steps goes down one step from that."""
    found = {key: Wanted(one.value, one.layer.name) for key, one in configs(layers).items()}
    if live is None or isinstance(live, Unknown):
        return found
    for key, by in retention_steps(layers).items():
        if key in found and key in live:
            found[key] = lowered(key, live[key].value, found[key], by)
    return found


def lowered(key: str, now: str | None, wish: Wanted, by: int) -> Wanted:
    """``wish``, or the first step towards it when it lies more than ``by`` below ``now``."""
    before, after = number(now), number(wish.value)
    if before is None or after is None or after >= before:
        return wish
    if before == float("inf"):
        hold = f"{key} is unlimited now, and steps of {human(key, str(by))} need a value to begin from"
        return replace(wish, hold=hold)
    if before - after <= by:
        return wish
    left = -(-int(before - after) // by)
    origin = f"{wish.origin}, 1 of {left} steps to {human(key, wish.value)}, one an apply"
    return replace(wish, value=str(int(before) - by), origin=origin, goal=wish.value)


def broker_configs(different: Iterable[Mapping[str, ConfigValue]]) -> dict[str, ConfigValue]:
    """What a topic of a cluster has without overrides, as far as its topics tell. ``different``: their configs."""
    found: dict[str, ConfigValue] = {}
    for one in different:
        for key, value in one.items():
            if value.source is not Source.TOPIC:
                found.setdefault(key, value)
    return found


def different_configs(cluster: LiveCluster) -> list[Mapping[str, ConfigValue]]:
    """The configs of all topics, those that are one object once: of ten thousand topics perhaps fifty."""
    every = {id(topic.configs): topic.configs for topic in cluster.topics.values()}
    return [found for found in every.values() if not isinstance(found, Unknown)]


class Prospects(Mapping[TopicRef, Prospect]):
    """By topic, each worked out when somebody asks: most topics travel nowhere, and nobody does."""

    def __init__(self, present: Mapping[str, set[str]], work_out: Callable[[TopicRef], Prospect]) -> None:
        """``present``: names by cluster; it grows by what is put here."""
        self._present = present
        self._work_out = work_out
        self._found: dict[TopicRef, Prospect] = {}

    def names(self, cluster: str) -> Collection[str]:
        return self._present.get(cluster, ())

    def __getitem__(self, ref: TopicRef) -> Prospect:
        found = self._found.get(ref)
        if found is None:
            if ref not in self:
                raise KeyError(ref)
            found = self._found[ref] = self._work_out(ref)
        return found

    def __iter__(self) -> Iterator[TopicRef]:
        return (TopicRef(cluster, name) for cluster, names in self._present.items() for name in names)

    def __len__(self) -> int:
        return sum(map(len, self._present.values()))

    def __contains__(self, ref: object) -> bool:
        return isinstance(ref, TopicRef) and ref.name in self.names(ref.cluster)

    def put(self, ref: TopicRef, prospect: Prospect) -> None:
        """For routing alone, which adds what flows make before it gives these away."""
        self._found[ref] = prospect
        self._present[ref.cluster].add(ref.name)
