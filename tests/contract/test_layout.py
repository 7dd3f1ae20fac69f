"""Where files stand: folders stay short enough to be read, tests share helpers, not each other, and expressions that
others wrote are matched in one place: Python's ``re`` can hang."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.paths import ROOT, nodes

MOST_ENTRIES = 16
"""Files and folders of one folder: more is no longer seen at a glance."""
NOT_OURS_TO_PLACE = {
    Path(name) for name in ("LICENSE", "pyproject.toml", ".pre-commit-hooks.yaml", "templates/topology.yml")
}
"""Looked for at the top by forges, packagers, pre-commit and lawyers."""


def entries() -> dict[Path, set[str]]:
    """What git tracks in each folder, or would after the next ``git add``."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    inside: dict[Path, set[str]] = defaultdict(set)
    for name in filter(None, listed.split("\0")):
        path = Path(name)
        if (ROOT / path).exists() and path not in NOT_OURS_TO_PLACE:
            for folder in path.parents:
                inside[folder].add(path.relative_to(folder).parts[0])
    return inside


def test_no_folder_has_more_entries_than_are_seen_at_a_glance() -> None:
    assert {str(folder): len(names) for folder, names in entries().items() if len(names) > MOST_ENTRIES} == {}


_MAY_IMPORT_TESTS = re.compile(r"^\s*(from|import)\b[^\n(]*(\([^)]*)?\b(test_|conftest\b)", re.MULTILINE)
"""Nearly no file, so that the others need not be parsed."""


def test_nothing_is_imported_from_a_test_or_a_conftest() -> None:
    """What tests share is in ``tests.support``."""
    assert [told for path in (ROOT / "tests").rglob("*.py") for told in imports_of_tests(path)] == []


def test_a_test_is_skipped_for_an_older_kafka_alone() -> None:
    """What is missing fails: docs/decisions/tests/0221-nothing-passes-by-being-skipped.md."""
    skips = re.compile(r"pytest\.(skip|importorskip|xfail)\b|mark\.(skip|skipif|xfail)\b")
    found = {path for path in (ROOT / "tests").rglob("*.py") if skips.search(path.read_text("utf-8"))}
    assert {str(path.relative_to(ROOT / "tests")) for path in found} == {
        "conftest.py", "support/clusters.py", "mirror/lane/same_offsets/test_unclean_elections.py",
    }  # fmt: skip


def imports_of_tests(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    if not _MAY_IMPORT_TESTS.search(text):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        for name in modules:
            if re.fullmatch(r"tests(\.\w+)*\.(test_\w+|conftest)", name):
                yield f"{path.relative_to(ROOT)}:{node.lineno} imports {name}"


# expressions that others wrote

_HOME = Path("reconciler/replication/expressions")
_READERS = {
    Path("reconciler/resources/flows/names/regex.py"),
    Path("reconciler/environment/declarations/expressions.py"),
}
"""Read the parse tree that ``expressions`` made."""
_OWN_TABLES = {
    "reconciler/environment/importers/mirrormaker/not_imported.py: pattern",
    "reconciler/model/changes/subject.py: text + field",
    "reconciler/replication/expressions/unfit.py: java",
}
"""Expressions that are no literal, and still the program's own: file, and what stands in the call."""
_CALLS = {"compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn"}


def test_re_is_given_only_expressions_of_the_program() -> None:
    found = {f"{path}: {text}" for path, every in _modules() for text in _not_literal(every)}
    assert found == _OWN_TABLES


def test_re2_and_the_parser_of_re_have_one_home() -> None:
    users = {
        path for path, every in _modules() if _imports(every) & {"re2", "re._parser", "re._constants", "sre_parse"}
    }
    assert {path for path in users if _HOME not in path.parents} == _READERS


def _modules() -> Iterator[tuple[Path, Iterable[ast.AST]]]:
    for folder in ("reconciler", "spark", "sandbox"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT), nodes(path)


def _not_literal(every: Iterable[ast.AST]) -> Iterator[str]:
    for node in every:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name), args=[first, *_]) if name in _CALLS:
                if not (isinstance(first, ast.Constant) or _of_constants(first)):
                    yield ast.unparse(first)
            case ast.ImportFrom(module="re", names=names):
                yield from (f"from re import {one.name}" for one in names if not one.name.startswith("_"))


def _of_constants(text: ast.expr) -> bool:
    parts = text.values if isinstance(text, ast.JoinedStr) else [ast.FormattedValue(text, -1)]
    holes = [part.value for part in parts if isinstance(part, ast.FormattedValue)]
    return all(isinstance(hole, ast.Name) and hole.id.isupper() for hole in holes)


def _imports(every: Iterable[ast.AST]) -> set[str]:
    found: set[str] = set()
    for node in every:
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return found


def test_annotations_by_names_for_type_checkers_alone_are_postponed() -> None:
    """Else such a name fails when a nested function is defined: linters and importing the module do not show it."""
    modules = {
        path: path.read_text("utf-8") for folder in ("reconciler", "spark") for path in (ROOT / folder).rglob("*.py")
    }
    typed = {path for path, text in modules.items() if "if TYPE_CHECKING:" in text}
    assert typed
    assert {path for path in typed if "from __future__ import annotations" not in modules[path]} == set()
