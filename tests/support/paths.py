"""Where the project's files are."""

from __future__ import annotations

import ast
import io
import tokenize
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / "environments"
SCHEMAS = ROOT / "schemas"
_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@cache
def parsed(path: Path) -> ast.Module:
    """A file of the program. Contracts look at hundreds of them, several at the same ones."""
    return ast.parse(path.read_text("utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of ``parsed``, in the order of ``ast.walk``."""
    return tuple(ast.walk(parsed(path)))


@cache
def comments_and_code(path: Path) -> tuple[dict[int, str], frozenset[int]]:
    """The comment of each line that has one, and the lines with anything else, docstrings among them."""
    comments: dict[int, str] = {}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        if token.type == tokenize.COMMENT:
            comments[token.start[0]] = token.string
        elif token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    return comments, frozenset(code)
