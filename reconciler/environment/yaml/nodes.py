"""A parsed YAML file as frozen nodes with line and column. Values by YAML 1.2's core schema."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from reconciler.errors import Problem, Where

Data = None | bool | int | float | str | list["Data"] | dict[str, "Data"]

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_LEADING_ZERO = re.compile(r"[-+]?(0[0-9_]+|0[oxb][0-9A-Fa-f_]+)")
_NUMBER_OF_YAML_1_1 = re.compile(
    r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9]*)?|[-+]?[0-9]+(_[0-9]+)+"
    r"|[-+]?[0-9]+[eE][-+]?[0-9]+"  # a number of YAML 1.1 needs a dot before its exponent
)
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""Characters that are not allowed in a topology, not even escaped. Three of them end a line for some YAML readers."""

WORDS_OF_YAML_1_1 = frozenset({"yes", "no", "on", "off"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


@lru_cache(1 << 12)
def ambiguous(text: str) -> bool:
    """Whether YAML 1.1 reads this word without quotes as another value than YAML 1.2."""
    number = _LEADING_ZERO.fullmatch(text) or _NUMBER_OF_YAML_1_1.fullmatch(text)
    return number is not None or text.lower() in WORDS_OF_YAML_1_1


@dataclass(frozen=True, slots=True)
class Scalar:
    """``text`` as written; ``plain`` when it has no quotes. Lines and columns of all nodes count from 1."""

    text: str
    plain: bool
    line: int
    column: int
    size: int = 1

    @property
    def data(self) -> Data:
        """The value by YAML 1.2's core schema."""
        return _plain(self.text) if self.plain else self.text


@lru_cache(1 << 12)
def _plain(text: str) -> Data:
    """An unquoted scalar by YAML 1.2's core schema: ``yes`` and ``0123`` stay texts."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if len(text) <= 40 and _INTEGER.fullmatch(text):
        return int(text)
    if len(text) <= 40 and _FLOAT.fullmatch(text):
        return float(text)
    return text


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Node, ...]
    line: int
    column: int
    size: int

    @property
    def data(self) -> Data:
        return [item.data for item in self.items]


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a mapping with its value; line and column are the key's."""

    key: str
    value: Node
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Mapping:
    entries: dict[str, Entry]
    line: int
    column: int
    size: int

    @property
    def data(self) -> Data:
        return {key: entry.value.data for key, entry in self.entries.items()}


Node = Scalar | Sequence | Mapping


def node_at(root: Node | None, *path: str | int) -> Node | None:
    """The node at a path of keys and places in lists, or None when it is not written."""
    for step in path:
        if isinstance(step, int):
            root = root.items[step] if isinstance(root, Sequence) and step < len(root.items) else None
        else:
            root = root.entries[step].value if isinstance(root, Mapping) and step in root.entries else None
    return root


@dataclass(frozen=True, slots=True)
class Document:
    """One file. ``root``: None if parsing failed, with the reason in ``problems``."""

    file: str
    root: Node | None
    problems: tuple[Problem, ...]

    def where(self, node: Node | Entry | None = None) -> Where:
        return Where(self.file, node.line, node.column) if node else Where(self.file)


def control_character(where: Where, char: str) -> Problem:
    description = f"broken YAML: the character U+{ord(char):04X} is not allowed in a topology"
    return Problem(
        "yaml-broken", where, description, "Nothing there can be named so, and no terminal shows it", "Remove it"
    )
