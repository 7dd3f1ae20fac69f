"""What a comparison found. Parts of the comparison each return one; they are added up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from reconciler.changes import Change, Ignored, Refused, Unmanaged, UnmanagedAcl
from reconciler.errors import Unknown


@dataclass(frozen=True, slots=True)
class Settled:
    """A declared field that is already as wished: ``east/orders``, ``partitions``."""

    subject: str
    field: str


@dataclass(frozen=True, slots=True)
class Findings:
    """``as_wished``: subjects of which every declared field is settled."""

    changes: tuple[Change, ...] = ()
    refused: tuple[Refused, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    unmanaged: tuple[Unmanaged, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    notes: tuple[str, ...] = ()
    settled: tuple[Settled, ...] = ()
    as_wished: tuple[str, ...] = ()
    unmanaged_acls: tuple[UnmanagedAcl, ...] = ()


def merged(parts: Iterable[Findings]) -> Findings:
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for part in parts:
        for name, column in columns.items():
            if found := getattr(part, name):
                column.extend(found)
    return Findings(**{name: tuple(column) for name, column in columns.items()})


_COLUMNS = tuple(column.name for column in fields(Findings))
