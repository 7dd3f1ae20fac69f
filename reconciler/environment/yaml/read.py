"""Reads YAML text as a document of nodes, with every syntax problem."""

from __future__ import annotations

from yaml import MarkedYAMLError, SafeLoader, YAMLError

from reconciler.environment.yaml.nodes import CONTROL, Document, Mapping, control_character
from reconciler.environment.yaml.tree_builder import GiveUpError, TreeBuilder
from reconciler.errors import Problem, Where

try:
    from yaml._yaml import CParser as Parser
except ImportError:  # PyYAML was built without libyaml: the same events, ten times as slow
    Parser = SafeLoader  # type: ignore[misc, assignment]


def read(file: str, text: str) -> Document:
    """Never raises: whatever the text holds, the answer is a document with problems."""
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
    return Document(file, root, tuple(builder.problems))


def _broken(file: str, text: str, error: YAMLError) -> Problem:
    marked = error if isinstance(error, MarkedYAMLError) else MarkedYAMLError(problem=str(error))
    mark = marked.problem_mark or marked.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    lines = text.split("\n")
    if line > len(lines):  # libyaml reads a line break that is missing at the end of a text
        line, column = len(lines), len(lines[-1]) + 1
    conflict = next((number for number, content in enumerate(lines, start=1) if content.startswith("<<<<<<< ")), 0)
    if conflict and any(content.startswith(">>>>>>> ") for content in lines[conflict:]):
        return Problem(
            "yaml-conflict",
            Where(file, conflict, 1),
            "a merge conflict that nobody has resolved begins here",
            "Git left both sides in the text, so the file was not read",
            "Keep one side or join both, and remove the lines that begin with <<<<<<<, ======= and >>>>>>>",
        )
    around = lines[line - 1] if 0 < line <= len(lines) else ""
    problem = " ".join(part for part in (marked.context, marked.problem) if part) or "cannot be parsed"
    if "\t" in around[: len(around) - len(around.lstrip())]:
        return Problem(
            "yaml-tab",
            Where(file, line, around.index("\t") + 1),
            "a tab in the indentation",
            "YAML indents with spaces only, so the file was not read",
            "Replace the tab with spaces",
        )
    if "${" in around:
        todo = 'Quote the reference: inside { } a value such as "${env:NAME}" needs its quotes'
    elif "map" in problem or "indent" in problem or "block collection" in problem:
        todo = "Compare the indentation with the lines above, and put a space after each colon"
    else:
        todo = "Correct the text here or just above; quote text that holds any of : # { } [ ] , & * ! | > % @ `"
    why = "The file was not read to its end, so nothing in it is checked"
    return Problem("yaml-broken", Where(file, line, column), f"broken YAML: {problem}", why, todo)
