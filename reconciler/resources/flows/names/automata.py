"""Sets of legal topic names as automata: union, intersection, complement, prefix.

The alphabet is the 65 characters that Kafka allows in topic names. Automata are deterministic and built lazily.
Accepted names are searched shortest first, with bounded effort.
"""

import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Protocol, TypeVar

# The order is the order of preference in examples: letters first
ALPHABET = string.ascii_lowercase + string.ascii_uppercase + string.digits + "-_."

State = Any  # hashable: what it holds is its automaton's alone
_OfParts = Callable[[Iterable[bool]], bool]


class UndecidedError(Exception):
    """An automaton, or the product of several, is too large to walk."""


class Language(Protocol):
    """A deterministic automaton. ``dead`` may be True only if no continuation is accepted, ``full`` only if every one
    is."""

    def start(self) -> State: ...

    def step(self, state: State, char: str) -> State: ...

    def accepts(self, state: State) -> bool: ...

    def dead(self, state: State) -> bool: ...

    def full(self, state: State) -> bool: ...

    def distinguishes(self) -> frozenset[frozenset[str]]:
        """Sets of characters; two characters in the same sets always lead to the same state."""
        ...


@dataclass(frozen=True, slots=True)
class _Parallel:
    """A product of automata: its state has one state of each part. ``accepting``, ``rejecting``: ``any`` or ``all`` of
    the parts."""

    parts: tuple[Language, ...]
    accepting: ClassVar[_OfParts]
    rejecting: ClassVar[_OfParts]

    def start(self) -> State:
        return tuple(part.start() for part in self.parts)

    def step(self, state: State, char: str) -> State:
        return tuple(part.step(s, char) for part, s in zip(self.parts, state, strict=True))

    def distinguishes(self) -> frozenset[frozenset[str]]:
        return frozenset().union(*(part.distinguishes() for part in self.parts))

    def accepts(self, state: State) -> bool:
        return type(self).accepting(part.accepts(s) for part, s in zip(self.parts, state, strict=True))

    def dead(self, state: State) -> bool:
        return type(self).rejecting(part.dead(s) for part, s in zip(self.parts, state, strict=True))

    def full(self, state: State) -> bool:
        return type(self).accepting(part.full(s) for part, s in zip(self.parts, state, strict=True))


class Union(_Parallel):
    __slots__ = ()
    accepting, rejecting = any, all


class Intersection(_Parallel):
    __slots__ = ()
    accepting, rejecting = all, any


class _Wrapping:
    """The language of ``part``, which subclasses modify."""

    __slots__ = ()
    part: Language

    def start(self) -> State:
        return self.part.start()

    def step(self, state: State, char: str) -> State:
        return self.part.step(state, char)

    def accepts(self, state: State) -> bool:
        return self.part.accepts(state)

    def dead(self, state: State) -> bool:
        return self.part.dead(state)

    def full(self, state: State) -> bool:
        return self.part.full(state)

    def distinguishes(self) -> frozenset[frozenset[str]]:
        return self.part.distinguishes()


@dataclass(frozen=True, slots=True)
class Complement(_Wrapping):
    part: Language

    def accepts(self, state: State) -> bool:
        return not self.part.accepts(state)

    def dead(self, state: State) -> bool:
        return self.part.full(state)

    def full(self, state: State) -> bool:
        return self.part.dead(state)


@dataclass(frozen=True, slots=True)
class After(_Wrapping):
    """The names ``t`` for which ``prefix + t`` is in ``part``."""

    prefix: str
    part: Language

    def start(self) -> State:
        return reduce(self.part.step, self.prefix, self.part.start())


@dataclass(frozen=True, slots=True)
class Prefixed:
    """The names ``prefix + t`` for the names ``t`` in ``part``. States: (characters read or -1, state of ``part``)."""

    prefix: str
    part: Language

    def start(self) -> State:
        return (0, self.part.start())

    def step(self, state: State, char: str) -> State:
        read, inner = state
        if read == len(self.prefix):
            return (read, self.part.step(inner, char))
        return (read + 1 if read >= 0 and self.prefix[read] == char else -1, inner)

    def accepts(self, state: State) -> bool:
        return bool(state[0] == len(self.prefix)) and self.part.accepts(state[1])

    def dead(self, state: State) -> bool:
        return bool(state[0] == -1) or self.part.dead(state[1])

    def full(self, state: State) -> bool:
        return bool(state[0] == len(self.prefix)) and self.part.full(state[1])

    def distinguishes(self) -> frozenset[frozenset[str]]:
        return self.part.distinguishes() | {frozenset(char) for char in self.prefix}


class Memoised:
    """The same language with numbered states and cached answers, for parts that are walked repeatedly."""

    def __init__(self, part: Language) -> None:
        self._part = part
        # Numbered states with steps and verdicts: an intersection asks for them repeatedly, and computing them can be
        # expensive.
        self._numbers: dict[State, int] = {}
        self._states: list[State] = []
        self._steps: list[dict[str, int]] = []
        self._verdicts: list[tuple[bool, bool, bool]] = []
        self._start = self._number(part.start())
        self._sets = part.distinguishes()

    def _number(self, state: State) -> int:
        """A state's number; its verdicts are computed when it is first seen."""
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
            self._steps.append({})
            self._verdicts.append((self._part.accepts(state), self._part.dead(state), self._part.full(state)))
        return number

    def start(self) -> State:
        return self._start

    def step(self, state: State, char: str) -> State:
        step = self._steps[state].get(char)
        if step is None:
            step = self._steps[state][char] = self._number(self._part.step(self._states[state], char))
        return step

    def accepts(self, state: State) -> bool:
        return self._verdicts[state][0]

    def dead(self, state: State) -> bool:
        return self._verdicts[state][1]

    def full(self, state: State) -> bool:
        return self._verdicts[state][2]

    def distinguishes(self) -> frozenset[frozenset[str]]:
        return self._sets


NOTHING = Union(())
EVERYTHING = Complement(NOTHING)


def both(*parts: Language) -> Language:
    return parts[0] if len(parts) == 1 else Intersection(parts)


Node = TypeVar("Node")

MAX_NAME = 249
MAX_STATES = 20_000


@dataclass(slots=True)
class Effort:
    """Remaining states to walk, shared by all questions of one search."""

    left: int = MAX_STATES

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise UndecidedError


def shortest(language: Language, states: int = MAX_STATES) -> str | None:
    """The shortest legal topic name in the language; None if it has none. Raises UndecidedError if that takes more than
    ``states``."""
    return next(names(language, MAX_NAME, Effort(states)), None)


def names(language: Language, max_length: int = MAX_NAME, effort: Effort | None = None) -> Iterator[str]:
    """Names of the language, shortest first, one for each state the automaton can end in. Raises UndecidedError."""
    effort = effort or Effort()
    # One character for each group that no set of the language distinguishes: the others would lead to the same states.
    sets = tuple(language.distinguishes() | {frozenset(".")})
    alike: dict[tuple[bool, ...], str] = {}
    for char in ALPHABET:
        alike.setdefault(tuple(char in words for words in sets), char)
    chars = "".join(alike.values())
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
    """All names of a language with at most ``most``; None if it has more, or if that is undecided."""
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
    """The states reachable from ``start`` by one step or more."""
    behind: set[Node] = set()
    waiting = [start]
    while waiting:
        fresh = set(after.get(waiting.pop(), ())) - behind
        behind |= fresh
        waiting += fresh
    return behind
