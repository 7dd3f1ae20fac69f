"""Where each name and field of an environment stands, so that rules over nouns can point at the line to edit.

Border: holds parsed documents and answers questions about places; judges nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from reconciler.errors import NOWHERE, Problem, Where
from reconciler.yaml_nodes import Document, Entry, Node, Scalar, Sequence
from reconciler.yaml_nodes import Mapping as YamlMapping

Step = str | int


@dataclass(frozen=True, slots=True)
class Place:
    """One named entry of a section (``clusters``, ``topics``, ``flows``, ``mirrors``) and the file it stands in."""

    document: Document
    entry: Entry

    @property
    def where(self) -> Where:
        return self.document.where(self.entry)


@dataclass(frozen=True, slots=True)
class Places:
    """``entries`` by (section, name), also those whose content is wrong. ``complete`` is False when a file could not
    be read: then a name that is not found may still exist."""

    entries: Mapping[tuple[str, str], Place] = field(default_factory=lambda: MappingProxyType({}))
    complete: bool = True

    def find(self, section: str, name: str, *path: Step, or_else: Where = NOWHERE) -> Where:
        """The place of a field, or of its nearest parent that is written down, or ``or_else``."""
        place = self.entries.get((section, name))
        if place is None:
            return or_else
        return place.document.where(locate(place.entry, path))

    def has(self, section: str, name: str) -> bool:
        return (section, name) in self.entries


def locate(start: Entry | Node, path: Iterable[Step]) -> Entry | Node:
    """The node or key at the end of ``path``, or the last one on the way that exists. Scalars stand for themselves,
    collections for their key."""
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


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like ``name``, or None when none is near."""
    by_lower = {other.lower(): other for other in sorted(known)}
    found = difflib.get_close_matches(name.lower(), by_lower, n=5, cutoff=0.6)
    return by_lower[min(found, key=lambda other: distance(name.lower(), other))] if found else None


def distance(left: str, right: str) -> int:
    """How many characters to add, drop, replace or swap with their neighbour (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        before, last = row.copy(), before
        row[0] = i
        for j, b in enumerate(right, 1):
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                row[j] = min(row[j], last[j - 2] + 1)
    return row[-1]


def suggestion(name: str, known: Iterable[str], otherwise: str) -> str:
    """What to do about an unknown name: the nearest one, or all when they are few, or ``otherwise``."""
    names = sorted(known)
    near = nearest(name, names)
    if near is not None:
        return f"Perhaps {near} is meant"
    if names and len(names) <= 20:
        return f"Known here: {', '.join(names)}"
    return otherwise


def unknown_cluster(places: Places, declared: Collection[str], name: str, subject: str, where: Where) -> Problem | None:
    """The problem of a cluster that ``subject`` names and no file declares; None where one does, or may."""
    if name in declared or places.has("clusters", name) or not places.complete:
        return None  # first: it is asked for each topic, and the walk below is over all of them
    known = {*declared, *(one for section, one in places.entries if section == "clusters")}
    what = f"{subject} names the unknown cluster {name}"
    todo = suggestion(name, known, "Declare it under clusters")
    return Problem("unknown-cluster", where, what, "No file of the environment declares it", todo)
