"""The report of ``audit verify``: whole and since when, the first break with both digests, or unknown."""

from dataclasses import asdict

from reconciler.errors import Unknown
from reconciler.model.state.audit_chain import AuditVerification, ChainReport
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
        if isinstance(report, Unknown):
            lines += [style.paint("bold", f"{place}: unknown: {report.error}"), f"  {report.todo}"]
            continue
        state, records = _state(report), counted(report.records, "record")
        said = f"{state}, of {records}"
        if state == "whole":
            said = f"whole since {report.since}, {records}"
            said = said if report.since else "no record has a digest of the one before it"
            said = said if report.records else "no record yet"
        lines.append(style.paint("bold", f"{place}: {said}"))
        if (broken := report.broken) is not None:
            lines.append(f"  {broken.kind} of run {broken.run} at {broken.at}: {broken.problem}")
            lines.append(f"    digest that it carries: {broken.expected or 'none'}")
            lines.append(f"    digest of the record before it: {broken.present}")
        if report.pinned is False:
            why = "records were taken off its end, or the chain is another one"
            lines.append(f"  the head that was asked for is not in it: {why}")
        lines += ["  the head that was asked for is in it"] if report.pinned else []
        lines += [f"  {doubt}" for doubt in report.doubts]
        if report.unchained and report.records:
            older = counted(report.unchained, "record")
            lines.append(f"  {older} of older releases before it carry no digest: not checked")
        lines += [f"  head {head}" for head in report.heads]
    if (seen := verification.report) is not None:
        if seen.places:
            lines.append(style.paint("bold", f"the report is as it was recorded at {seen.at}"))
            lines.append(f"  by {seen.who}, commit {seen.commit or 'none'}, in {' and '.join(seen.places)}")
        else:
            lines.append(style.paint("bold", "no record has this report: it was changed, or is of elsewhere"))
        lines.append(f"  digest {seen.digest}")
    return lines_of([*lines, LIMIT], style)


def audit_json(verification: AuditVerification) -> str:
    """As schemas/reports/audit-verification.schema.json."""
    places = []
    for place, report in verification.places.items():
        if isinstance(report, Unknown):
            places.append({"place": place, "verdict": "unknown", "error": report.error, "todo": report.todo})
        else:
            places.append({"place": place, "verdict": _state(report), **asdict(report)})
    seen = {} if verification.report is None else {"report": asdict(verification.report)}
    code = int(verification.exit_code)
    return report_json("audit", verification.environment, exit_code=code, places=places, limit=LIMIT, **seen)


def _state(report: ChainReport) -> str:
    if report.whole:
        return "whole"
    # Doubts alone prove no change of a record; a break or a missing head does.
    return "not proved" if report.broken is None and report.pinned is not False else "broken"
