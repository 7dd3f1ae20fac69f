"""Regular expressions as automata of topic names.

``expressions`` decides every match; this module reads the same parse tree. Word boundaries have no automaton: the
language is then a superset, with ``exact`` False.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from re import _constants as sre  # type: ignore[attr-defined]
from typing import Any

from reconciler.replication.expressions.tree import Every, Form, Item, Negated, Plain, Some, flat, form_of
from reconciler.resources.flows.names import automata

MAX_NFA_STATES = 4_000
MAX_WORK = 400_000
"""Limit of nodes walked for one expression in all searches: ``.*a.{20}`` has a million states."""
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    sre.CATEGORY_DIGIT: str.isdigit,
    sre.CATEGORY_NOT_DIGIT: lambda char: not char.isdigit(),
    sre.CATEGORY_WORD: lambda char: char.isalnum() or char == "_",
    sre.CATEGORY_NOT_WORD: lambda char: not (char.isalnum() or char == "_"),
    sre.CATEGORY_SPACE: lambda _: False,
    sre.CATEGORY_NOT_SPACE: lambda _: True,
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """``exact``: the language is exactly the matching names; otherwise a superset."""

    text: str
    language: automata.Language
    exact: bool


@lru_cache(maxsize=4096)
def pattern(text: str) -> Pattern:
    """The language of one expression that is not ``unfit``, matched against whole names."""
    language, exact = _language(form_of(text))
    return Pattern(text, language, exact)


def _language(form: Form) -> tuple[automata.Language, bool]:
    """(language, whether it is exact). A form that is too large or has a lookaround becomes a superset, which can only
    find more loops, never hide one."""
    match form:
        case Plain(items):
            graph = _Graph()
            try:
                graph.final = graph.sequence(items, 0)
            except TooLargeError:
                return automata.EVERYTHING, False
            return automata.Memoised(_Automaton(graph)), graph.exact
        case Negated(part):
            inner, exact = _language(part)
            return (automata.Complement(inner) if exact else automata.EVERYTHING), exact
        case Every(parts):
            known = [_language(part) for part in parts]
            return automata.Intersection(tuple(language for language, _ in known)), all(exact for _, exact in known)
        case Some(parts):
            known = [_language(part) for part in parts]
            return automata.Union(tuple(language for language, _ in known)), all(exact for _, exact in known)


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

    def sequence(self, items: Iterable[Item], start: int) -> int:
        """Adds the items after ``start``; returns the node after them."""
        for item in items:
            start = self._item(item, start)
        return start

    def _item(self, item: Item, start: int) -> int:
        """Adds an item after ``start`` (Thompson's construction) and returns its end node. Anchors are empty edges,
        taken only at their place; unsupported items make the graph inexact."""
        kind, value, flags = item
        chars = characters(kind, value, flags)
        if chars is not None:
            end = self.node()
            self.edges[start].append((chars, end))
            return end
        if kind is sre.BRANCH:
            end = self.node()
            for body in value[1]:
                self.link(self.sequence(flat(body, flags), start), end)
            return end
        if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            low, high, body = value
            return self._repeat(low, high, flat(body, flags), start)
        end = self.node()
        if kind is sre.AT and value in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING, sre.AT_END, sre.AT_END_STRING):
            self.link(start, end, "begin" if value in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING) else "end")
        elif kind is not sre.FAILURE:
            self.exact = False
            self.link(start, end)
        return end

    def _repeat(self, low: Any, high: Any, body: Sequence[Item], start: int) -> int:
        """Copies the body for each required repetition, then adds a loop, or one optional copy for each further one."""
        for _ in range(int(low)):
            start = self._fresh(self.sequence(body, start))
        if high is sre.MAXREPEAT:
            again = self._fresh(start)
            self.link(self.sequence(body, again), again)
            return self._fresh(again)
        end = self.node()
        self.link(start, end)
        for _ in range(int(high) - int(low)):
            start = self._fresh(self.sequence(body, start))
            self.link(start, end)
        return end

    def _fresh(self, before: int) -> int:
        """Adds a separate node, so that loops of neighbouring items do not merge."""
        after = self.node()
        self.link(before, after)
        return after


def characters(kind: Any, value: Any, flags: int) -> frozenset[str] | None:
    """The characters that one item of a parse tree matches; None if it does not match exactly one."""
    ignores_case = bool(int(flags) & int(re.IGNORECASE))  # an operation of enums costs more than all the rest
    if kind is sre.IN:
        negated = bool(value) and value[0][0] is sre.NEGATE
        members = [item for item in value if item[0] is not sre.NEGATE]
        return frozenset(
            char
            for char in automata.ALPHABET
            if negated != any(_is(char, document, of, ignores_case) for document, of in members)
        )
    if kind in (sre.ANY, sre.LITERAL, sre.NOT_LITERAL):
        return _single(kind, value, ignores_case)
    return None


@lru_cache(maxsize=1024)
def _single(kind: Any, value: Any, ignores_case: bool) -> frozenset[str]:
    return frozenset(char for char in automata.ALPHABET if _is(char, kind, value, ignores_case))


def _is(char: str, kind: Any, value: Any, ignores_case: bool) -> bool:
    """Whether a character, or with ``ignores_case`` its other form, is in a member of a class."""
    codes = {ord(char)} | ({ord(char.lower()), ord(char.upper())} if ignores_case else set())
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
    """The graph, made deterministic: a state is the set of nodes that the name may have reached. For ``Memoised``."""

    def __init__(self, graph: _Graph) -> None:
        self._graph = graph
        self._work = 0

    def _closure(self, nodes: set[int], asked: str) -> frozenset[int]:
        """All nodes reachable by empty edges. ``asked``: "begin" or "end", at the beginning or end of the name."""
        waiting = list(nodes)
        while waiting:
            for asks, after in self._graph.empty[waiting.pop()]:
                if asks in ("", asked) and after not in nodes:
                    nodes.add(after)
                    waiting.append(after)
        return frozenset(nodes)

    def start(self) -> automata.State:
        # A match of the empty text may depend on both ^ and $, which is irrelevant: no topic name is empty.
        return self._closure({0}, "begin")

    def step(self, state: automata.State, char: str) -> automata.State:
        # Lazy subset construction, with limited work because it can be exponential in the expression.
        self._work += len(state)
        if self._work > MAX_WORK:
            raise automata.UndecidedError
        edges = self._graph.edges
        return self._closure({to for node in state for chars, to in edges[node] if char in chars}, "")

    def accepts(self, state: automata.State) -> bool:
        return self._graph.final in self._closure(set(state), "end")

    def dead(self, state: automata.State) -> bool:
        return not state

    def full(self, state: automata.State) -> bool:  # noqa: ARG002 - not worth finding out
        return False

    def distinguishes(self) -> frozenset[frozenset[str]]:
        return frozenset(chars for edges in self._graph.edges for chars, _ in edges)
