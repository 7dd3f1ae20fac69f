"""The findings of a diff: changes, refusals, unknowns, notes. Findings of parts are added up."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from reconciler.errors import Unknown
from reconciler.model.changes import (
    AdoptedAcl,
    Change,
    Ignored,
    OutsideChange,
    Refused,
    Subject,
    Unmanaged,
    UnmanagedAcl,
)


@dataclass(frozen=True, slots=True)
class Findings:
    """``settled``: subjects with one declared field as desired; ``as_desired``: with all fields as desired.
    ``outside``: changes that no apply made."""

    changes: tuple[Change, ...] = ()
    refused: tuple[Refused, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    unmanaged: tuple[Unmanaged, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    notes: tuple[str, ...] = ()
    settled: tuple[Subject, ...] = ()
    as_desired: tuple[Subject, ...] = ()
    unmanaged_acls: tuple[UnmanagedAcl, ...] = ()
    adopted_acls: tuple[AdoptedAcl, ...] = ()
    outside: tuple[OutsideChange, ...] = ()


def merged(parts: Iterable[Findings]) -> Findings:
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for part in parts:
        for name, column in columns.items():
            if members := getattr(part, name):
                column.extend(members)
    return Findings(**{name: tuple(column) for name, column in columns.items()})


_COLUMNS = tuple(column.name for column in fields(Findings))
