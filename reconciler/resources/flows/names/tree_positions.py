"""The places of an expression's parse tree, and which may follow which: Glushkov's automaton, with how many ways lead.

Python's ``re`` decides every match; here its parse tree is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from re import _constants as sre  # type: ignore[attr-defined]
from typing import Any

from reconciler.resources.flows.names.regex import TooLargeError, characters

MOST_LINKS = 100_000
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT)


@dataclass(frozen=True, slots=True)
class TreePart:
    """A part of the tree. ``first`` and ``last``: its positions where a match may begin and end, each once for each way
    it does. ``empty``: in how many ways it matches nothing; two stand for more."""

    empty: int
    first: tuple[int, ...]
    last: tuple[int, ...]


_NOTHING = TreePart(1, (), ())


def _twice(positions: tuple[int, ...]) -> tuple[int, ...]:
    """Each at most two times, which is as good as more."""
    count = Counter(positions)
    return tuple(number for number, ways in count.items() for _ in range(min(2, ways)))


class Positions:
    """Glushkov's automaton: one position for each single character of the expression. ``follow`` counts the ways."""

    def __init__(self, most: int, endless: int) -> None:
        """``most``: places; of more, and of too many links, ``sequence`` raises TooLargeError. ``endless``: a
        repetition that may go on so often counts as endless."""
        self._most, self._endless = most, endless
        self.chars: list[frozenset[str]] = []
        self.follow: Counter[tuple[int, int]] = Counter()

    def sequence(self, items: Iterable[Any], flags: int) -> TreePart:
        part = _NOTHING
        for kind, value in items:
            part = self._joined(part, self._item(kind, value, flags))
        return part

    def _joined(self, part: TreePart, other: TreePart) -> TreePart:
        self._link(part.last, other.first)
        return TreePart(
            min(2, part.empty * other.empty),
            _twice(part.first + other.first * part.empty),
            _twice(other.last + part.last * other.empty),
        )

    def _link(self, last: Iterable[int], first: Iterable[int]) -> None:
        self.follow.update(product(last, first))
        if len(self.follow) > MOST_LINKS:
            raise TooLargeError

    def _item(self, kind: Any, value: Any, flags: int) -> TreePart:
        chars = characters(kind, value, flags)
        if chars is not None:
            if len(self.chars) >= self._most:
                raise TooLargeError
            self.chars.append(chars)
            here = (len(self.chars) - 1,)
            return TreePart(0, here, here)
        if kind is sre.SUBPATTERN:
            _, added, removed, body = value
            return self.sequence(body, (flags | added) & ~removed)
        if kind is sre.BRANCH:
            parts = [self.sequence(body, flags) for body in value[1]]
            return TreePart(
                min(2, sum(part.empty for part in parts)),
                tuple(position for part in parts for position in part.first),
                tuple(position for part in parts for position in part.last),
            )
        if kind in _REPEATS:
            low, high, body = value
            return self._repeat(int(low), high is sre.MAXREPEAT or int(high) >= self._endless, int(high), body, flags)
        return _NOTHING  # places, lookarounds and references take no character; atomic groups never go back

    def _repeat(self, low: int, endless: bool, high: int, body: Any, flags: int) -> TreePart:
        if endless:
            once = self.sequence(body, flags)
            self._link(once.last, once.first)
            # One round without a character may come before the end
            leaving = 2 if once.empty else 1
            return TreePart(min(2, (low == 0) + once.empty), once.first, _twice(once.last * leaving))
        part = _NOTHING
        last: tuple[int, ...] = ()
        for number in range(high):
            once = self.sequence(body, flags)
            if not once.empty:  # a round that is left out is the last one
                self._link(part.last, once.first)
                last += once.last if number + 1 >= low else ()
                part = TreePart(0, part.first if number else once.first, once.last)
                continue
            part = self._joined(part, TreePart(min(2, (number >= low) + once.empty), once.first, once.last))
        return TreePart(int(low == 0), part.first, last) if last else part
