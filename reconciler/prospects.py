"""Topics as they will be once everything wished is there: the ground on which the next hop is worked out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from reconciler.errors import Unknown
from reconciler.live import ConfigValue, LiveCluster, LiveTopic, Source
from reconciler.topology import Cluster, Topic

BrokerConfigs = Mapping[str, ConfigValue]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A wished config value and where the wish comes from, in words for a plan."""

    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Prospect:
    """``partitions`` None: nobody said how many, the broker will decide when it makes the topic."""

    partitions: int | None
    configs: Mapping[str, ConfigValue] | Unknown

    def at_least(self, partitions: int | None) -> Prospect:
        if self.partitions is None or partitions is None:
            return replace(self, partitions=self.partitions or partitions)
        return replace(self, partitions=max(self.partitions, partitions))


def prospect_of_live(topic: LiveTopic) -> Prospect:
    return Prospect(len(topic.partitions), topic.configs)


def prospect_of_declared(found: Prospect | None, wish: Topic, cluster: Cluster, brokers: BrokerConfigs) -> Prospect:
    """A declared topic: its wish over what is live, or over the brokers' values when it is not there yet."""
    base = found or Prospect(None, brokers)
    wished = wish.partitions or (None if found else cluster.defaults.partitions)
    return replace(base.at_least(wished), configs=overlaid(base.configs, declared_configs(wish, cluster)))


def overlaid(
    configs: Mapping[str, ConfigValue] | Unknown, wanted: Mapping[str, Wanted]
) -> Mapping[str, ConfigValue] | Unknown:
    if isinstance(configs, Unknown):
        return configs
    return {**configs, **{key: ConfigValue(wish.value, Source.TOPIC) for key, wish in wanted.items()}}


def declared_configs(wish: Topic, cluster: Cluster) -> dict[str, Wanted]:
    """The topic's own configs over the cluster's ``defaults.configs``."""
    return default_configs(cluster) | {key: Wanted(value, "declared") for key, value in wish.configs.items()}


def default_configs(cluster: Cluster) -> dict[str, Wanted]:
    origin = f"default of cluster {cluster.name}"
    return {key: Wanted(value, origin) for key, value in cluster.defaults.configs.items()}


def broker_configs(cluster: LiveCluster) -> dict[str, ConfigValue]:
    """What a topic of this cluster has without overrides, as far as its topics tell."""
    found: dict[str, ConfigValue] = {}
    for topic in cluster.topics.values():
        if not isinstance(topic.configs, Unknown):
            for key, value in topic.configs.items():
                if value.source is not Source.TOPIC:
                    found.setdefault(key, value)
    return found
