"""The map of the program says what is there, and every package says what belongs in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.architecture import PAGE, docstring, levels, packages, rewritten
from tests.contract.program import circles, modules, needs, writers_of_a_partition
from tests.support.paths import ROOT


def test_the_page_is_made_from_the_contract_and_the_packages() -> None:
    """Write it again with ``python -m tests.contract.architecture``."""
    assert rewritten(PAGE.read_text("utf-8")) == PAGE.read_text("utf-8")


@pytest.mark.parametrize("package", packages(), ids=str)
def test_every_package_says_what_belongs_in_it_and_what_does_not(package: Path) -> None:
    said = docstring(package)
    assert "Belongs here: " in said
    assert "Not here: " in said or package == Path("sandbox/reconciler_sandbox")


def test_every_package_of_the_program_has_its_level() -> None:
    named = {name for names in levels() for name in names}
    assert {path.name for path in (ROOT / "reconciler").iterdir() if (path / "__init__.py").is_file()} <= named


def test_every_package_of_the_job_has_its_level() -> None:
    named = {name for names in levels("reconciler_mirror") for name in names}
    job = ROOT / "spark" / "reconciler_mirror"
    assert {path.stem for path in job.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()} - {
        "__init__"
    } == named


def test_no_module_imports_one_that_imports_it() -> None:
    """Nor over others, nor only for its types, nor inside of a function. Cut: pass the value that is needed, or a
    function that gives it."""
    assert circles(needs()) == []


def test_few_fields_of_a_lanes_partition_have_several_writers() -> None:
    """Those of hot functions. Others are written by a method of their part, which keeps its invariant."""
    assert len([writers for writers in writers_of_a_partition().values() if len(writers) > 1]) < 8


def test_a_reader_does_not_have_to_jump_more_than_today() -> None:
    """Figures of ``python -m tests.contract.program``, rounded; they are lowered with what holds (decision 296)."""
    program = modules()
    code, functions = sum(module.code for module in program), sum(module.functions for module in program)
    assert len(program) <= 590
    assert sum(module.called_once for module in program) / functions < 0.150
    assert sum(module.imports for module in program) / code < 0.091
    assert sum(module.explanation for module in program) / code > 0.178


def test_the_contracts_stay_short() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8").partition("[tool.importlinter]")[2]
    assert len(text.splitlines()) < 50


# git: wherever else it ran, an edit could decide what it runs (decision 200)

MODULE = ROOT / "reconciler" / "backends" / "repository.py"
SCRIPT = ROOT / ".github" / "scripts" / "touched"
PROGRAM = [
    path for folder in ("reconciler", "spark", "sandbox", ".github", "docs") for path in (ROOT / folder).rglob("*.py")
]
_COMMAND = re.compile(r"(?:^|[;&|(`]|\$\(|\bthen |\bdo |\brun: |- |\bexec |\benv )\s*(?:git)\s+[-a-z]")
_STARTS = frozenset({"run", "Popen", "call", "check_call", "check_output", "getoutput", "system", "popen"})


def uses_of_git(text: str) -> Iterator[int]:
    """Lines that import GitPython, or name the program as a word of a command."""
    if "git" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names) if any(name.name.partition(".")[0] in ("git", "gitdb") for name in names):
                yield node.lineno
            case ast.ImportFrom(module=str(module), level=0) if module.partition(".")[0] in ("git", "gitdb"):
                yield node.lineno
            case ast.Constant(value=str(word)) if word == "git" or word.endswith("/git"):
                yield node.lineno
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(word)), *_]):
                if name in _STARTS and word.startswith("git "):
                    yield node.lineno


def commands(text: str) -> list[str]:
    lines = (line.partition(" #")[0].strip() for line in text.splitlines() if not line.lstrip().startswith("#"))
    return [line for line in lines if _COMMAND.search(line)]


def test_one_module_opens_git() -> None:
    found = {path.relative_to(ROOT): list(uses_of_git(path.read_text("utf-8"))) for path in PROGRAM if path != MODULE}
    assert {path: lines for path, lines in found.items() if lines} == {}
    assert list(uses_of_git(MODULE.read_text("utf-8")))


def test_one_script_opens_git() -> None:
    scripts = [path for path in SCRIPT.parent.iterdir() if path.is_file() and path != SCRIPT]
    assert {path.name: found for path in scripts if (found := commands(path.read_text("utf-8")))} == {}
    folders = (ROOT / ".github", ROOT / "templates", ROOT / "reconciler" / "operations" / "adopt" / "templates")
    recipes = [path for folder in folders for path in folder.rglob("*.yml")]
    assert {path: found for path in recipes if (found := commands(path.read_text("utf-8")))} == {}


@pytest.mark.parametrize("text", ["import git", "from git import Repo", "import gitdb", "run(['git', 'status'])",
                                  "run('git status', shell=True)", "Popen(['/usr/bin/git'])"])  # fmt: skip
def test_a_use_is_found(text: str) -> None:
    assert list(uses_of_git(text))


@pytest.mark.parametrize(
    "text", ["git diff", "x=$(git log -1)", "  - git fetch origin", "a && git status", "run: git -C x log"]
)
def test_a_command_is_found(text: str) -> None:
    assert commands(text)


def test_the_script_is_no_path_of_the_edit() -> None:
    """Where the actions run code beside an edit, it is their own."""
    for action in (ROOT / ".github" / "actions").rglob("*.yml"):
        assert not re.search(
            r"(?<!GITHUB_ACTION_PATH/\.\./\.\./)scripts/\w", action.read_text("utf-8").replace('"$scripts/', "")
        )
