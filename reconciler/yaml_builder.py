"""Events of a YAML parser to a tree: duplicate keys, anchors, merge keys, and the traps between YAML 1.1 and 1.2.

Border: judges what a parser lets pass; reads no text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from reconciler.errors import Problem, Where
from reconciler.yaml_nodes import (
    CONTROL,
    WORDS_OF_YAML_1_1,
    Entry,
    Mapping,
    Node,
    Scalar,
    Sequence,
    ambiguous_number,
    control_character,
)

MAX_DEPTH = 50
MAX_NODES = 1_000_000  # with every alias written out


class GiveUpError(Exception):
    """The problem is noted; reading on makes no sense."""


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come."""

    mapping: bool
    line: int
    column: int
    anchor: str | None
    nodes: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Builder:
    """Takes a parser's events in turn; then ``root`` is the tree, None where there was none, and ``problems`` what was
    wrong on the way. Raises GiveUpError."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    root: Node | None = None
    open: list[_Open] = field(default_factory=list)
    anchors: dict[str, Node] = field(default_factory=dict)
    documents: int = 0

    def problem(self, code: str, at: tuple[int, int], what: str, why: str, todo: str) -> None:
        """``at`` is line and column."""
        self.problems.append(Problem(code, Where(self.file, *at), what, why, todo))

    def take(self, event: Event) -> None:
        mark = event.start_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        match event:
            case ScalarEvent():
                self._refuse_tag(event, line, column)
                escaped = CONTROL.search(event.value)
                if escaped:
                    self.problems.append(control_character(Where(self.file, line, column), escaped.group()))
                node = Scalar(event.value, bool(event.implicit[0]) and not event.style, line, column)
                self._done(node, event.anchor)
            case AliasEvent():
                self._alias(event, line, column)
            case SequenceStartEvent() | MappingStartEvent():
                self._refuse_tag(event, line, column)
                self.open.append(_Open(isinstance(event, MappingStartEvent), line, column, event.anchor))
                if len(self.open) > MAX_DEPTH:
                    self.problem(
                        "yaml-too-large",
                        (line, column),
                        f"nested deeper than {MAX_DEPTH} levels",
                        "No topology is nested so deep",
                        "Mend the text",
                    )
                    raise GiveUpError
            case SequenceEndEvent() | MappingEndEvent():
                done = self.open.pop()
                self._done(self._mapping(done) if done.mapping else self._sequence(done), done.anchor)
            case DocumentStartEvent():
                self.documents += 1
                if self.documents > 1:
                    self.problem(
                        "yaml-documents",
                        (line, column),
                        "a second YAML document begins here (---)",
                        "Each file is one part of the environment, so the rest of the file was not read",
                        "Move it to a file of its own, or remove the line ---",
                    )
                    raise GiveUpError
            case _:
                pass

    def _refuse_tag(self, event: ScalarEvent | SequenceStartEvent | MappingStartEvent, line: int, column: int) -> None:
        tag = str(event.tag or "").replace("tag:yaml.org,2002:", "!!")
        if tag not in ("", "None"):
            self.problem(
                "yaml-tag",
                (line, column),
                f"the YAML tag {tag}",
                "The topology has no use for tags",
                "Remove the tag; quote the value when it must be text",
            )

    def _alias(self, event: AliasEvent, line: int, column: int) -> None:
        node = self.anchors.get(event.anchor)
        if node is None:
            self.problem(
                "yaml-alias",
                (line, column),
                f"the alias *{event.anchor} has no anchor &{event.anchor} before it",
                "Anchors are known in their own file only, and not inside themselves",
                "Define the anchor above, or write the value out",
            )
            node = Scalar(f"*{event.anchor}", False, line, column)
        self._done(node, None)

    def _done(self, node: Node, anchor: str | None) -> None:
        if anchor:
            self.anchors[anchor] = node
        if node.size > MAX_NODES:
            self.problem(
                "yaml-too-large",
                (node.line, node.column),
                f"more than {MAX_NODES:,} values with aliases written out",
                "Aliases inside aliases grow without measure",
                "Write the values out, or split the file",
            )
            raise GiveUpError
        if self.open:
            self.open[-1].nodes.append(node)
        else:
            self.root = node

    def _sequence(self, done: _Open) -> Sequence:
        for node in done.nodes:
            self._surprise(node)
        return Sequence(tuple(done.nodes), done.line, done.column, 1 + sum(node.size for node in done.nodes))

    def _mapping(self, done: _Open) -> Mapping:
        entries: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        for key, value in zip(done.nodes[::2], done.nodes[1::2], strict=True):
            if not isinstance(key, Scalar):
                self.problem(
                    "yaml-key",
                    (key.line, key.column),
                    "a key that is a list or a mapping",
                    "Every key of the topology is a name",
                    "Write a plain name before the colon",
                )
            elif key.text == "<<" and key.plain:
                self._merge(value, merged)
            elif key.text in entries:
                first = entries[key.text]
                self.problem(
                    "duplicate-key",
                    (key.line, key.column),
                    f"the key {key.text} stands here for the second time",
                    f"It is already on line {first.line}, and only one of them could count",
                    "Remove or rename one",
                )
            else:
                self._surprise(value)
                entries[key.text] = Entry(key.text, value, key.line, key.column)
        entries = {**{k: v for k, v in merged.items() if k not in entries}, **entries}
        size = 1 + sum(1 + entry.value.size for entry in entries.values())
        return Mapping(entries, done.line, done.column, size)

    def _merge(self, value: Node, merged: dict[str, Entry]) -> None:
        """YAML's merge key: what is written out wins, then the earlier of several."""
        for part in value.items if isinstance(value, Sequence) else (value,):
            if isinstance(part, Mapping):
                for name, entry in part.entries.items():
                    merged.setdefault(name, entry)
            else:
                self.problem(
                    "yaml-merge",
                    (part.line, part.column),
                    "<< merges something that is not a mapping",
                    "A merge key takes the fields of another mapping",
                    "Give it an alias of a mapping, such as <<: *base",
                )

    def _surprise(self, node: Node) -> None:
        """Values that YAML 1.1 and 1.2 read differently: what one tool calls true is text to the next."""
        if not isinstance(node, Scalar) or not node.plain:
            return
        text = node.text
        if text.lower() in WORDS_OF_YAML_1_1:
            other = "true" if text.lower() in ("yes", "on") else "false"
            self.problem(
                "yaml-ambiguous",
                (node.line, node.column),
                f"{text} without quotes",
                f"YAML 1.1 reads it as {other}, YAML 1.2 as text",
                f'Write {other}, or "{text}" for the text',
            )
        elif ambiguous_number(text):
            self.problem(
                "yaml-ambiguous",
                (node.line, node.column),
                f"the number {text}",
                "YAML 1.1 and YAML 1.2 read it as different values",
                f'Write a plain decimal number, or "{text}" for the text',
            )
