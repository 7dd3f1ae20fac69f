"""What can still be said of entries whose content is wrong somewhere: the names and expressions they hold.

So that a wrong type in one field does not hide an unknown cluster in the next. Nothing else is judged of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.places import Places
from reconciler.topology import Flow, Topic, Topology
from reconciler.yaml_nodes import Mapping, Scalar, Sequence


def half_read_topics(topology: Topology, places: Places) -> Iterator[Topic]:
    """Topics that could not be built, with nothing but their name and clusters."""
    for name, fields in _broken("topics", frozenset(topology.topics), places):
        yield Topic(name, _texts(fields, "clusters"))


def half_read_flows(topology: Topology, places: Places) -> Iterator[Flow]:
    """Flows that could not be built, with nothing but clusters and expressions; a cluster not written is empty."""
    for name, fields in _broken("flows", frozenset(topology.flows), places):
        source, target = _text(fields, "source"), _text(fields, "target")
        yield Flow(name, source, target, _texts(fields, "topics"), _texts(fields, "exclude_topics"))


def _broken(section: str, built: frozenset[str], places: Places) -> Iterator[tuple[str, Mapping]]:
    for (of, name), place in places.entries.items():
        if of == section and name not in built and isinstance(place.entry.value, Mapping):
            yield name, place.entry.value


def _text(fields: Mapping, name: str) -> str:
    entry = fields.entries.get(name)
    return entry.value.data if entry and isinstance(entry.value, Scalar) and isinstance(entry.value.data, str) else ""


def _texts(fields: Mapping, name: str) -> tuple[str, ...]:
    """The items of a list in their places; one that is no text counts as empty."""
    entry = fields.entries.get(name)
    if entry is None or not isinstance(entry.value, Sequence):
        return ()
    items = (item.data if isinstance(item, Scalar) else None for item in entry.value.items)
    return tuple(item if isinstance(item, str) else "" for item in items)
