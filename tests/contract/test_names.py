"""A name says what it holds: no public class twice in the program, no variable that could be anything."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Collection
from pathlib import Path

from tests.support.paths import ROOT, nodes

PROGRAM = ("reconciler", "spark/reconciler_mirror", "sandbox/reconciler_sandbox")
VAGUE = {"one": 18, "found": 4, "told": 2, "what": 1}
"""Each name with how often it may be assigned; a number may only become smaller."""


def modules() -> list[Path]:
    return sorted(path for folder in PROGRAM for path in (ROOT / folder).rglob("*.py"))


def assigned(every: Collection[ast.AST]) -> list[str]:
    """Variables, parameters and captures; fields of classes are the business of their class."""
    fields = {
        id(statement.target)
        for node in every
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    names = []
    for node in every:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if id(node) not in fields:
                names.append(name)
            case ast.arg(arg=name) | ast.MatchAs(name=str(name)) | ast.ExceptHandler(name=str(name)):
                names.append(name)
    return names


def test_no_public_class_has_its_name_twice() -> None:
    places = defaultdict(list)
    for path in modules():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_variables_are_named_after_what_they_hold() -> None:
    counts: Counter[str] = Counter()
    for path in modules():
        counts.update(name for name in assigned(nodes(path)) if name in VAGUE)
    assert {name: counts[name] for name, most in VAGUE.items() if counts[name] > most} == {}
