"""Where the project's files are."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / "environments"
SCHEMAS = ROOT / "schemas"


@cache
def parsed(path: Path) -> ast.Module:
    """A file of the program. Contracts look at hundreds of them, several at the same ones."""
    return ast.parse(path.read_text("utf-8"))
