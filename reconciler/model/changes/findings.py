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
    """The result of comparing desired and live: changes, and everything that is no change."""

    changes: tuple[Change, ...] = ()
    """Not in order yet (``engine.plan.order``)."""
    refused: tuple[Refused, ...] = ()
    """Desired states that are impossible or dangerous; one of them stops the whole plan."""
    unknown: tuple[Unknown, ...] = ()
    """Failed reads on which a comparison depends; they stop it, too."""
    unmanaged: tuple[Unmanaged, ...] = ()
    """Live topics that nothing declares; never touched."""
    ignored: tuple[Ignored, ...] = ()
    """Differences that a rule leaves alone, each with the reason."""
    notes: tuple[str, ...] = ()
    """For readers, without a change."""
    settled: tuple[Subject, ...] = ()
    """Subjects of which one declared field is as desired."""
    as_desired: tuple[Subject, ...] = ()
    """Subjects with all fields as desired."""
    unmanaged_acls: tuple[UnmanagedAcl, ...] = ()
    """Live rules that neither git nor this environment's record knows."""
    adopted_acls: tuple[AdoptedAcl, ...] = ()
    """Declared rules that existed before: apply records them as ours."""
    outside: tuple[OutsideChange, ...] = ()
    """Changes that no apply made."""


def merged(parts: Iterable[Findings]) -> Findings:
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for part in parts:
        for name, column in columns.items():
            if members := getattr(part, name):
                column.extend(members)
    return Findings(**{name: tuple(column) for name, column in columns.items()})


_COLUMNS = tuple(column.name for column in fields(Findings))
