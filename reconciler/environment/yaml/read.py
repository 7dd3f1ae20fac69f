"""Reads YAML text as a document of nodes, and words every syntax problem for its author: the parser's own words require
its grammar. A file of another tool gets one problem that says what it is, instead of one for each key.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from yaml import Mark, MarkedYAMLError, SafeLoader, YAMLError
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
from reconciler.environment.yaml.characters import breaking, strays
from reconciler.environment.yaml.nodes import CONTROL, Document, Mapping, Node, control_character
from reconciler.environment.yaml.other_tools import OtherTool, of_document, of_text
from reconciler.errors import Problem, Where

try:
    from yaml._yaml import CParser as Parser
except ImportError:  # PyYAML was built without libyaml: the same events, ten times as slow
    Parser = SafeLoader  # type: ignore[misc, assignment]

_UNREAD = "The file was not read to its end, so nothing in it is checked"
_QUOTE = "Correct the text here or just above; quote text that holds any of : # { } [ ] , & * ! | > % @ `"
_OPENERS = {"flow mapping": ("{", "}"), "flow sequence": ("[", "]")}
_WHY = "Only files of this program declare anything here, so nothing of it was read"
_ELSEWHERE = "Move it out of the folder, whose *.yaml files are all parts of the environment"


def read(file: str, text: str, *, of_any_tool: bool = False) -> Document:
    """Never raises: whatever the text holds, the answer is a document with problems. ``of_any_tool``: the file is meant
    to be another tool's."""
    text = text.removeprefix("\ufeff")
    if control := CONTROL.search(text):
        line = text.count("\n", 0, control.start()) + 1
        column = control.start() - text.rfind("\n", 0, control.start())
        return Document(file, None, (control_character(Where(file, line, column), control.group()),))
    builder = TreeBuilder(file, Parser(text).get_event)
    try:
        root = builder.root()
    except YAMLError as error:
        builder.problems.append(_broken(file, text, error))
        root = None
    except GiveUpError:
        root = None
    else:
        if root is None:
            root = Mapping({}, 0, 0, 1)
            why = "An empty file is more often lost text than intended"
            todo = "Write something such as topics: {}, or remove the file"
            builder.problem("empty-file", (0, 0), "the file is empty", why, todo)
    if not of_any_tool and (foreign := _foreign_file(file, builder.first)):
        return Document(file, None, (foreign,))
    return Document(file, root, (*builder.problems, *strays(file, text, root)))


def _broken(file: str, text: str, error: YAMLError) -> Problem:
    """A text that is no YAML: the likely cause at its own place, else what the parser says."""
    marked = error if isinstance(error, MarkedYAMLError) else MarkedYAMLError(problem=str(error))
    mark = marked.problem_mark or marked.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    lines = text.split("\n")
    if line > len(lines):  # libyaml reads a line break that is missing at the end of a text
        line, column = len(lines), len(lines[-1]) + 1
    # Causes before consequences: a conflict, a tab or a strange character breaks a text where it is, and the parser may
    # report a later place.
    conflict = next((number for number, content in enumerate(lines, start=1) if content.startswith("<<<<<<< ")), 0)
    if conflict and any(content.startswith(">>>>>>> ") for content in lines[conflict:]):
        return Problem(
            "yaml-conflict",
            Where(file, conflict, 1),
            "an unresolved merge conflict begins here",
            "Git left both sides in the text, so the file was not read",
            "Keep one side or join both, and remove the lines that begin with <<<<<<<, ======= and >>>>>>>",
        )
    around = lines[line - 1] if 0 < line <= len(lines) else ""
    if "\t" in around[: len(around) - len(around.lstrip())]:
        return Problem(
            "yaml-tab",
            Where(file, line, around.index("\t") + 1),
            "a tab in the indentation",
            "YAML indents with spaces only, so the file was not read",
            "Replace the tab with spaces",
        )
    if stray := breaking(file, text, line):
        return stray
    problem, todo = _words(marked, around, column)
    return Problem("yaml-broken", Where(file, line, column), f"broken YAML: {problem}", _UNREAD, todo)


def _words(error: MarkedYAMLError, around: str, column: int) -> tuple[str, str]:
    """The problem, and the remedy. ``around``: the line in which parsing ended, at ``column``."""
    said = " ".join(part for part in (error.context, error.problem) if part) or "cannot be parsed"
    here = around[column - 1 : column]
    # The parser's own words come last: they name tokens of YAML's grammar, which few users know.
    if "${" in around and "flow" in said:
        return said, 'Quote the reference: inside { } a value such as "${env:NAME}" needs its quotes'
    if "quoted scalar" in said and "escape" not in said:
        opened = f" that opens {_at(error.context_mark)}" if error.context_mark else ""
        return f"the quote{opened} is not closed", "Close it, with the same sign; a quote within quotes is doubled: ''"
    if "escape" in said:
        todo = r"Use single quotes, in which \ is itself: 'orders\..*'"
        return r"inside double quotes \ begins an escape, and this is none", todo
    if "alias" in said or "anchor" in said:
        return "text that begins with * or & is an alias or an anchor of YAML", "Quote it, as in '.*'"
    if "start any token" in said and here:
        return f"no text begins with {here} unless it is quoted", "Quote it"
    if here in ("}", "]") and "flow" not in said:
        return (
            f"the {here} has no opening {'{' if here == '}' else '['} before it",
            "Remove it, or quote the text that it belongs to",
        )
    for construct, (opener, closer) in _OPENERS.items():
        if construct in said and error.context_mark:
            problem = f"the {opener} that opens {_at(error.context_mark)} is not closed before here"
            return problem, f"Close it with {closer}, put a comma between entries, and quote a value that holds ': '"
    if "mapping values are not allowed" in said:
        todo = "Quote a value that holds a colon and a space, or compare the indentation with the lines above"
        return "a second key or a colon where a value belongs", todo
    if "simple key" in said:
        return "a line without a colon, where a key belongs", "Write key: value, with a space after the colon"
    if re.search("map|indent|block collection", said):
        return said, "Compare the indentation with the lines above, and put a space after each colon"
    return said, _QUOTE


def _at(mark: Mark) -> str:
    return f"in line {mark.line + 1}, column {mark.column + 1},"


def other_tool(file: str, text: str) -> OtherTool | None:
    """The tool of a file for another program; None for an unknown file. Never raises."""
    builder = TreeBuilder(file, Parser(text).get_event)
    with suppress(YAMLError, GiveUpError):
        builder.root()
    return of_text(text) or of_document(builder.first)


def _foreign_file(file: str, root: Node | None) -> Problem | None:
    tool = of_document(root)
    if tool is None:
        return None
    problem = f"this is {tool.thing}, and no part of an environment"
    todo = f"Move it out of the folder. {tool.todo}" if tool.todo else _ELSEWHERE
    return Problem("foreign-file", Where(file, 1, 1), problem, _WHY, todo)


# Builds the node tree from a YAML parser's events: duplicate keys, anchors, merge keys, YAML 1.1 traps.

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
