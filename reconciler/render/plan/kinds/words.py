"""What renderers ask of a kind of resource."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Changed = TypeVar("Changed")
SHOWN = 5


@dataclass(frozen=True, slots=True)
class FieldValues:
    """One field of a change, for a table: how it is and how it will be. ``name`` empty: the thing as a whole.
    ``before`` empty: it is not there, None: there is nothing to say of it; ``after`` empty: it goes."""

    name: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class Words(Generic[Changed]):
    """``noun``: of several that change alike. ``subject``: within its cluster. ``headline``: what happens, given
    ``; why`` or nothing. ``signature``: equal for changes that may be told as one. ``lines``: under the headline, of
    changes with one signature; origins may differ and are then left out. ``fields``: of the first of such changes."""

    noun: str
    subject: Callable[[Changed], str]
    headline: Callable[[Changed, str], str]
    signature: Callable[[Changed], object]
    lines: Callable[[Sequence[Changed]], Iterable[str]]
    fields: Callable[[Changed], Iterable[FieldValues]]
