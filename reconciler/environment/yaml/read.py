"""Reads YAML text as a document of nodes, and words every syntax problem for its author: the parser's own words require
its grammar. A file of another tool gets one problem that says what it is, instead of one for each key.
"""

import re
from contextlib import suppress

from yaml import Mark, MarkedYAMLError, SafeLoader, YAMLError

from reconciler.environment.yaml.characters import breaking, strays
from reconciler.environment.yaml.nodes import CONTROL, Document, Mapping, Node, control_character
from reconciler.environment.yaml.other_tools import OtherTool, of_document, of_text
from reconciler.environment.yaml.tree_builder import GiveUpError, TreeBuilder
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
