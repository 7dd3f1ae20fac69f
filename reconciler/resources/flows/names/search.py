"""Finds names that an automaton accepts, the shortest first, within a bounded effort."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from reconciler.resources.flows.names.automata import ALPHABET, Language, State, UndecidedError

Node = TypeVar("Node")

MAX_NAME = 249
MAX_STATES = 20_000


@dataclass(slots=True)
class Effort:
    """How many states may still be walked; one for several questions that are one search."""

    left: int = MAX_STATES

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise UndecidedError


def shortest(language: Language, max_length: int = MAX_NAME, states: int = MAX_STATES) -> str | None:
    """The shortest legal topic name in the language, or None when there is none. Raises UndecidedError, for one behind
    more than ``states``."""
    return next(names(language, max_length, Effort(states)), None)


def names(language: Language, max_length: int = MAX_NAME, effort: Effort | None = None) -> Iterator[str]:
    """Names of the language, shortest first, one for each state the automaton can end in. Raises UndecidedError."""
    effort = effort or Effort()
    chars = _representatives(language.distinguishes() | {frozenset(".")})
    start = language.start()
    if language.dead(start):
        return
    seen: set[State] = set()  # not the start: a name may lead back to it
    layer: list[tuple[str, State]] = [("", start)]
    for _ in range(max_length):
        following: list[tuple[str, State]] = []
        for text, state in layer:
            for char in chars:
                after = language.step(state, char)
                # "." and ".." are no topics, so their states must stay open for other names
                name = text + char
                special = name in (".", "..")
                if after in seen and not special:
                    continue
                if not special:
                    seen.add(after)
                    effort.spend()
                if language.dead(after):
                    continue
                if not special and language.accepts(after):
                    yield name
                following.append((name, after))
        if not following:
            return
        layer = following


def every_name(language: Language, most: int, max_length: int = MAX_NAME) -> tuple[str, ...] | None:
    """All names of a language with at most ``most`` of them; None for one with more, or where that is not found out."""
    every: list[str] = []
    layer = [("", language.start())]
    for _ in range(max_length):
        layer = [(text + char, language.step(state, char)) for text, state in layer for char in ALPHABET]
        layer = [(text, state) for text, state in layer if not language.dead(state)]
        every += [text for text, state in layer if text not in (".", "..") and language.accepts(state)]
        if not layer:
            return tuple(every)
        if len(every) + len(layer) > most:
            return None
    return None


def reached(start: Node, after: Mapping[Node, Iterable[Node]]) -> set[Node]:
    """What lies behind ``start``, by one step or more."""
    behind: set[Node] = set()
    waiting = [start]
    while waiting:
        fresh = set(after.get(waiting.pop(), ())) - behind
        behind |= fresh
        waiting += fresh
    return behind


def _representatives(sets: Iterable[frozenset[str]]) -> str:
    """One character for each group that no set tells apart."""
    sets = tuple(sets)
    representatives: dict[tuple[bool, ...], str] = {}
    for char in ALPHABET:
        representatives.setdefault(tuple(char in words for words in sets), char)
    return "".join(representatives.values())
