"""The report of ``audit verify``: whole and since when, the first break with both digests, or unknown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from reconciler.errors import Unknown
from reconciler.model.reports.audit import AuditVerification
from reconciler.model.state.audit_chain import ChainBreak, ChainReport
from reconciler.render.escape import lines_of
from reconciler.render.report_json import report_json
from reconciler.render.style import PLAIN, Style
from reconciler.text import counted

LIMIT = (
    "Nothing here protects the last record of a chain: it can be changed, others can be added or taken off behind it,"
    " and who can write the record can write a whole new chain. Keep a head elsewhere, and pass it with --head."
)


def audit_text(verification: AuditVerification, style: Style = PLAIN) -> str:
    lines: list[str] = []
    for place, report in verification.places.items():
        lines.append(style.paint("bold", f"{place}: {_verdict(report)}"))
        lines += [f"  {line}" for line in _details(report)]
    return lines_of([*lines, LIMIT], style)


def audit_json(verification: AuditVerification) -> str:
    """As schemas/reports/audit-verification.schema.json."""
    places = [
        {"place": place, "verdict": _state(report), **_fields(report)} for place, report in verification.places.items()
    ]
    return report_json(
        "audit", verification.environment, exit_code=int(verification.exit_code), places=places, limit=LIMIT
    )


def _state(report: ChainReport | Unknown) -> str:
    if isinstance(report, Unknown):
        return "unknown"
    return "whole" if report.whole else "not proved" if _only_doubted(report) else "broken"


def _only_doubted(report: ChainReport) -> bool:
    return report.broken is None and report.pinned is not False


def _fields(report: ChainReport | Unknown) -> dict[str, object]:
    return {"error": report.error, "todo": report.todo} if isinstance(report, Unknown) else asdict(report)


def _verdict(report: ChainReport | Unknown) -> str:
    if isinstance(report, Unknown):
        return f"unknown: {report.error}"
    records = counted(report.records, "record")
    if not report.whole:
        return f"not proved, of {records}" if _only_doubted(report) else f"broken, of {records}"
    return f"whole since {report.since}, {records}" if report.since else "no record has a digest of the one before it"


def _details(report: ChainReport | Unknown) -> Iterator[str]:
    if isinstance(report, Unknown):
        yield report.todo
        return
    if report.broken is not None:
        yield from _break(report.broken)
    if report.pinned is False:
        yield "the head that was asked for is not in it: records were taken off its end, or the chain is another one"
    if report.pinned:
        yield "the head that was asked for is in it"
    yield from report.doubts
    if report.unchained and report.records:
        yield f"{counted(report.unchained, 'record')} of older releases before it carry no digest: not checked"
    for head in report.heads:
        yield f"head {head}"


def _break(broken: ChainBreak) -> Iterator[str]:
    yield f"{broken.kind} of run {broken.run} at {broken.at}: {broken.problem}"
    yield f"  digest that it carries: {broken.expected or 'none'}"
    yield f"  digest of the record that stands before it: {broken.present}"
