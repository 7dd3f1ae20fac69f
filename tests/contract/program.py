"""Counts what a reader of the program has to carry: ``python -m tests.contract.program``.

Shares are of lines of code, which hold neither only a docstring nor only a comment. A circle is a set of modules that
import each other, wherever in a module the import is and if only for its types. An arrow up is an import of a package
of the Spark half from a package above it.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.contract.architecture import levels
from tests.support.paths import ROOT, comments_and_code, nodes, parsed

ROOTS = (ROOT, ROOT / "spark")
PACKAGES = ("reconciler", "reconciler_mirror")
PARTITION_HOMES = ("partition.py", "produce/outbox.py")
LANE = ROOT / "spark" / "reconciler_mirror" / "lane"
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """``explanation``: lines of docstrings, and lines that hold only a comment. ``called_once``: private functions."""

    name: str
    lines: int
    code: int
    imports: int
    explanation: int
    functions: int
    called_once: int


Needs = Mapping[str, frozenset[str]]
"""What each module imports of the program."""


def paths() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for root, package in zip(ROOTS, PACKAGES, strict=True)
        for path in sorted((root / package).rglob("*.py"))
    }


def modules() -> list[Module]:
    return [_counted(name, path) for name, path in paths().items()]


def needs() -> Needs:
    known = paths()
    return {name: frozenset(_needs(name, path, known)) for name, path in known.items()}


def circles(needs: Needs) -> list[list[str]]:
    """One circle after the other, each cut at its last import before the next is looked for."""
    graph = {name: set(needed) for name, needed in needs.items()}
    found: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = error.args[1]
            found.append(circle)
            graph[circle[1]].discard(circle[0])
        else:
            return found


def arrows_up(needs: Needs) -> list[tuple[str, str]]:
    """Pairs of rooms of the Spark half: the first imports the second, which is not on a floor below it."""
    floor = {room: number for number, rooms in enumerate(levels("reconciler_mirror")) for room in rooms}
    arrows = {(_room(name), _room(one)) for name, needed in needs.items() for one in needed}
    return sorted(
        (lower, upper)
        for lower, upper in arrows
        if lower != upper and lower in floor and upper in floor and floor[lower] >= floor[upper]
    )


def _room(module: str) -> str:
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] if package == "reconciler_mirror" else ""


def _counted(name: str, path: Path) -> Module:
    every = nodes(path)
    docstrings = set().union(*(_span(node) for node in every if _is_docstring(node)))
    comments, other = comments_and_code(path)
    code = other - docstrings
    functions = [node for node in every if isinstance(node, Function)]
    used = Counter(_used(every))
    return Module(
        name,
        path.read_text("utf-8").count("\n"),
        len(code),
        len(set().union(*(_span(node) for node in every if isinstance(node, ast.Import | ast.ImportFrom)))),
        len(docstrings) + len(comments.keys() - code),
        len(functions),
        sum(1 for function in functions if _is_private(function) and used[function.name] <= 1),
    )


def _span(node: ast.stmt | ast.AST) -> set[int]:
    assert isinstance(node, ast.stmt)
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_private(function: Function) -> bool:
    return function.name.startswith("_") and not function.name.startswith("__")


def _used(every: Collection[ast.AST]) -> Iterator[str]:
    for node in every:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _needs(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known and alias.name != name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                needed = inner if inner in known else node.module
                if needed in known and needed != name:
                    yield needed


def writers_of_a_partition() -> dict[str, set[str]]:
    """By each field of a lane's partition and of its parts, the modules of the lane that assign it."""
    trees = [parsed(LANE / home) for home in PARTITION_HOMES]
    classes = {node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}
    parts = {name: kind for name, kind in _fields(classes["Partition"]) if kind in classes}
    fields = {name for kind in ("Partition", *parts.values()) for name, _ in _fields(classes[kind])}
    writers: dict[str, set[str]] = {name: set() for name in fields}
    for path in sorted(LANE.rglob("*.py")):
        module = path.relative_to(LANE).as_posix()
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in fields:
                owner = getattr(node.value, "attr", getattr(node.value, "id", ""))
                if owner in {"partition", *parts} or (owner == "self" and module in PARTITION_HOMES):
                    writers[node.attr].add(module)
    return writers


def _fields(of: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for node in of.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, getattr(node.annotation, "id", "")


def table(program: Collection[Module], imported: Needs) -> Iterator[str]:
    code = sum(module.code for module in program)
    functions, once = sum(m.functions for m in program), sum(m.called_once for m in program)
    yield f"lines of program (installed)         {sum(module.lines for module in program):,}"
    yield f"modules                              {len(program):,}"
    yield f"lines of code                        {code:,}"
    yield f"private functions with one caller    {once / functions:.1%} ({once:,} of {functions:,} functions)"
    yield f"imports : code                       {sum(m.imports for m in program) / code:.1%}"
    yield f"explanation : code                   {sum(m.explanation for m in program) / code:.1%}"
    yield f"circles                              {len(found := circles(imported))}"
    yield from ("    " + " -> ".join(circle) for circle in found)
    yield f"arrows up in the Spark half          {len(up := arrows_up(imported))}"
    yield from ("    " + " -> ".join(arrow) for arrow in up)
    shared = {name: writers for name, writers in writers_of_a_partition().items() if len(writers) > 1}
    yield f"a partition's fields, several writers  {len(shared)}"
    yield from (f"    {name}: " + ", ".join(sorted(shared[name])) for name in sorted(shared))


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in table(modules(), needs()))
