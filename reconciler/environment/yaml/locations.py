"""Line numbers of names and fields in the YAML, for errors of validation."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from reconciler.environment.yaml.characters import foreign
from reconciler.environment.yaml.nodes import Document, Entry, Node, Scalar, Sequence
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.errors import NOWHERE, Problem, Where
from reconciler.model.environment.topology import Cluster, Flow, Mirror, Rename, Tombstone, Topic
from reconciler.model.principals import AccessRule, Quota, ScramUser
from reconciler.text import grouped, suggestion

Step = str | int
Declared = AccessRule | Cluster | Flow | Mirror | Quota | Rename | ScramUser | Tombstone | Topic
_SECTIONS: Mapping[type[Declared], str] = {
    AccessRule: "access", Cluster: "clusters", Flow: "flows", Mirror: "mirrors", Quota: "quotas", ScramUser: "users",
    Rename: "moved", Tombstone: "deletions", Topic: "topics",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """One named entry of a section (``clusters``, ``topics``, ``flows``, ``mirrors``) and its file."""

    document: Document
    entry: Entry

    @property
    def where(self) -> Where:
        return self.document.where(self.entry)


@dataclass(frozen=True)
class Places:
    """``entries`` by (section, name), also those whose content is wrong. ``complete`` is False when a file could not
    be read: then a name that is not found may still exist."""

    entries: Mapping[tuple[str, str], Place] = field(default_factory=lambda: MappingProxyType({}))
    complete: bool = True

    def find(self, section: str, name: str, *path: Step, or_else: Where = NOWHERE) -> Where:
        """The place of a field, or of its nearest written parent, or ``or_else``."""
        place = self.entries.get((section, name))
        if place is None:
            return or_else
        return place.document.where(locate(place.entry, path))

    def of(self, noun: Declared, *path: Step) -> Where:
        """As ``find``, for a declared value."""
        match noun:
            case AccessRule() | Quota() | ScramUser():
                name = str(noun.number)
            case Tombstone():
                name = str(noun.ref)
            case Rename():
                name = f"{noun.kind} {noun.name}"
            case _:
                name = noun.name
        return self.find(_SECTIONS[type(noun)], name, *path, or_else=noun.where)

    def has(self, section: str, name: str) -> bool:
        return (section, name) in self.entries

    @cached_property
    def names(self) -> Mapping[str, Collection[str]]:
        """By section. Each of ten thousand topics may name an undeclared cluster."""
        return grouped(self.entries)


def locate(start: Entry | Node, path: Iterable[Step]) -> Entry | Node:
    """The node or key at the end of ``path``, or the last one on the way that exists: a scalar itself, a collection's
    key."""
    here: Entry | Node = start
    for step in path:
        node = here.value if isinstance(here, Entry) else here
        if isinstance(node, YamlMapping) and step in node.entries:
            here = node.entries[str(step)]
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            here = node.items[step]
        else:
            break
    written = isinstance(here, Entry) and isinstance(here.value, Scalar) and here.value.text
    if isinstance(here, Entry) and written and here is not start:
        return here.value
    return here


def unknown_name(
    places: Places, declared: Collection[str], name: str, subject: str, where: Where, section: str = "clusters"
) -> Iterator[Problem]:
    """A problem if ``subject`` names a cluster or flow that no file declares, and every file was read."""
    if name in declared or places.has(section, name) or not places.complete:
        return  # before the walk over all entries: each topic comes here
    known = {*declared, *places.names.get(section, ())}
    code = "unknown-cluster" if section == "clusters" else "unknown-flow"
    hidden = f", which holds {foreign(name)}" if not name.isascii() else ""
    problem = f"{subject} names the unknown {section.removesuffix('s')} {name}{hidden}"
    todo = suggestion(name, known, f"Declare it under {section}")
    yield Problem(code, where, problem, "No file of the environment declares it", todo)


def unknown_clusters(
    places: Places, declared: Collection[str], noun: AccessRule | Quota | ScramUser | Topic, subject: str
) -> Iterator[Problem]:
    """``unknown_name`` for each cluster that a declaration lists."""
    for index, name in enumerate(noun.clusters):
        if name and name not in declared:
            yield from unknown_name(places, declared, name, subject, places.of(noun, "clusters", index))
