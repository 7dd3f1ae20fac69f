"""One check of one subject, which builds findings."""

from dataclasses import dataclass

from reconciler.errors import Unknown
from reconciler.model.reports.doctor import DoctorVerdict, Finding


@dataclass(frozen=True, slots=True)
class Check:
    """``subject`` and ``name`` as in ``Finding``."""

    subject: str
    name: str

    def ok(self, text: str, why: str = "") -> Finding:
        return self._finding(DoctorVerdict.OK, text, why)

    def warning(self, text: str, why: str, todo: str) -> Finding:
        return self._finding(DoctorVerdict.WARNING, text, why, todo)

    def problem(self, text: str, why: str, todo: str) -> Finding:
        return self._finding(DoctorVerdict.PROBLEM, text, why, todo)

    def unknown(self, text: str, why: str = "", todo: str = "") -> Finding:
        return self._finding(DoctorVerdict.UNKNOWN, text, why, todo)

    def unread(self, part: Unknown, why: str = "") -> Finding:
        return self.unknown(part.error, why, part.todo)

    def _finding(self, verdict: DoctorVerdict, text: str, why: str, todo: str = "") -> Finding:
        return Finding(self.subject, self.name, verdict, text, why, (todo,) if todo else ())
