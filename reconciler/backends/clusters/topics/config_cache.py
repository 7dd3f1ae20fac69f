"""Shared by both readers of topics: a probe for missing rights, words for hidden topics, and interned configs."""

import sys
from collections.abc import Mapping
from types import MappingProxyType

from reconciler.backends.connections.errors import Speaker
from reconciler.errors import ClusterError, Unknown
from reconciler.kafka.protocol.metadata_and_configs import ConfigOf
from reconciler.model.live import ConfigValue, Source

Configs = Mapping[str, ConfigValue] | Unknown

VISIBILITY_PROBE = "reconciler-visibility-probe"
"""An unused name. Only a principal with Describe on all topics gets UNKNOWN_TOPIC_OR_PARTITION for it; others are
denied."""
TOPIC, BUILT_IN = 1, 5
_SOURCES = {
    TOPIC: Source.TOPIC,
    2: Source.BROKER,
    3: Source.CLUSTER,
    4: Source.STATIC,
    BUILT_IN: Source.BUILT_IN,
}


class ConfigShelf:
    """Interns configs within one read of one cluster: ten thousand topics mostly share the same thirty entries."""

    def __init__(self) -> None:
        self._values: dict[ConfigOf, ConfigValue] = {}
        self._mappings: dict[tuple[tuple[str, int], ...], Mapping[str, ConfigValue]] = {}
        self._known: dict[int, tuple[tuple[ConfigOf, ...], Mapping[str, ConfigValue]]] = {}

    def mapping(self, entries: tuple[ConfigOf, ...]) -> Mapping[str, ConfigValue]:
        """Config name -> value, sorted. An identical tuple is found by its ``id``, without comparing entries."""
        known = self._known.get(id(entries))
        if known is not None:
            return known[1]
        configs: dict[str, ConfigValue] = {}
        for entry in sorted(entries, key=lambda config: config.name):
            value = self._values.get(entry)
            if value is None:
                source = _SOURCES.get(entry.source, Source.BUILT_IN)
                value = self._values[entry] = ConfigValue(entry.value, source, entry.sensitive, entry.read_only)
            configs[sys.intern(entry.name)] = value
        # the shelf keeps all values and lists alive, so an id stays unique
        made = self._mappings.setdefault(tuple((n, id(v)) for n, v in configs.items()), MappingProxyType(configs))
        self._known[id(entries)] = entries, made
        return made


def hidden_topic(speaker: Speaker, topic: str, failed: ClusterError) -> Unknown:
    description = f"{failed.what}, so it is not known whether it exists"
    todo = f"{failed.todo} (a Deny rule that names it wins over that: remove it)"
    return Unknown(f"{speaker.cluster}/{topic}", description, todo)


def unknown_configs(speaker: Speaker, topic: str, failed: ClusterError) -> Unknown:
    return Unknown(f"configs of {speaker.cluster}/{topic}", f"{failed.what}. {failed.why}", failed.todo)
