"""One parsed entry of the environment's files while it is read: values at paths, and the problems noted on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from reconciler.errors import Problem
from reconciler.places import Place, Step, locate
from reconciler.settings import Wrong
from reconciler.shape import subject
from reconciler.yaml_nodes import Mapping as YamlMapping
from reconciler.yaml_nodes import Node, Scalar, Sequence


@dataclass(slots=True)
class Reading:
    """One entry being read. ``problems`` grows; the entry is usable when none came."""

    section: str
    name: str
    place: Place
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, path: tuple[Step, ...], wrong: Wrong) -> None:
        where = self.place.document.where(locate(self.place.entry, path))
        what = f"{subject((self.section, self.name))}: {wrong.what}"
        self.problems.append(Problem(wrong.code, where, what, wrong.why, wrong.todo))

    def node(self, *path: str) -> Node | None:
        """The node at a path of field names, or None when it is not written."""
        node: Node = self.place.entry.value
        for step in path:
            if not isinstance(node, YamlMapping) or step not in node.entries:
                return None
            node = node.entries[step].value
        return node

    def value(self, *path: str, default: Any) -> Any:
        """The plain value at a path. The schema has already seen to its type."""
        node = self.node(*path)
        if node is None:
            return default
        data = node.data
        return int(data) if isinstance(data, float) else data

    def texts(self, *path: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        node = self.node(*path)
        if not isinstance(node, Sequence):
            return default
        return tuple([item.text for item in node.items if isinstance(item, Scalar)])

    def mapping(self, *path: str, each: Callable[[str, Node], str | Wrong]) -> Mapping[str, str]:
        node = self.node(*path)
        found: dict[str, str] = {}
        if isinstance(node, YamlMapping):
            for key, entry in node.entries.items():
                value = each(key, entry.value)
                if isinstance(value, Wrong):
                    self.wrong((*path, key), value)
                else:
                    found[key] = value
        return MappingProxyType(found)


def sentence(error: ValueError) -> str:
    text = str(error)
    return text[0].upper() + text[1:]
