"""Builds the node tree from a YAML parser's events: duplicate keys, anchors, merge keys, YAML 1.1 traps."""

from collections.abc import Callable
from typing import Any

from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from reconciler.environment.yaml import nodes
from reconciler.errors import Problem, Where

MAX_DEPTH = 50
MAX_NODES = 1_000_000  # with every alias written out


class GiveUpError(Exception):
    """The problem is noted, and the rest of the text cannot be read."""


class TreeBuilder:
    """``next_event``: of a parser at the beginning of a text, None after its last event. ``problems``: what was wrong
    on the way. ``first``: the tree of the first document, also where others follow."""

    def __init__(self, file: str, next_event: Callable[[], Any]) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.first: nodes.Node | None = None
        self._next = next_event
        self._anchors: dict[str, nodes.Node] = {}
        self._depth = 0

    def problem(self, code: str, at: tuple[int, int], problem: str, why: str, todo: str) -> None:
        """``at`` is line and column."""
        self.problems.append(Problem(code, Where(self.file, *at), problem, why, todo))

    def root(self) -> nodes.Node | None:
        """The tree of the only document; None for an empty text. Raises GiveUpError, and as the parser."""
        root: nodes.Node | None = None
        documents = 0
        while (event := self._next()) is not None:
            mark = event.start_mark
            if isinstance(event, NodeEvent):
                root = self.first = self._node(event)
            elif isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    problem = "a second YAML document begins here (---)"
                    why = "Each file is one part of the environment, so the rest of the file was not read"
                    todo = "Move it to a file of its own, or remove the line ---"
                    self.problem("yaml-documents", (mark.line + 1, mark.column + 1), problem, why, todo)
                    raise GiveUpError
        return root

    def _node(self, event: Any) -> nodes.Node:
        """The node that begins with ``event``, to its last event."""
        mark = event.start_mark
        line, column = mark.line + 1, mark.column + 1
        node: nodes.Node
        if type(event) is ScalarEvent:
            text, style = event.value, event.style
            if event.tag is not None:
                self._refuse_tag(event.tag, line, column)
            if style == '"' and (escaped := nodes.CONTROL.search(text)):  # unescaped ones never come to the parser
                self.problems.append(nodes.control_character(Where(self.file, line, column), escaped.group()))
            node = nodes.Scalar(text, not style and event.implicit[0], line, column)
        elif type(event) is AliasEvent:
            anchor = str(event.anchor)
            if (known := self._anchors.get(anchor)) is not None:
                return known
            problem = f"the alias *{anchor} has no anchor &{anchor} before it"
            why = "Anchors are known in their own file only, and not inside themselves"
            todo = "Define the anchor above, or write the value out"
            self.problem("yaml-alias", (line, column), problem, why, todo)
            return nodes.Scalar(f"*{anchor}", False, line, column)
        else:
            if event.tag is not None:
                self._refuse_tag(event.tag, line, column)
            self._depth += 1
            if self._depth > MAX_DEPTH:  # before Python's own limit on recursion is reached
                why, todo = "No topology is nested so deep", "Correct the text"
                self.problem("yaml-too-large", (line, column), f"nested deeper than {MAX_DEPTH} levels", why, todo)
                raise GiveUpError
            node = (self._mapping if isinstance(event, MappingStartEvent) else self._sequence)(line, column)
            self._depth -= 1
            if node.size > MAX_NODES:
                problem = f"more than {MAX_NODES:,} values with aliases written out"
                why = "Aliases inside aliases grow without measure"
                self.problem("yaml-too-large", (line, column), problem, why, "Write the values out, or split the file")
                raise GiveUpError
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _sequence(self, line: int, column: int) -> nodes.Sequence:
        """``size`` counts nodes, by which a file that repeats aliases without end is refused."""
        items: list[nodes.Node] = []
        size = 1
        while type(event := self._next()) is not SequenceEndEvent:
            item = self._node(event)
            if type(item) is nodes.Scalar and item.plain and nodes.ambiguous(item.text):
                self._surprise(item)
            items.append(item)
            size += item.size
        return nodes.Sequence(tuple(items), line, column, size)

    def _mapping(self, line: int, column: int) -> nodes.Mapping:
        """A mapping with its merge keys resolved. Problems do not end it: all of a file are reported at once."""
        entries: dict[str, nodes.Entry] = {}
        merged: dict[str, nodes.Entry] = {}
        merged_on = 0
        size = 1
        while type(event := self._next()) is not MappingEndEvent:
            mark, key = event.start_mark, None
            if type(event) is ScalarEvent and event.implicit[0] and event.tag is None and event.anchor is None:
                key = event.value  # nearly every key: its node is not needed
            elif isinstance(node := self._node(event), nodes.Scalar):
                key = node.text
            else:
                why, todo = "Every key of the topology is a name", "Write a plain name before the colon"
                self.problem("yaml-key", (node.line, node.column), "a key that is a list or a mapping", why, todo)
            value = self._node(self._next())
            if key is None:
                continue
            if key == "<<" and type(event) is ScalarEvent and not event.style:
                if merged_on:
                    problem = "the key << appears here for the second time"
                    why = f"It is already on line {merged_on}, and YAML has each key of a mapping once"
                    todo = "Merge both by one key, such as <<: [*first, *second]"
                    self.problem("duplicate-key", (mark.line + 1, mark.column + 1), problem, why, todo)
                merged_on = mark.line + 1
                # A key that is written out wins, then the earlier of several mappings.
                for part in value.items if isinstance(value, nodes.Sequence) else (value,):
                    if isinstance(part, nodes.Mapping):
                        for name, entry in part.entries.items():
                            merged.setdefault(name, entry)
                        continue
                    problem = "<< merges something that is not a mapping"
                    why = "A merge key takes the fields of another mapping"
                    todo = "Give it an alias of a mapping, such as <<: *base"
                    self.problem("yaml-merge", (part.line, part.column), problem, why, todo)
            elif key in entries:
                problem = f"the key {key} appears here for the second time"
                why = f"It is already on line {entries[key].line}, and only one of them can take effect"
                self.problem("duplicate-key", (mark.line + 1, mark.column + 1), problem, why, "Remove or rename one")
            else:
                if type(value) is nodes.Scalar and value.plain and nodes.ambiguous(value.text):
                    self._surprise(value)
                entries[key] = nodes.Entry(key, value, mark.line + 1, mark.column + 1)
                size += 1 + value.size
        if added := {name: entry for name, entry in merged.items() if name not in entries}:
            entries = {**added, **entries}
            size += sum(1 + entry.value.size for entry in added.values())
        return nodes.Mapping(entries, line, column, size)

    def _refuse_tag(self, tag: str, line: int, column: int) -> None:
        tag = tag.replace("tag:yaml.org,2002:", "!!")
        todo = "Remove the tag; quote the value when it must be text"
        self.problem("yaml-tag", (line, column), f"the YAML tag {tag}", "The topology has no use for tags", todo)

    def _surprise(self, node: nodes.Scalar) -> None:
        """Reports values that YAML 1.1 and 1.2 read differently: true in one tool, text in the next."""
        text = node.text
        if text.lower() in nodes.WORDS_OF_YAML_1_1:
            plain = "true" if text.lower() in ("yes", "on") else "false"
            problem, why = f"{text} without quotes", f"YAML 1.1 reads it as {plain}, YAML 1.2 as text"
        else:
            plain = "a plain decimal number"
            problem, why = f"the number {text}", "YAML 1.1 and YAML 1.2 read it as different values"
        todo = f'Write {plain}, or "{text}" for the text'
        self.problem("yaml-ambiguous", (node.line, node.column), problem, why, todo)
