"""Reads YAML text as a document of nodes, with every syntax problem."""

from __future__ import annotations

from yaml import SafeLoader, YAMLError

from reconciler.environment.yaml.broken import broken
from reconciler.environment.yaml.characters import strays
from reconciler.environment.yaml.foreign_files import foreign_file
from reconciler.environment.yaml.nodes import CONTROL, Document, Mapping, control_character
from reconciler.environment.yaml.tree_builder import GiveUpError, TreeBuilder
from reconciler.errors import Where

try:
    from yaml._yaml import CParser as Parser
except ImportError:  # PyYAML was built without libyaml: the same events, ten times as slow
    Parser = SafeLoader  # type: ignore[misc, assignment]


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
        builder.problems.append(broken(file, text, error))
        root = None
    except GiveUpError:
        root = None
    else:
        if root is None:
            root = Mapping({}, 0, 0, 1)
            why = "An empty file is more often lost text than intended"
            todo = "Write something such as topics: {}, or remove the file"
            builder.problem("empty-file", (0, 0), "the file is empty", why, todo)
    if not of_any_tool and (foreign := foreign_file(file, builder.first)):
        return Document(file, None, (foreign,))
    return Document(file, root, (*builder.problems, *strays(file, text, root)))
