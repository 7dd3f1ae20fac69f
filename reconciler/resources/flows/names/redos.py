"""Regular expressions with catastrophic backtracking (ReDoS), such as ``(a+)+b``.

An expression of more than ``MOST`` characters and sets is judged by what it costs (``matching_cost``).
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from re import _parser as sre_parser  # type: ignore[attr-defined]

from reconciler.resources.flows.names.matching_cost import costs_too_much, grows
from reconciler.resources.flows.names.regex import TooLargeError, fault
from reconciler.resources.flows.names.search import reached
from reconciler.resources.flows.names.tree_positions import Positions

MOST = 150
ENDLESS = 8
"""``(a+){8}`` has as many ways as a name has places for seven borders."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why an expression cannot be used. ``what`` follows ``is "(a+)+b", ``; none ends with a full stop."""

    code: str
    what: str
    why: str
    todo: str


_COSTLY = Unfit(
    "regex-costly",
    "which takes too many steps to find that a long name does not match",
    "Its repetitions share a name among them in millions of ways: plan, run and the mirror job would wait",
    "Use at most three repetitions that match the same letters, or write several expressions",
)
_COSTLY_FOR_VALUES = Unfit(
    "regex-costly",
    "in which repetitions share a value among them",
    "A key or header may have a megabyte; with twice as many letters it takes four times as long, and the flow waits",
    "Let what repeats match other letters than what comes before it, or write two tests and join them with all",
)


def unfit(text: str) -> Unfit | None:
    """What keeps an expression from being matched with names, or None."""
    if wrong := fault(text):
        problem, todo = wrong
        return Unfit("bad-regex", f"no regular expression: {problem}", "It cannot be matched with any name", todo)
    return _backtracking(text) or (_COSTLY if costs_too_much(text) else None)


def unfit_for_values(text: str) -> Unfit | None:
    """As ``unfit``, of an expression that compiles, and is matched with what anybody may produce: it may be long."""
    return _backtracking(text) or (_COSTLY_FOR_VALUES if grows(text) or costs_too_much(text) else None)


def _backtracking(text: str) -> Unfit | None:
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


@lru_cache(maxsize=4096)
def backtracks(text: str) -> bool:
    """Of an expression without ``fault``: whether some word leads from one position back to it in two ways."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = sre_parser.parse(text)
    automaton = Positions(MOST, ENDLESS)
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
