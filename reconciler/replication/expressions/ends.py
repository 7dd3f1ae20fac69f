"""How a name has to begin or end, read off an expression: most names are refused by that, without asking RE2."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from re import _constants as sre  # type: ignore[attr-defined]

from reconciler.replication.expressions.tree import Every, Form, Item, Negated, Plain, Some, flat

MOST = 64
_PLACES = (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING, sre.AT_END, sre.AT_END_STRING)
_ENDS_OF_LINES = frozenset("\n\r\x85\u2028\u2029")


def ends_of(form: Form) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Beginnings and ends, one of which each name that matches has; None where there may be others."""
    ends = _ends(form)
    if ends is None or len(ends) > MOST:
        return None
    return tuple(text for text, first in ends if first), tuple(text for text, first in ends if not first)


def simple(form: Form) -> Callable[[str], bool] | None:
    """A test for characters alone, or with one ``.*`` among them."""
    if not isinstance(form, Plain):
        return None
    items = _without_places(form.items)
    before, after = _literals(items), _literals(items[::-1])[::-1]
    if len(before) == len(items):
        return lambda name: name == before
    if len(before) + len(after) + 1 != len(items) or not _anything(items[len(before)]):
        return None
    length = len(before) + len(after)
    return lambda name: (
        name.startswith(before) and name.endswith(after) and len(name) >= length and _ENDS_OF_LINES.isdisjoint(name)
    )


def _ends(form: Form) -> list[tuple[str, bool]] | None:
    match form:
        case Plain(items):
            return _of_items(_without_places(items))
        case Every(parts):
            return next((ends for part in parts if (ends := _ends(part)) is not None), None)
        case Some(parts):
            return _all(map(_ends, parts))
        case Negated():
            return None


def _of_items(items: Sequence[Item]) -> list[tuple[str, bool]] | None:
    if text := _literals(items):
        return [(text, True)]
    if text := _literals(items[::-1]):
        return [(text[::-1], False)]
    if items and items[0].kind is sre.BRANCH:
        bodies = (flat(body, items[0].flags) for body in items[0].value[1])
        return _all(_of_items(_without_places((*body, *items[1:]))) for body in bodies)
    return None


def _all(parts: Iterable[list[tuple[str, bool]] | None]) -> list[tuple[str, bool]] | None:
    joined: list[tuple[str, bool]] = []
    for ends in parts:
        if ends is None or len(joined) > MOST:
            return None
        joined += ends
    return joined


def _without_places(items: Sequence[Item]) -> tuple[Item, ...]:
    """Without ``^`` at the beginning and ``$`` at the end, which every whole name has."""
    first, last = 0, len(items)
    while first < last and items[first].kind is sre.AT and items[first].value in _PLACES[:2]:
        first += 1
    while first < last and items[last - 1].kind is sre.AT and items[last - 1].value in _PLACES[2:]:
        last -= 1
    return tuple(items[first:last])


def _literals(items: Iterable[Item]) -> str:
    """Characters up to the first item that is something else."""
    text = ""
    for kind, value, flags in items:
        if kind is not sre.LITERAL or flags & re.IGNORECASE:
            break
        text += chr(value)
    return text


def _anything(item: Item) -> bool:
    if item.kind not in (sre.MAX_REPEAT, sre.MIN_REPEAT) or item.value[:2] != (0, sre.MAXREPEAT):
        return False
    inner = flat(item.value[2], item.flags)
    return len(inner) == 1 and inner[0].kind is sre.ANY and not inner[0].flags & re.DOTALL
