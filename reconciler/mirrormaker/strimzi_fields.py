"""Fields of a custom resource, as nodes of YAML: what is there, what is missing, and what is known by nobody.

Border: knows YAML's nodes and nothing of Strimzi.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from reconciler.errors import Where
from reconciler.mirrormaker.connectors import Connectors
from reconciler.mirrormaker.properties import Mistake, Property
from reconciler.yaml_nodes import Document, Entry, Mapping, Node, Scalar
from reconciler.yaml_nodes import Sequence as YamlSequence


@dataclass(frozen=True, slots=True)
class Fields:
    """Of one document; what is to be told goes to ``made``."""

    document: Document
    made: Connectors

    def where(self, node: Node | Entry) -> Where:
        return self.document.where(node)

    def mistake(self, node: Node | Entry, words: str) -> None:
        self.made.mistakes.append(Mistake(self.where(node), words))

    def unneeded(self, name: str, words: str) -> None:
        names = self.made.unneeded.setdefault(words, [])
        if name not in names:
            names.append(name)

    def unknown(self, name: str, entry: Entry) -> None:
        words = f"{self.where(entry)}: {name} is no field of a KafkaMirrorMaker2 that is known here, and is left out"
        if words not in self.made.different:
            self.made.different.append(words)

    def inside(self, outer: Mapping, key: str) -> Mapping:
        """What is not there is empty; what is something else is a mistake."""
        entry = outer.entries.get(key)
        if entry is None or is_null(entry.value):
            return Mapping({}, entry.line if entry else outer.line, entry.column if entry else outer.column, 1)
        if isinstance(entry.value, Mapping):
            return entry.value
        self.mistake(entry, f"{key}: it is no mapping. Strimzi refuses it, too. Correct it.")
        return Mapping({}, entry.line, entry.column, 1)

    def items(self, outer: Mapping, key: str, *, needed: bool = False) -> Iterator[Mapping]:
        entry = outer.entries.get(key)
        if entry is not None and isinstance(entry.value, YamlSequence):
            for item in entry.value.items:
                if isinstance(item, Mapping):
                    yield item
                else:
                    self.mistake(item, f"{key}: an item is no mapping. Strimzi refuses it, too. Correct it.")
        elif needed:
            self.mistake(entry or outer, f"{key} is no list of mirrors. Nothing is copied without it. Add it.")

    def text(self, outer: Mapping, key: str, *, needed: bool = True) -> str:
        entry = outer.entries.get(key)
        if entry is not None and isinstance(entry.value, Scalar) and not is_null(entry.value):
            return entry.value.text
        if needed or (entry is not None and not isinstance(entry.value, Scalar)):
            self.mistake(entry or outer, f"{key} is not there, or is no text. Strimzi needs it, too. Correct it.")
        return ""

    def configs(self, outer: Mapping, prefix: str, settings: Settings) -> None:
        for key, entry in self.inside(outer, "config").entries.items():
            if not isinstance(entry.value, Scalar):
                self.mistake(entry, f"{key}: it is no text. Strimzi refuses it, too. Correct it.")
            elif is_null(entry.value):
                self.made.different.append(f"{self.where(entry)}: {key} is null, which says nothing")
            else:
                settings.put(f"{prefix}{key}", entry.value.text, entry)


@dataclass(slots=True)
class Settings:
    """Of one connector, in the order of the operator: what comes later counts."""

    fields: Fields
    found: dict[str, Property] = field(default_factory=dict)

    def put(self, name: str, value: str, node: Node | Entry) -> None:
        where = self.fields.where(node)
        if name in self.found and self.found[name].value.strip() != value.strip():
            before = self.found[name].where
            self.fields.made.different.append(f"{where}: it sets {name}, so line {before.line} does not count")
        self.found[name] = Property(name, value, where)


def is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.data is None
