"""What ``audit verify`` learned about each place where an audit record is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
