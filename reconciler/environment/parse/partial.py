"""What is still known of entries with a mistake: their names and expressions, so that other rules can be checked.

So that a wrong type in one field does not hide an unknown cluster in the next. Nothing else is judged of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from reconciler.environment.parse.values import Wrong, client_setting, retention_step, spark_setting, topic_config
from reconciler.environment.yaml.entry import Reading
from reconciler.environment.yaml.locations import Places
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.nodes import Node, Scalar, Sequence
from reconciler.model.environment.topology import Flow, Principal, Topic, Topology


def half_read_topics(topology: Topology, places: Places) -> Iterator[Topic]:
    """Topics that could not be built, with nothing but their name and clusters."""
    for name, fields in _broken("topics", frozenset(topology.topics), places):
        yield Topic(name, _texts(fields, "clusters"))


def half_read_flows(topology: Topology, places: Places) -> Iterator[Flow]:
    """Flows that could not be built, with nothing but clusters and expressions; a cluster not written is empty."""
    for name, fields in _broken("flows", frozenset(topology.flows), places):
        source, target = _text(fields, "source"), _text(fields, "target")
        yield Flow(name, source, target, _texts(fields, "topics"), _texts(fields, "exclude_topics"))


def _broken(section: str, built: frozenset[str], places: Places) -> Iterator[tuple[str, YamlMapping]]:
    for (of, name), place in places.entries.items():
        if of == section and name not in built and isinstance(place.entry.value, YamlMapping):
            yield name, place.entry.value


def _text(fields: YamlMapping, name: str) -> str:
    entry = fields.entries.get(name)
    return entry.value.data if entry and isinstance(entry.value, Scalar) and isinstance(entry.value.data, str) else ""


def _texts(fields: YamlMapping, name: str) -> tuple[str, ...]:
    """The items of a list in their places; one that is no text counts as empty."""
    entry = fields.entries.get(name)
    if entry is None or not isinstance(entry.value, Sequence):
        return ()
    items = (item.data if isinstance(item, Scalar) else None for item in entry.value.items)
    return tuple(item if isinstance(item, str) else "" for item in items)


VALUES: Mapping[str, tuple[tuple[tuple[str, ...], Callable[[str, Node], str | Wrong]], ...]] = MappingProxyType(
    {
        "clusters": (
            (("client",), client_setting),
            *((("principals", principal.value), client_setting) for principal in Principal),
            (("defaults", "configs"), topic_config),
            (("defaults", "lower_retention_by"), retention_step),
        ),
        "topics": ((("configs",), topic_config), (("lower_retention_by",), retention_step)),
        "defaults": ((("configs",), topic_config), (("lower_retention_by",), retention_step)),
        "classes": ((("configs",), topic_config), (("lower_retention_by",), retention_step)),
        "mirrors": ((("spark_conf",), spark_setting), (("verify_conf",), spark_setting)),
    }
)


def judge_values(reading: Reading) -> None:
    """Only notes the problems of single values: for entries whose shape is wrong elsewhere."""
    for path, each in VALUES.get(reading.section, ()):
        reading.mapping(*path, each=each)
