"""Regular expressions as automata of topic names, and what is wrong with an expression.

Python's ``re`` decides every match; here its parse tree is read. Lookarounds (but for those at the very beginning),
back references, atomic groups and word boundaries have no automaton: then the language is a superset and says so by
``exact``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any

from reconciler.resources.flows.names.automata import (
    ALPHABET,
    EVERYTHING,
    Complement,
    Intersection,
    Language,
    State,
    UndecidedError,
)
from reconciler.text import sentence

MAX_NFA_STATES = 4_000
MAX_WORK = 400_000
"""Nodes that one expression may be walked over, in all searches together: ``.*a.{20}`` has a million states."""
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    sre.CATEGORY_DIGIT: str.isdigit,
    sre.CATEGORY_NOT_DIGIT: lambda char: not char.isdigit(),
    sre.CATEGORY_WORD: lambda char: char.isalnum() or char == "_",
    sre.CATEGORY_NOT_WORD: lambda char: not (char.isalnum() or char == "_"),
    sre.CATEGORY_SPACE: lambda _: False,
    sre.CATEGORY_NOT_SPACE: lambda _: True,
}
_JAVA_ONLY = (
    (r"\\[pP]\{?\w+", "is a character class of Java; Python's re wants a set such as [A-Za-z]"),
    (r"\\Q|\\E", "quotes in Java; here put a backslash before each special character"),
    (r"\(\?<[A-Za-z]", "names a group in Java; write (?:...) or (?P<name>...)"),
    (r"\\k<", "refers to a group in Java; write the text out"),
    (r"&&", "intersects sets in Java; write the set that is left"),
    (r"\\[hHRXGz]|\\x\{", "is known to Java only; topic names have no use for it"),
    (r"\[\[:|\[\[", "nests sets; write one set such as [A-Za-z]"),
)


@dataclass(frozen=True, slots=True)
class Pattern:
    """``exact``: the language holds just the matching names; else it holds them and perhaps more."""

    text: str
    language: Language
    exact: bool


def fault(text: str) -> tuple[str, str] | None:
    """What is wrong with an expression and what to write instead, or None. Both without a full stop."""
    for java, words in _JAVA_ONLY:
        match = re.search(java, text)
        if match and not _harmless(text, match):
            problem, todo = words.split("; ")
            return f"{match.group()} at position {match.start() + 1} {problem}", sentence(todo)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(text)
    except re.error as error:
        place = "" if error.pos is None else f" at position {error.pos + 1}"
        todo = "Correct the expression; a dot that means a dot is written \\."
        if text.startswith(("*", "+", "?")):
            todo = f"Write .{text} when any text may be there: these are regular expressions, not file patterns"
        return f"{error.msg}{place}", todo
    except (Warning, OverflowError, RecursionError) as error:
        return str(error) or "it is nested too deeply", "Correct the expression"
    try:
        re.compile(f"(?:{text})")
    except re.error as error:
        return f"{error.msg}, and a list is joined to one expression", "Write flags for a part, such as (?i:...)"
    numbered = re.search(r"(?<!\\)(?:\\\\)*(\\[1-9]|\(\?\([0-9])", text)
    if numbered:
        place = f"{numbered.group(1)} at position {numbered.start(1) + 1}"
        problem = f"{place} counts groups, but the expressions of a list are joined to one"
        return problem, "Name the group: (?P<part>...) and (?P=part)"
    return None


def _harmless(text: str, match: re.Match[str]) -> bool:
    """A backslash that is itself escaped begins nothing."""
    before = text[: match.start()]
    slashes = len(before) - len(before.rstrip("\\"))
    return match.group().startswith("\\") and slashes % 2 == 1


@lru_cache(maxsize=4096)
def pattern(text: str) -> Pattern:
    """The language of one expression that has no ``fault``, matched against whole names."""
    tree = sre_parser.parse(text)
    flags = tree.state.flags
    items = list(tree)
    heads: list[Language] = []
    exact = True
    while items and items[0][0] in (sre.ASSERT, sre.ASSERT_NOT) and items[0][1][0] == 1:
        kind, (_, body) = items.pop(0)
        language, whole = _automaton([*body, *sre_parser.parse(".*")], flags)
        if whole:
            heads.append(language if kind is sre.ASSERT else Complement(language))
        exact = exact and whole
    language, whole = _automaton(items, flags)
    return Pattern(text, Intersection((*heads, language)) if heads else language, exact and whole)


def _automaton(items: list[Any], flags: int) -> tuple[Language, bool]:
    graph = _Graph()
    try:
        graph.final = graph.sequence(items, 0, flags)
    except TooLargeError:
        return EVERYTHING, False
    return _Automaton(graph), graph.exact


class TooLargeError(Exception):
    pass


@dataclass(slots=True)
class _Graph:
    """A nondeterministic automaton (Thompson). ``empty`` edges may ask for the beginning (^) or the end (\\Z)."""

    empty: list[list[tuple[str, int]]] = field(default_factory=lambda: [[]])
    edges: list[list[tuple[frozenset[str], int]]] = field(default_factory=lambda: [[]])
    final: int = 0
    exact: bool = True

    def node(self) -> int:
        if len(self.empty) >= MAX_NFA_STATES:
            raise TooLargeError
        self.empty.append([])
        self.edges.append([])
        return len(self.empty) - 1

    def link(self, before: int, after: int, asks: str = "") -> None:
        self.empty[before].append((asks, after))

    def sequence(self, items: Iterable[Any], start: int, flags: int) -> int:
        """Adds the items behind ``start``; the node behind them."""
        for kind, value in items:
            start = self._item(kind, value, start, flags)
        return start

    def _item(self, kind: Any, value: Any, start: int, flags: int) -> int:
        chars = characters(kind, value, flags)
        if chars is not None:
            if flags & re.IGNORECASE and not _ascii(kind, value):
                self.exact = False
            end = self.node()
            self.edges[start].append((chars, end))
            return end
        if kind is sre.SUBPATTERN:
            _, added, removed, body = value
            return self.sequence(body, start, (flags | added) & ~removed)
        if kind is sre.BRANCH:
            end = self.node()
            for body in value[1]:
                self.link(self.sequence(body, start, flags), end)
            return end
        if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            self.exact = self.exact and kind is not sre.POSSESSIVE_REPEAT
            low, high, body = value
            return self._repeat(low, high, body, start, flags)
        if kind is sre.AT and value in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING, sre.AT_END, sre.AT_END_STRING):
            end = self.node()
            self.link(start, end, "begin" if value in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING) else "end")
            return end
        self.exact = False
        if kind is sre.ATOMIC_GROUP:
            return self.sequence(value, start, flags)
        if kind in (sre.GROUPREF, sre.GROUPREF_EXISTS):
            self.edges[start].append((frozenset(ALPHABET), start))
        end = self.node()
        self.link(start, end)
        return end

    def _repeat(self, low: Any, high: Any, body: Any, start: int, flags: int) -> int:
        for _ in range(int(low)):
            start = self._fresh(self.sequence(body, start, flags))
        if high is sre.MAXREPEAT:
            again = self._fresh(start)
            self.link(self.sequence(body, again, flags), again)
            return self._fresh(again)
        end = self.node()
        self.link(start, end)
        for _ in range(int(high) - int(low)):
            start = self._fresh(self.sequence(body, start, flags))
            self.link(start, end)
        return end

    def _fresh(self, before: int) -> int:
        """A node of its own, so that loops of neighbours do not run into each other."""
        after = self.node()
        self.link(before, after)
        return after


def _ascii(kind: Any, value: Any) -> bool:
    match kind:
        case sre.LITERAL | sre.NOT_LITERAL:
            return bool(value < 128)
        case sre.IN:
            return all(_ascii(inner, document) for inner, document in value)
        case sre.RANGE:
            return bool(value[1] < 128)
    return True


def characters(kind: Any, value: Any, flags: int) -> frozenset[str] | None:
    """The characters one item of a parse tree matches, or None when it is no single character."""
    if kind is sre.IN:
        negated = bool(value) and value[0][0] is sre.NEGATE
        members = [item for item in value if item[0] is not sre.NEGATE]
        return frozenset(
            char for char in ALPHABET if negated != any(_is(char, document, of, flags) for document, of in members)
        )
    if kind in (sre.ANY, sre.LITERAL, sre.NOT_LITERAL):
        return frozenset(char for char in ALPHABET if _is(char, kind, value, flags))
    return None


def _is(char: str, kind: Any, value: Any, flags: int) -> bool:
    codes = {ord(char)} | ({ord(char.lower()), ord(char.upper())} if flags & re.IGNORECASE else set())
    match kind:
        case sre.ANY:
            return True
        case sre.LITERAL:
            return value in codes
        case sre.NOT_LITERAL:
            return value not in codes
        case sre.RANGE:
            return any(value[0] <= code <= value[1] for code in codes)
        case sre.CATEGORY:
            return bool(_CATEGORIES[value](char))
    raise AssertionError(kind)


class _Automaton:
    """The graph made deterministic as far as it is walked. States are numbers of sets of nodes."""

    def __init__(self, graph: _Graph) -> None:
        self._graph = graph
        self._numbers: dict[frozenset[int], int] = {}
        self._sets: list[frozenset[int]] = []
        self._steps: dict[tuple[int, str], int] = {}
        self._accepting: dict[int, bool] = {}
        self._work = 0
        self._start = self._number(self._closure({0}, "begin"))
        # Whether the empty text matches may hang on both ^ and $; the empty name is no topic, so nobody asks

    def _closure(self, nodes: set[int], asked: str) -> frozenset[int]:
        waiting = list(nodes)
        while waiting:
            for asks, after in self._graph.empty[waiting.pop()]:
                if asks in ("", asked) and after not in nodes:
                    nodes.add(after)
                    waiting.append(after)
        return frozenset(nodes)

    def _number(self, nodes: frozenset[int]) -> int:
        number = self._numbers.get(nodes)
        if number is None:
            number = self._numbers[nodes] = len(self._sets)
            self._sets.append(nodes)
        return number

    def start(self) -> State:
        return self._start

    def step(self, state: State, char: str) -> State:
        key = (state, char)
        step = self._steps.get(key)
        if step is None:
            self._work += len(self._sets[state])
            if self._work > MAX_WORK:
                raise UndecidedError
            after = {to for node in self._sets[state] for chars, to in self._graph.edges[node] if char in chars}
            step = self._steps[key] = self._number(self._closure(after, ""))
        return step

    def accepts(self, state: State) -> bool:
        accepts = self._accepting.get(state)
        if accepts is None:
            accepts = self._graph.final in self._closure(set(self._sets[state]), "end")
            self._accepting[state] = accepts
        return accepts

    def dead(self, state: State) -> bool:
        return not self._sets[state]

    def full(self, state: State) -> bool:  # noqa: ARG002 - not worth finding out
        return False

    def distinguishes(self) -> frozenset[frozenset[str]]:
        return frozenset(chars for edges in self._graph.edges for chars, _ in edges)
