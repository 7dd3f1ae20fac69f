"""Items of a parse tree as RE2 writes them.

What ``\\d``, ``\\w``, ``(?i)`` and a dot mean is Java's, as with MirrorMaker 2: letters and digits of ASCII, and no dot
for an end of line. How often and how eagerly a part repeats decides nothing for a whole name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from re import _constants as sre  # type: ignore[attr-defined]
from typing import Any

from reconciler.replication.expressions.tree import ExpressionError, Item, flat

MOST_COUNT = 1000
"""RE2's own limit."""
_END = 0x10FFFF
_SPACES = ((0x09, 0x0D), (0x20, 0x20))
_CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}
_PLACES = {
    sre.AT_BEGINNING: r"\A",
    sre.AT_BEGINNING_STRING: r"\A",
    sre.AT_END: r"\z",
    sre.AT_END_STRING: r"\z",
    sre.AT_BOUNDARY: r"\b",
    sre.AT_NON_BOUNDARY: r"\B",
}
_OF_LINES = {sre.AT_BEGINNING: "(?m:^)", sre.AT_END: "(?m:$)"}
_NO_END_OF_LINE = r"[^\n\r\x{85}\x{2028}\x{2029}]"
_SINGLE = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)


def written(items: Iterable[Item], *, of_bytes: bool) -> str:
    """Raises ExpressionError for what RE2 does not know."""
    return "".join(_item(item, of_bytes) for item in items)


def _item(item: Item, of_bytes: bool) -> str:
    kind, value, flags = item
    if kind in (sre.LITERAL, sre.NOT_LITERAL):
        return _set([(sre.LITERAL, value)], flags, of_bytes, negated=kind is sre.NOT_LITERAL)
    if kind is sre.IN:
        negated = bool(value) and value[0][0] is sre.NEGATE
        return _set(value[negated:], flags, of_bytes, negated=negated)
    if kind is sre.ANY:
        return "(?s:.)" if of_bytes or flags & re.DOTALL else _NO_END_OF_LINE
    if kind is sre.BRANCH:
        return f"(?:{'|'.join(written(flat(body, flags), of_bytes=of_bytes) for body in value[1])})"
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        return _repeat(value, flags, of_bytes)
    if kind is sre.AT:
        return _OF_LINES.get(value, _PLACES[value]) if flags & re.MULTILINE else _PLACES[value]
    if kind is sre.FAILURE:
        return rf"[^\x{{0}}-\x{{{_last(of_bytes):x}}}]"
    raise _refused(kind)


def _repeat(value: Sequence[Any], flags: int, of_bytes: bool) -> str:
    low, high, body = value
    inner = written(flat(body, flags), of_bytes=of_bytes)
    if len(body) != 1 or body[0][0] not in _SINGLE:
        inner = f"(?:{inner})"
    endless = high is sre.MAXREPEAT
    if max(int(low), 0 if endless else int(high)) > MOST_COUNT:
        todo = f"Write a count of at most {MOST_COUNT}; no name has more than 249 characters"
        raise ExpressionError(f"it repeats a part more than {MOST_COUNT} times", todo, costly=True)
    if endless and low in (0, 1):
        return f"{inner}{'+' if low else '*'}"
    return f"{inner}{{{int(low)},{'' if endless else int(high)}}}"


def _set(members: Iterable[tuple[Any, Any]], flags: int, of_bytes: bool, *, negated: bool) -> str:
    parts: list[str] = []
    for kind, value in members:
        if kind is sre.CATEGORY:
            parts.append(_category(value, of_bytes))
            continue
        low, high = (value, value) if kind is sre.LITERAL else value
        parts.append(_range(low, high))
        if flags & re.IGNORECASE:
            parts += _other_case(low, high)
    text = "".join(parts)
    return text if len(text) == 1 and not negated else f"[{'^' if negated else ''}{text}]"


def _other_case(low: int, high: int) -> Iterator[str]:
    for first, last, step in ((ord("a"), ord("z"), -32), (ord("A"), ord("Z"), 32)):
        if low <= last and first <= high:
            yield _range(max(low, first) + step, min(high, last) + step)


def _range(low: int, high: int) -> str:
    return _char(low) if low == high else f"{_char(low)}-{_char(high)}"


def _char(code: int) -> str:
    return chr(code) if code < 128 and chr(code).isalnum() else rf"\x{{{code:x}}}"


def _category(category: Any, of_bytes: bool) -> str:
    if category is sre.CATEGORY_SPACE:
        return "".join(_range(low, high) for low, high in _SPACES)
    if category is sre.CATEGORY_NOT_SPACE:
        return "".join((_range(0, 0x08), _range(0x0E, 0x1F), _range(0x21, _last(of_bytes))))
    return _CATEGORIES[category]


def _last(of_bytes: bool) -> int:
    return 0xFF if of_bytes else _END


def _refused(kind: Any) -> ExpressionError:
    match kind:
        case sre.GROUPREF | sre.GROUPREF_EXISTS:
            return ExpressionError("it refers back to a group", "Write the text out, or a list of expressions")
        case sre.POSSESSIVE_REPEAT:
            todo = "Write a+ for a++, and a* for a*+: RE2 reads a name once, so there is nothing to be saved"
            return ExpressionError("it repeats possessively", todo)
        case sre.ATOMIC_GROUP:
            todo = "Write (?:...) for (?>...): RE2 reads a name once, so there is nothing to be saved"
            return ExpressionError("it has an atomic group", todo)
    return ExpressionError("a lookaround is where it cannot be matched", "Write it at the beginning")
