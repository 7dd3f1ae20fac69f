"""What renderers ask of a kind of resource."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Changed = TypeVar("Changed")
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Words(Generic[Changed]):
    """``noun``: of several that change alike. ``subject``: within its cluster. ``headline``: what happens, given
    ``; why`` or nothing. ``signature``: equal for changes that may be told as one. ``lines``: under the headline, of
    changes with one signature; origins may differ and are then left out."""

    noun: str
    subject: Callable[[Changed], str]
    headline: Callable[[Changed, str], str]
    signature: Callable[[Changed], object]
    lines: Callable[[Sequence[Changed]], Iterable[str]]
