"""The parse tree of an expression, taken apart into expressions without lookarounds, and written for RE2.

RE2 knows no lookarounds, and takes a time that is linear in the name for all the rest. One at a known
distance from either end is another expression of the whole name: ``eu\\.(?!tmp).*`` is ``eu\\..*`` and not
``.{3}tmp.*``.

What ``\\d``, ``\\w``, ``(?i)`` and a dot mean is Java's, as with MirrorMaker 2: letters and digits of ASCII, and no
dot for an end of line. How often and how eagerly a part repeats does not matter for a whole name.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

MOST_CHARACTERS = 32_768
"""Limit of an expression's length: parsing is linear, but ten times as many characters take over a second."""
MOST_DEPTH = 50
MOST_FORMS = 64
"""Limit of expressions into which lookarounds split one."""
_LOOKAROUNDS = (sre.ASSERT, sre.ASSERT_NOT)
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT)
_BRACKETS = (*_LOOKAROUNDS, *_REPEATS, sre.SUBPATTERN, sre.POSSESSIVE_REPEAT)
_AHEAD = 1
_MOST_COUNTS = 8
IGNORECASE, DOTALL, _MULTILINE = int(re.IGNORECASE), int(re.DOTALL), int(re.MULTILINE)
"""As numbers: an operation of enums costs more than all the rest."""


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


def require_short(text: str | bytes) -> None:
    """Raises ExpressionError."""
    if len(text) > MOST_CHARACTERS:
        problem = f"it has {len(text):,} characters, at most {MOST_CHARACTERS:,} are allowed"
        raise ExpressionError(problem, "Write several expressions as a list", costly=True)


def form_of(text: str | bytes) -> Form:
    """Parses an expression. Raises ExpressionError for an invalid or unsupported one."""
    require_short(text)
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
    """Raises ExpressionError for a deeply nested expression, since readers of the tree recurse."""
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
    """Items with groups replaced by their contents."""
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
        """The form of a sequence: plain, or a combination of tests. A lookaround becomes a separate condition on the
        whole name: another expression that must, or must not, match."""
        self._left -= 1
        if self._left < 0:
            todo = "Write several expressions as a list, or exclude the names with an expression of their own"
            raise ExpressionError("its lookarounds are in too many alternatives", todo, costly=True)
        at = next((at for at, item in enumerate(items) if _is_lookaround(item)), None)
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
        """Alternatives before a lookaround, each as a separate form, so that each has one length."""
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
        raise ExpressionError("a lookaround follows a part of any length", todo)

    def _repeated(self, before: tuple[Item, ...], item: Item, after: tuple[Item, ...]) -> Form:
        """A repetition with a lookaround in it: written out if it is short, else only the idiom ``((?!x).)*``."""
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
    """A lookaround as an expression of the whole name; None if its place is unknown."""
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
    return (Item(sre.MAX_REPEAT, (low, most, _body([(sre.ANY, None)])), DOTALL),)


def _never() -> tuple[Item, ...]:
    return (Item(sre.FAILURE, (), 0),)


def _width(items: Sequence[Item]) -> tuple[int, int]:
    """Least and most characters. Lookarounds have none."""
    low, high = _body([(item.kind, item.value) for item in items]).getwidth()
    return int(low), int(high)


def _body(items: list[tuple[Any, Any]]) -> Any:
    return sre_parser.SubPattern(sre_parser.State(), items)


def _is_lookaround(item: Item) -> bool:
    """Whether a lookaround is in it."""
    kind, value, _ = item
    if kind in _LOOKAROUNDS:
        return True
    if kind is sre.BRANCH:
        return any(_is_lookaround(inner) for body in value[1] for inner in flat(body, 0))
    return kind in _REPEATS and any(_is_lookaround(inner) for inner in flat(value[2], 0))


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
    """Renders Python's parse tree for RE2, with explicit character classes, case and line ends where the two differ.
    Raises ExpressionError for features that RE2 lacks."""
    kind, value, flags = item
    if kind is sre.LITERAL and not flags & IGNORECASE:
        text = _char(value)
        return text if len(text) == 1 else f"[{text}]"
    if kind in (sre.LITERAL, sre.NOT_LITERAL):
        return _set([(sre.LITERAL, value)], flags, of_bytes, negated=kind is sre.NOT_LITERAL)
    if kind is sre.IN:
        negated = bool(value) and value[0][0] is sre.NEGATE
        return _set(value[negated:], flags, of_bytes, negated=negated)
    if kind is sre.ANY:
        return "(?s:.)" if of_bytes or flags & DOTALL else _NO_END_OF_LINE
    if kind is sre.BRANCH:
        return f"(?:{'|'.join(written(flat(body, flags), of_bytes=of_bytes) for body in value[1])})"
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        return _repeat(value, flags, of_bytes)
    if kind is sre.AT:
        return _OF_LINES.get(value, _PLACES[value]) if flags & _MULTILINE else _PLACES[value]
    if kind is sre.FAILURE:
        return rf"[^\x{{0}}-\x{{{_last(of_bytes):x}}}]"
    raise _refused(kind)


def _repeat(value: Sequence[Any], flags: int, of_bytes: bool) -> str:
    """RE2 limits the count of a repetition (to 1000), and a nested one multiplies: refused here, with words, before it
    is compiled."""
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
    """A character class. Case is written out for ASCII alone, as Java matches without UNICODE_CASE."""
    parts: list[str] = []
    for kind, value in members:
        if kind is sre.CATEGORY:
            if value is sre.CATEGORY_SPACE:
                parts += (_range(low, high) for low, high in _SPACES)
            elif value is sre.CATEGORY_NOT_SPACE:
                parts += (_range(0, 0x08), _range(0x0E, 0x1F), _range(0x21, _last(of_bytes)))
            else:
                parts.append(_CATEGORIES[value])
            continue
        low, high = (value, value) if kind is sre.LITERAL else value
        parts.append(_range(low, high))
        if flags & IGNORECASE:
            for first, last, step in ((ord("a"), ord("z"), -32), (ord("A"), ord("Z"), 32)):
                if low <= last and first <= high:
                    parts.append(_range(max(low, first) + step, min(high, last) + step))
    text = "".join(parts)
    return text if len(text) == 1 and not negated else f"[{'^' if negated else ''}{text}]"


def _range(low: int, high: int) -> str:
    return _char(low) if low == high else f"{_char(low)}-{_char(high)}"


def _char(code: int) -> str:
    return chr(code) if code < 128 and chr(code).isalnum() else rf"\x{{{code:x}}}"


def _last(of_bytes: bool) -> int:
    return 0xFF if of_bytes else _END


def _refused(kind: Any) -> ExpressionError:
    """What no rewriting can express, and how to write it instead."""
    match kind:
        case sre.GROUPREF | sre.GROUPREF_EXISTS:
            return ExpressionError("it refers back to a group", "Write the text out, or a list of expressions")
        case sre.POSSESSIVE_REPEAT:
            todo = "Write a+ for a++, and a* for a*+: RE2 reads a name once, so possessive repetition saves nothing"
            return ExpressionError("it repeats possessively", todo)
        case sre.ATOMIC_GROUP:
            todo = "Write (?:...) for (?>...): RE2 reads a name once, so possessive repetition saves nothing"
            return ExpressionError("it has an atomic group", todo)
    return ExpressionError("a lookaround is where it cannot be matched", "Write it at the beginning")
