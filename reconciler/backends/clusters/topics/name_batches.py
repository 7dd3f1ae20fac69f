"""Cuts topic names into batches for reads, each with a name that no topic has, to detect missing rights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

VISIBILITY_PROBE = "reconciler-visibility-probe"
"""An unused name. Only a principal that may describe every topic learns that it does not exist; others are denied."""

Item = TypeVar("Item")


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
