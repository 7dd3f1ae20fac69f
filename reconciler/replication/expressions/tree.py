"""The parse tree of an expression, taken apart into expressions without lookarounds.

RE2 knows no lookarounds, and takes a time that is linear in the name for all the rest. One at a known
distance from either end is another expression of the whole name: ``eu\\.(?!tmp).*`` is ``eu\\..*`` and not
``.{3}tmp.*``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

MOST_DEPTH = 50
MOST_FORMS = 64
"""Expressions that lookarounds make of one."""
_LOOKAROUNDS = (sre.ASSERT, sre.ASSERT_NOT)
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT)
_BRACKETS = (*_LOOKAROUNDS, *_REPEATS, sre.SUBPATTERN, sre.POSSESSIVE_REPEAT)
_AHEAD = 1
_MOST_COUNTS = 8


class ExpressionError(ValueError):
    """``problem`` and ``todo`` end without a full stop."""

    def __init__(self, problem: str, todo: str, *, costly: bool = False) -> None:
        super().__init__(problem)
        self.problem, self.todo, self.costly = problem, todo, costly


class Item(NamedTuple):
    """One of a parse tree, with the flags that hold for it."""

    kind: Any
    value: Any
    flags: int


@dataclass(frozen=True, slots=True)
class Plain:
    """Without lookarounds."""

    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Every:
    parts: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Some:
    parts: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    part: Form


Form = Plain | Every | Some | Negated


def form_of(text: str | bytes) -> Form:
    """Raises ExpressionError for what is no expression, or one that nothing here can match."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = sre_parser.parse(text)
        _require_shallow(tree)
        return _Forms().of(flat(tree, tree.state.flags))
    except re.error as error:
        place = "" if error.pos is None else f" at position {error.pos + 1}"
        todo = "Correct the expression; a dot that means a dot is written \\."
        if isinstance(text, str) and text.startswith(("*", "+", "?")):
            todo = f"Write .{text} when any text may be there: these are regular expressions, not file patterns"
        raise ExpressionError(f"{error.msg}{place}", todo) from None
    except (Warning, OverflowError, RecursionError) as error:
        raise ExpressionError(str(error) or "it is nested too deeply", "Correct the expression") from None


def _require_shallow(tree: Iterable[Any]) -> None:
    """What reads the tree goes down into it. Raises ExpressionError."""
    waiting = [(tree, 0)]
    while waiting:
        items, depth = waiting.pop()
        if depth > MOST_DEPTH:
            problem = f"its brackets are nested more than {MOST_DEPTH} deep"
            raise ExpressionError(problem, "Take brackets away, or write several expressions as a list", costly=True)
        for kind, value in items:
            inner = value[1] if kind is sre.BRANCH else [value[-1]] if kind in _BRACKETS else []
            waiting += ((body, depth + 1) for body in inner)


def flat(items: Iterable[Any], flags: int) -> tuple[Item, ...]:
    """Groups give way to what is in them."""
    made: list[Item] = []
    for kind, value in items:
        if kind is sre.SUBPATTERN:
            _, added, removed, body = value
            made += flat(body, (flags | added) & ~removed)
        else:
            made.append(Item(kind, value, flags))
    return tuple(made)


class _Forms:
    def __init__(self) -> None:
        self._left = MOST_FORMS

    def of(self, items: Sequence[Item]) -> Form:
        self._left -= 1
        if self._left < 0:
            todo = "Write several expressions as a list, or exclude the names with an expression of their own"
            raise ExpressionError("its lookarounds are in too many alternatives", todo, costly=True)
        at = next((at for at, item in enumerate(items) if _looks(item)), None)
        if at is None:
            return Plain(tuple(items))
        before, item, after = tuple(items[:at]), items[at], tuple(items[at + 1 :])
        if item.kind is sre.BRANCH:
            return Some(tuple(self.of((*before, *flat(body, item.flags), *after)) for body in item.value[1]))
        if item.kind in _REPEATS:
            return self._repeated(before, item, after)
        direction, body = item.value
        asked = _asked(before, direction, flat(body, item.flags), after)
        if asked is None:
            return self._spread(before, (item, *after))
        condition = self.of(asked)
        return Every((self.of((*before, *after)), condition if item.kind is sre.ASSERT else Negated(condition)))

    def _spread(self, before: tuple[Item, ...], rest: tuple[Item, ...]) -> Form:
        """What comes before a lookaround, one alternative after the other, so that each has one length."""
        for at, item in enumerate(before):
            low, high = _width([item])
            head, tail = before[:at], (*before[at + 1 :], *rest)
            if low != high and item.kind is sre.BRANCH:
                return Some(tuple(self.of((*head, *flat(body, item.flags), *tail)) for body in item.value[1]))
            if low != high and item.kind in _REPEATS and item.value[1] is not sre.MAXREPEAT:
                least, most, body = item.value
                if int(most) - int(least) <= _MOST_COUNTS:
                    counts = range(int(least), int(most) + 1)
                    return Some(tuple(self.of((*head, *flat(body, item.flags) * times, *tail)) for times in counts))
        todo = "Write it at the beginning, such as (?!tmp).*, or exclude the names with an expression of their own"
        raise ExpressionError("a lookaround is behind a part that may be of any length", todo)

    def _repeated(self, before: tuple[Item, ...], item: Item, after: tuple[Item, ...]) -> Form:
        low, high, body = item.value
        inner = flat(body, item.flags)
        if high is not sre.MAXREPEAT and int(high) <= _MOST_COUNTS:
            counts = range(int(low), int(high) + 1)
            return Some(tuple(self.of((*before, *inner * times, *after)) for times in counts))
        # ((?!tmp).)* is said of names that do not have tmp anywhere.
        if len(inner) == 2 and inner[0].kind is sre.ASSERT_NOT and inner[1].kind is sre.ANY and _width(after)[1] == 0:
            direction, asked = inner[0].value
            length, most = _width(before)
            plain = Item(item.kind, (low, high, _body([inner[1][:2]])), inner[1].flags)
            if direction == _AHEAD and length == most and _width(flat(asked, item.flags))[0] > 0:
                nowhere = self.of((*_any(length), *_any(0, None), *flat(asked, inner[0].flags), *_any(0, None)))
                return Every((self.of((*before, plain, *after)), Negated(nowhere)))
        todo = "Write it at the beginning, such as (?!.*tmp).*, or exclude the names with an expression of their own"
        raise ExpressionError("a lookaround is in a repetition", todo)


def _asked(
    before: Sequence[Item], direction: int, body: tuple[Item, ...], after: Sequence[Item]
) -> tuple[Item, ...] | None:
    """An expression of the whole name that says what a lookaround asks; None where its place is not known."""
    (low, high), (least, most) = _width(before), _width(after)
    length, longest = _width(body)
    if low == high and direction == _AHEAD:
        return (*_any(low), *body, *_any(0, None))
    if direction != _AHEAD and (low == high or least == most):
        if low != high:
            return (*_any(0, None), *body, *_any(least))
        return (*_any(low - length), *body, *_any(0, None)) if low >= length else _never()
    if least == most and length == longest:
        return (*_any(0, None), *body, *_any(least - length)) if least >= length else _never()
    return None


def _any(low: int, high: int | None = -1) -> tuple[Item, ...]:
    """``low`` characters of any kind, or up to ``high``; None is without end."""
    most = low if high == -1 else sre.MAXREPEAT if high is None else high
    return (Item(sre.MAX_REPEAT, (low, most, _body([(sre.ANY, None)])), re.DOTALL),)


def _never() -> tuple[Item, ...]:
    return (Item(sre.FAILURE, (), 0),)


def _width(items: Sequence[Item]) -> tuple[int, int]:
    """Least and most characters. Lookarounds have none."""
    low, high = _body([(item.kind, item.value) for item in items]).getwidth()
    return int(low), int(high)


def _body(items: list[tuple[Any, Any]]) -> Any:
    return sre_parser.SubPattern(sre_parser.State(), items)


def _looks(item: Item) -> bool:
    """Whether a lookaround is in it."""
    kind, value, _ = item
    if kind in _LOOKAROUNDS:
        return True
    if kind is sre.BRANCH:
        return any(_looks(inner) for body in value[1] for inner in flat(body, 0))
    return kind in _REPEATS and any(_looks(inner) for inner in flat(value[2], 0))
