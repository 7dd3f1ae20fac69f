"""What ``audit verify`` learned about each place where an audit record is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from reconciler.errors import ExitCode, Unknown
from reconciler.model.state.audit_chain import ChainReport


@dataclass(frozen=True, slots=True)
class AuditVerification:
    """``places``: by name, ``this machine`` or cluster and topic."""

    environment: str
    places: Mapping[str, ChainReport | Unknown]

    @property
    def exit_code(self) -> ExitCode:
        """A broken chain weighs more than one that could not be read."""
        reports = [report for report in self.places.values() if not isinstance(report, Unknown)]
        if any(not report.whole for report in reports):
            return ExitCode.CHANGES
        return ExitCode.DONE if len(reports) == len(self.places) else ExitCode.ERROR


def pinned_somewhere(places: Mapping[str, ChainReport | Unknown]) -> dict[str, ChainReport | Unknown]:
    """A head is of one place, and says nothing of the others. While a place is unknown, it may be there."""
    reports = [report for report in places.values() if not isinstance(report, Unknown)]
    if len(reports) == len(places) and not any(report.pinned for report in reports):
        return dict(places)
    return {
        name: report if isinstance(report, Unknown) or report.pinned else replace(report, pinned=None)
        for name, report in places.items()
    }
