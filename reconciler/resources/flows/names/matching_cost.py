"""What it costs to match a regular expression with a text that does not match: how many ways are tried.

Python's ``re`` goes back to each choice until all are tried. The ways are counted, not walked: those that lead to each
place of the expression (Glushkov's automaton) with each letter of some texts that hurt most. It is no proof: another
text may cost more.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any

from reconciler.resources.flows.names.automata import ALPHABET
from reconciler.resources.flows.names.regex import TooLargeError, characters
from reconciler.resources.flows.names.tree_positions import Positions

LETTERS = 64
"""Of the texts. Four repetitions that divide them among themselves take 64 times as long with 249 letters."""
MOST_WAYS = 200_000
MOST_PLACES = 5_000
MOST_GROWTH = 2.5
"""From half as many letters: twice as many are two, four repetitions of which one waits for the other are four."""
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT)
_EVERY = frozenset(ALPHABET)
_WORDS = 24
_ENDLESS = 250  # no name is longer


@lru_cache(maxsize=4096)
def costs_too_much(text: str) -> bool:
    """Of an expression without ``fault``, for names of at most 249 letters."""
    automaton = _automaton(text)
    return automaton is None or any(ways > MOST_WAYS for ways in automaton.ways(LETTERS))


@lru_cache(maxsize=4096)
def grows(text: str) -> bool:
    """Of an expression without ``fault``: whether a text of twice as many letters takes much more than twice as long,
    which no text of any length may."""
    automaton = _automaton(text)
    if automaton is None:
        return True
    pairs = zip(automaton.ways(LETTERS), automaton.ways(LETTERS // 2), strict=True)
    return any(ways > LETTERS and ways > half * MOST_GROWTH for ways, half in pairs)


def _automaton(text: str) -> _Automaton | None:
    """None for one that is too large, unless it leaves no choice that could be taken back."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sets in sets, which another release may read otherwise
        tree = sre_parser.parse(text)
    if not _chooses(tree):
        return _Automaton(Positions(0, _ENDLESS), (), (), ())
    positions = Positions(MOST_PLACES, _ENDLESS)
    try:
        whole = positions.sequence(tree, tree.state.flags)
    except TooLargeError:
        return None
    return _Automaton(positions, whole.first, whole.last, tuple(_parts(tree, tree.state.flags)))


def _chooses(items: Iterable[Any]) -> bool:
    """Whether something in it may be there or not, or more than once. A choice of words costs no more than all of
    them."""
    for kind, value in items:
        if kind in _REPEATS and value[0] != value[1]:
            return True
        inner: Iterable[Any] = ()
        if kind is sre.SUBPATTERN:
            inner = value[3]
        elif kind is sre.BRANCH:
            inner = [item for body in value[1] for item in body]
        elif kind in _REPEATS:
            inner = value[2]
        if _chooses(inner):
            return True
    return False


def _parts(items: Iterable[Any], flags: int) -> Iterator[str]:
    """What stands between two repetitions: a text of it again and again can be divided at each."""
    text = ""
    for kind, value in items:
        chars = characters(kind, value, flags)
        if chars:
            text += min(chars, key=ALPHABET.index)
            continue
        if text:
            yield text
        text = ""
        if kind is sre.SUBPATTERN:
            yield from _parts(value[3], (flags | value[1]) & ~value[2])
        elif kind is sre.BRANCH:
            for body in value[1]:
                yield from _parts(body, flags)
        elif kind in _REPEATS:
            yield from _parts(value[2], flags)
    if text:
        yield text


class _Automaton:
    def __init__(self, positions: Positions, first: Sequence[int], last: Sequence[int], parts: Sequence[str]) -> None:
        self._chars = positions.chars
        self._first, self._parts = first, parts
        follow: dict[int, dict[int, int]] = defaultdict(dict)
        for (here, there), ways in positions.follow.items():
            follow[here][there] = ways
        self._follow: Mapping[int, Mapping[int, int]] = follow
        ends = frozenset(last)
        self._rest = frozenset(
            place for place in follow if place in ends and place in follow[place] and self._chars[place] >= _EVERY
        )

    def ways(self, letters: int) -> Iterator[int]:
        """For each of the texts, cut to ``letters``: the ways to get to all places with each of its letters."""
        for word in self._words():
            yield self._tried((word * letters)[:letters])

    def _words(self) -> Sequence[str]:
        sets = set(self._chars)
        single: dict[tuple[bool, ...], str] = {}
        for char in ALPHABET:
            single.setdefault(tuple(char in chars for chars in sets), char)
        words = dict.fromkeys((*list(single.values())[:_WORDS], *self._parts, "".join(self._parts)))
        return [word for word in words if word][: 2 * _WORDS]

    def _tried(self, text: str) -> int:
        tried = 0
        now: dict[int, int] = {}
        for place in self._first:
            if text[0] in self._chars[place]:
                now[place] = now.get(place, 0) + 1
        for char in text[1:]:
            if not now or not self._rest.isdisjoint(now):
                break  # it cannot match, or does whatever follows
            tried += sum(now.values())
            after: dict[int, int] = {}
            for here, ways in now.items():
                for there, more in self._follow.get(here, {}).items():
                    if char in self._chars[there]:
                        after[there] = after.get(there, 0) + ways * more
            now = after
        return tried
