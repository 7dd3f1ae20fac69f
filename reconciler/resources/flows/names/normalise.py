"""Normalises regular expressions by sorting alternatives, so that ``b|a`` equals ``a|b``.

Names are matched whole, so no order of alternatives can change whether a name matches.

An expression in which order or numbering may matter (named groups, conditions, comments, verbose mode) is kept.
"""

from collections.abc import Iterable
from functools import lru_cache

_ORDER_MAY_COUNT = ("(?P", "(?(", "(?#", "(?>", "++", "*+", "?+", "}+")
_GROUPS = ("?:", "?!", "?=", "")


def in_one_order(expressions: Iterable[str]) -> tuple[str, ...]:
    """Sorted expressions without duplicates, each with sorted alternatives."""
    return tuple(sorted({_ordered(text) for text in expressions}))


@lru_cache(maxsize=4096)
def _ordered(text: str) -> str:
    """Sorts alternatives if their order cannot matter; in doubt keeps the text. Without it, reordering a list would
    restart the mirror."""
    if "|" not in text or any(sign in text for sign in _ORDER_MAY_COUNT):
        return text
    try:
        ordered, end = _alternatives(text, 0)
    except IndexError:
        return text
    return ordered if end == len(text) else text


def _alternatives(text: str, at: int) -> tuple[str, int]:
    """Sorted alternatives from ``at`` to the closing bracket or the end, and its index. IndexError for truncated
    text."""
    parts = [""]
    while at < len(text) and text[at] != ")":
        if text[at] == "|":
            parts.append("")
            at += 1
        elif text[at] == "(":
            start = next((at + 1 + len(kind) for kind in _GROUPS if text.startswith(kind, at + 1)), at)
            if text[start] == "?":  # flags, or a lookbehind: left as written
                end = _closing(text, at)
                parts[-1] += text[at:end]
            else:
                inner, end = _alternatives(text, start)
                parts[-1] += f"{text[at:start]}{inner}{text[end]}"
                end += 1
            at = end
        else:
            end = _after(text, at)
            parts[-1] += text[at:end]
            at = end
    return "|".join(sorted(set(parts))), at


def _closing(text: str, at: int) -> int:
    """The index after the bracket that closes the one at ``at``."""
    depth = 0
    while at < len(text):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
        at = _after(text, at)
    raise IndexError


def _after(text: str, at: int) -> int:
    """The index after one character, one escaped character or one set in square brackets."""
    if text[at] == "\\":
        return at + 2
    if text[at] != "[":
        return at + 1
    at += 2 if text[at + 1] == "^" else 1
    at += text[at] == "]"
    while text[at] != "]":
        at += 2 if text[at] == "\\" else 1
    return at + 1
