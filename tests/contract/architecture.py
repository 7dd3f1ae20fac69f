"""Writes the table of packages in ``docs/architecture.md``: ``python -m tests.contract.architecture``."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- packages: begin, written by python -m tests.contract.architecture -->", "<!-- packages: end -->"


def packages() -> list[Path]:
    """Every folder with code of the program, the job and the sandbox, relative to the project."""
    roots = (ROOT / "reconciler", ROOT / "spark" / "reconciler_mirror", ROOT / "sandbox" / "reconciler_sandbox")
    return sorted({module.parent.relative_to(ROOT) for root in roots for module in root.rglob("*.py")})


def docstring(package: Path) -> str:
    source = (ROOT / package / "__init__.py").read_text("utf-8")
    return ast.get_docstring(ast.parse(source)) or ""


def levels(program: str = "reconciler") -> list[tuple[str, ...]]:
    """The layers of the import contract of ``program``, top first; names of one level stand side by side."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    contract = next(each for each in settings["contracts"] if each.get("containers") == [program])
    return [tuple(name.strip() for name in layer.split("|")) for layer in contract["layers"]]


def table() -> str:
    return "\n".join([BEGIN, *_rows(), END])


def _rows() -> Iterator[str]:
    known = packages()
    yield "| level | package | holds |"
    yield "|---|---|---|"
    for top, label in ((Path("reconciler"), ""), (Path("spark/reconciler_mirror"), "job ")):
        for number, names in enumerate(reversed(levels(top.name))):
            for name in names:
                if top / name in known:
                    yield _row(f"{label}{number}", top / name)
    yield _row("sandbox", Path("sandbox/reconciler_sandbox"))


def _row(level: str, package: Path) -> str:
    """Its first sentence: what belongs in it and in the folders below it stands in their own docstrings."""
    return f"| {level} | `{package}/` | {' '.join(docstring(package).split()).partition('. ')[0].removesuffix('.')} |"


def rewritten(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    return f"{before}{table()}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text("utf-8")), "utf-8")
