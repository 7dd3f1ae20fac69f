"""YAML text to a document: a tree of nodes with lines and columns, and every problem that is YAML's own.

Border: knows YAML and nothing of Kafka. The whole parser is imported when the first text needs it.
"""

from __future__ import annotations

from reconciler.errors import Problem, Where
from reconciler.yaml_nodes import CONTROL, Document, control_character
from reconciler.yaml_quick import quickly


def read(file: str, text: str) -> Document:
    """Never raises: whatever the text holds, the answer is a document with problems."""
    text = text.removeprefix("\ufeff")
    found = _unreadable(file, text)
    if found:
        return Document(file, None, (found,))
    if (quick := quickly(text)) is not None:
        return Document(file, quick, ())
    from reconciler.yaml_parsing import parsed

    return parsed(file, text)


def _unreadable(file: str, text: str) -> Problem | None:
    found = CONTROL.search(text)
    if not found:
        return None
    line = text.count("\n", 0, found.start()) + 1
    column = found.start() - text.rfind("\n", 0, found.start())
    return control_character(Where(file, line, column), found.group())
