"""Report of two environments side by side: what the second lacks to be declared as the first is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.errors import ExitCode
from reconciler.model.reports.edit import EditComparison


@dataclass(frozen=True, slots=True)
class PromotionReport:
    """``comparison``: the edit of ``target`` that makes it declare what ``source`` does. ``names``: name in the source
    and in the target, as they were given; ``paired``: those that were found by their contents."""

    source: str
    target: str
    comparison: EditComparison
    names: Mapping[str, str]
    paired: Mapping[str, str]

    @property
    def equal(self) -> bool:
        return not self.comparison.items

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.DONE if self.equal else ExitCode.CHANGES
