"""YAML text to a document by the whole parser, which alone finds and words what is wrong with a text."""

from __future__ import annotations

from collections.abc import Iterator

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import Event

from reconciler.errors import Problem, Where
from reconciler.yaml_builder import Builder, GiveUpError
from reconciler.yaml_nodes import Document, Mapping
from reconciler.yaml_scanner import fast_yaml


def parsed(file: str, text: str) -> Document:
    """Never raises."""
    builder = Builder(file)
    try:
        for event in _events(text):
            builder.take(event)
    except MarkedYAMLError as error:
        builder.problems.append(_broken(file, text, error))
        return Document(file, None, tuple(builder.problems))
    except GiveUpError:
        return Document(file, None, tuple(builder.problems))
    except Exception as error:  # noqa: BLE001 - the parser's own slips, such as an OverflowError for "\\UFFFFFFFF"
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        builder.problem("yaml-broken", (0, 0), f"broken YAML: {why}", "The file was not read", "Mend the text")
        return Document(file, None, tuple(builder.problems))
    root = builder.root
    if root is None and not builder.problems:
        root = Mapping({}, 0, 0, 1)
        builder.problem(
            "empty-file",
            (0, 0),
            "the file is empty",
            "An empty part is more often a lost text than a wish",
            "Write something such as topics: {}, or remove the file",
        )
    return Document(file, root, tuple(builder.problems))


def _events(text: str) -> Iterator[Event]:
    """Raises YAMLError; then the events before the broken place have been given."""
    try:
        yield from list(fast_yaml().parse(text))
    except YAMLError:
        yield from YAML(typ="safe", pure=True).parse(text)


def _broken(file: str, text: str, error: MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    lines = text.split("\n")
    begins = next((number for number, one in enumerate(lines, start=1) if one.startswith("<<<<<<< ")), 0)
    if begins and any(one.startswith(">>>>>>> ") for one in lines[begins:]):
        return Problem(
            "yaml-conflict",
            Where(file, begins, 1),
            "a merge conflict that nobody has resolved begins here",
            "Git left both sides in the text, so the file was not read",
            "Keep one side or join both, and remove the lines that begin with <<<<<<<, ======= and >>>>>>>",
        )
    around = lines[line - 1] if 0 < line <= len(lines) else ""
    what = " ".join(part for part in (error.context, error.problem) if part) or "cannot be parsed"
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
    elif "map" in what or "indent" in what or "expected <block end>" in what:
        todo = "Compare the indentation with the lines above, and put a space after each colon"
    else:
        todo = "Mend the text here or just above; quote text that holds any of : # { } [ ] , & * ! | > % @ `"
    why = "The file was not read to its end, so nothing in it is checked"
    return Problem("yaml-broken", Where(file, line, column), f"broken YAML: {what}", why, todo)
