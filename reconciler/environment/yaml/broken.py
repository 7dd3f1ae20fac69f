"""What is wrong with a text that is no YAML, in words for its author: the parser's own need its grammar."""

from __future__ import annotations

import re

from yaml import Mark, MarkedYAMLError, YAMLError

from reconciler.environment.yaml.characters import breaking
from reconciler.errors import Problem, Where

_UNREAD = "The file was not read to its end, so nothing in it is checked"
_QUOTE = "Correct the text here or just above; quote text that holds any of : # { } [ ] , & * ! | > % @ `"
_OPENERS = {"flow mapping": ("{", "}"), "flow sequence": ("[", "]")}


def broken(file: str, text: str, error: YAMLError) -> Problem:
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
    """What is wrong, and what to do. ``around``: the line in which reading ended, in ``column``."""
    said = " ".join(part for part in (error.context, error.problem) if part) or "cannot be parsed"
    here = around[column - 1 : column]
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
        return "a second key or a colon where a value stands", todo
    if "simple key" in said:
        return "a line without a colon, where a key is wanted", "Write key: value, with a space after the colon"
    if re.search("map|indent|block collection", said):
        return said, "Compare the indentation with the lines above, and put a space after each colon"
    return said, _QUOTE


def _at(mark: Mark) -> str:
    return f"in line {mark.line + 1}, column {mark.column + 1},"
