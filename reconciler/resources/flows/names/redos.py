"""Regular expressions with catastrophic backtracking (ReDoS), such as ``(a+)+b``.

An expression of more than ``MOST`` characters and sets is not judged.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any

from reconciler.resources.flows.names.regex import TooLargeError, characters, fault
from reconciler.resources.flows.names.search import reached

MOST = 150
ENDLESS = 8
"""A repetition that may go on so often counts as endless: ``(a+){8}`` has as many ways as a name has places for seven
borders."""
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT)


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why an expression cannot be used. ``what`` follows ``is "(a+)+b", ``; none ends with a full stop."""

    code: str
    what: str
    why: str
    todo: str


def unfit(text: str) -> Unfit | None:
    """What keeps an expression from being matched with names, or None."""
    if wrong := fault(text):
        problem, todo = wrong
        return Unfit("bad-regex", f"no regular expression: {problem}", "It cannot be matched with any name", todo)
    if backtracks(text):
        return Unfit(
            "regex-backtracks",
            "whose repetitions can divide a name among them in exponentially many ways",
            "With each further letter of a name that does not match it takes twice as long: plan, run and the mirror"
            " job would hang",
            "Leave one repetition, such as a+ for (a+)+, or let each round begin or end with something else, such as"
            r" (\.[a-z]+)*",
        )
    return None


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the tree. ``first`` and ``last``: its positions where a match may begin and end, each once for each way
    it does. ``empty``: in how many ways it matches nothing; two stand for more."""

    empty: int
    first: tuple[int, ...]
    last: tuple[int, ...]


_NOTHING = _Part(1, (), ())


def _twice(positions: tuple[int, ...]) -> tuple[int, ...]:
    """Each at most two times, which is as good as more."""
    count = Counter(positions)
    return tuple(number for number, ways in count.items() for _ in range(min(2, ways)))


class _Positions:
    """Glushkov's automaton: one position for each single character of the expression. ``follow`` counts the ways."""

    def __init__(self) -> None:
        self.chars: list[frozenset[str]] = []
        self.follow: Counter[tuple[int, int]] = Counter()

    def sequence(self, items: Iterable[Any], flags: int) -> _Part:
        part = _NOTHING
        for kind, value in items:
            part = self._joined(part, self._item(kind, value, flags))
        return part

    def _joined(self, part: _Part, other: _Part) -> _Part:
        self._link(part.last, other.first)
        return _Part(
            min(2, part.empty * other.empty),
            _twice(part.first + other.first * part.empty),
            _twice(other.last + part.last * other.empty),
        )

    def _link(self, last: Iterable[int], first: Iterable[int]) -> None:
        self.follow.update(product(last, first))

    def _item(self, kind: Any, value: Any, flags: int) -> _Part:
        chars = characters(kind, value, flags)
        if chars is not None:
            if len(self.chars) >= MOST:
                raise TooLargeError
            self.chars.append(chars)
            here = (len(self.chars) - 1,)
            return _Part(0, here, here)
        if kind is sre.SUBPATTERN:
            _, added, removed, body = value
            return self.sequence(body, (flags | added) & ~removed)
        if kind is sre.BRANCH:
            parts = [self.sequence(body, flags) for body in value[1]]
            return _Part(
                min(2, sum(part.empty for part in parts)),
                tuple(position for part in parts for position in part.first),
                tuple(position for part in parts for position in part.last),
            )
        if kind in _REPEATS:
            low, high, body = value
            return self._repeat(int(low), high is sre.MAXREPEAT or int(high) >= ENDLESS, int(high), body, flags)
        return _NOTHING  # places, lookarounds and references take no character; atomic groups never go back

    def _repeat(self, low: int, endless: bool, high: int, body: Any, flags: int) -> _Part:
        if endless:
            once = self.sequence(body, flags)
            self._link(once.last, once.first)
            # One round without a character may come before the end
            leaving = 2 if once.empty else 1
            return _Part(min(2, (low == 0) + once.empty), once.first, _twice(once.last * leaving))
        part = _NOTHING
        for number in range(high):
            once = self.sequence(body, flags)
            part = self._joined(part, _Part(min(2, (number >= low) + once.empty), once.first, once.last))
        return part


@lru_cache(maxsize=4096)
def backtracks(text: str) -> bool:
    """Of an expression without ``fault``: whether some word leads from one position back to it in two ways."""
    tree = sre_parser.parse(text)
    automaton = _Positions()
    try:
        automaton.sequence(tree, tree.state.flags)
    except TooLargeError:
        return False
    after: dict[int, set[int]] = defaultdict(set)
    for here, there in automaton.follow:
        if automaton.chars[there]:
            after[here].add(there)
    reach = {here: reached(here, after) for here in range(len(automaton.chars))}
    if any(ways > 1 and here in reach[there] for (here, there), ways in automaton.follow.items()):
        return True
    return any(here in reach[here] and _parts(here, automaton.chars, after, reach) for here in reach)


def _parts(start: int, chars: list[frozenset[str]], after: dict[int, set[int]], reach: dict[int, set[int]]) -> bool:
    """Whether two walks over one word part at or behind ``start``, and both come back to it at the same time."""
    loop = {here for here in reach[start] if start in reach[here]}
    seen: set[tuple[int, int]] = set()
    back: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
    waiting = [(start, start)]
    while waiting:
        pair = waiting.pop()
        for number, other in product(after[pair[0]] & loop, after[pair[1]] & loop):
            if chars[number] & chars[other]:
                back[number, other].add(pair)
                if (number, other) not in seen:
                    seen.add((number, other))
                    waiting.append((number, other))
    if (start, start) not in seen:
        return False
    returning, waiting = {(start, start)}, [(start, start)]
    while waiting:
        for pair in back[waiting.pop()] - returning:
            returning.add(pair)
            waiting.append(pair)
    return any(number != other and (number, other) in seen for number, other in returning)
