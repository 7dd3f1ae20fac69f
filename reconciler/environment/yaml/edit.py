"""Edits of YAML text that keep comments, order and layout: only the characters of a value or an entry change.

The parser of `read` gives the bounds of each node (decision 240).
"""

from dataclasses import dataclass

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node

from reconciler.errors import Where

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class EntrySpan:
    """Where one entry of a mapping is in its text, for edits in place."""

    key: int
    """Offset of its key; ``value``: of its value; ``end``: of the end of its value."""
    value: int
    end: int
    column: int
    """Of the key, counted from 0."""
    scalar: bool
    """Whether the value is one, quoted or not."""

    def where(self, file: str, text: str) -> Where:
        """Line and column of the value."""
        before = text[: self.value].removeprefix("\ufeff")
        return Where(file, before.count("\n") + 1, len(before) - before.rfind("\n"))


def keys_at(text: str, *path: str) -> dict[str, int]:
    """The keys of the mapping at ``path``, each with its offset; empty if that is no mapping."""
    mapping = _mapping_at(text, path)
    return {} if mapping is None else {key.value: key.start_mark.index + _shift(text) for key, _ in mapping.value}


def place_of(text: str, *path: str) -> EntrySpan | None:
    """The entry at a path of keys; None if it is not written, or an alias of another value."""
    mapping = _mapping_at(text, path[:-1])
    entry = _entry(mapping, path[-1]) if mapping is not None else None
    # The node of an alias is that of its anchor, which is written before the key.
    if entry is None or entry[1].start_mark.index < entry[0].end_mark.index:
        return None
    key, value = entry
    begin, end, shift = key.start_mark, _end(value), _shift(text)
    return EntrySpan(
        begin.index + shift,
        value.start_mark.index + shift,
        end + shift,
        begin.column,
        not isinstance(value, CollectionNode),
    )


def with_entry(text: str, entry: str, *path: str) -> str | None:
    """``text`` with one more entry of the mapping at ``path``; None if the mapping has no plain place for it.

    In braces it is the first one. In a block it comes before a key without a comment above it, since that comment would
    then seem to be about the new entry; before the last such key, because readers look for the first entries of a
    declaration.
    """
    mapping = _mapping_at(text, path)
    if mapping is None:
        return None
    shift = _shift(text)
    if mapping.flow_style:
        at = mapping.start_mark.index + shift + 1
        return f"{text[:at]}{entry}{', ' if mapping.value else ''}{text[at:]}"
    lines = text[shift:].splitlines()
    keys = [key for key, _ in mapping.value]
    for key in (*reversed(keys[1:]), *keys[:1]):
        mark = key.start_mark
        commented = mark.line > 0 and lines[mark.line - 1].lstrip().startswith("#")
        if lines[mark.line][: mark.column].strip() or (commented and key is not keys[0]):
            continue
        at = mark.index + shift
        gap = ("\r\n" if "\r\n" in text else "\n") + " " * mark.column
        return f"{text[:at]}{entry}{gap}{text[at:]}"
    return None


def _shift(text: str) -> int:
    """Length of a byte order mark, which the parser does not count."""
    return int(text.startswith("\ufeff"))


def _mapping_at(text: str, path: tuple[str, ...]) -> MappingNode | None:
    node: Node | None = yaml.compose(text.removeprefix("\ufeff"), Loader=_LOADER)
    for step in path:
        entry = _entry(node, step) if isinstance(node, MappingNode) else None
        node = entry[1] if entry is not None else None
    return node if isinstance(node, MappingNode) else None


def _entry(mapping: MappingNode, name: str) -> tuple[Node, Node] | None:
    return next(((key, value) for key, value in mapping.value if key.value == name), None)


def _end(node: Node) -> int:
    """The end of the last scalar: for a parser a block ends at the next token, after comments about what follows."""
    if not isinstance(node, CollectionNode) or node.flow_style:
        return int(node.end_mark.index)
    children = [child for item in node.value for child in (item if isinstance(item, tuple) else (item,))]
    return max(map(_end, children), default=int(node.start_mark.index))
