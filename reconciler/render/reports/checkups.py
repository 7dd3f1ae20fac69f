"""The reports of ``doctor``, verdict first, then what needs action, and of ``audit verify``: whole and since when, the
first break with both digests, or unknown."""

from dataclasses import asdict
from itertools import groupby

from reconciler.errors import Unknown
from reconciler.model.reports.doctor import Checkup, DoctorVerdict
from reconciler.model.state.audit_chain import AuditVerification, ChainReport
from reconciler.render.markup import PLAIN, Style, lines_of, report_json
from reconciler.render.plan.html import report_html
from reconciler.render.plan.sections import ReportPage, Section, SectionItem
from reconciler.text import counted

_ORDER = (DoctorVerdict.PROBLEM, DoctorVerdict.UNKNOWN, DoctorVerdict.WARNING, DoctorVerdict.OK)
_PAINT = {DoctorVerdict.PROBLEM: "alarm", DoctorVerdict.UNKNOWN: "~", DoctorVerdict.WARNING: "~", DoctorVerdict.OK: "+"}
_COUNTED = (DoctorVerdict.PROBLEM, DoctorVerdict.WARNING)
_WHYS = {
    DoctorVerdict.PROBLEM: "this does not work, or will not",
    DoctorVerdict.UNKNOWN: "no answer, so nothing is concluded",
    DoctorVerdict.WARNING: "it works, but you should know about it",
    DoctorVerdict.OK: "",
}


def checkup_verdict(checkup: Checkup) -> str:
    counts = [(verdict, count) for verdict in _ORDER if (count := checkup.count(verdict))]
    parts = [f"{count} {verdict}{'s' if verdict in _COUNTED and count != 1 else ''}" for verdict, count in counts]
    start = "Not healthy" if checkup.exit_code else "No problem found"
    return f"{start}: {', '.join(parts)}" if parts else start


def checkup_text(checkup: Checkup, style: Style = PLAIN) -> str:
    lines = [style.paint("bold", checkup_verdict(checkup)), f"environment {checkup.environment}"]
    for verdict in _ORDER:
        if not (findings := [finding for finding in checkup.findings if finding.verdict is verdict]):
            continue
        fine = verdict is DoctorVerdict.OK
        lines += ["", style.paint(_PAINT[verdict], f"{'In order' if fine else verdict.capitalize()} ({len(findings)})")]
        for _, part in groupby(findings, key=lambda finding: (finding.subject, finding.check)):
            of_one_check = list(part)
            # The commands of several findings of a check form one script, to be copied as a whole.
            script = len(of_one_check) > 1 and all(finding.todo for finding in of_one_check)
            for finding in of_one_check:
                lines.append(f"  {finding.subject}, {finding.check}: {finding.text}")
                lines += [f"    why: {finding.why}"] if finding.why and not fine else []
                lines += [f"    do: {line}" for line in finding.todo if line and not fine and not script]
            if script:
                todo = dict.fromkeys(line for finding in of_one_check for line in finding.todo if line)
                lines.append(f"    do, all {len(todo)}:" if len(todo) > 1 else "    do:")
                lines += [f"      {line}" for line in todo]
    return lines_of(lines, style).rstrip() + "\n"


def checkup_json(checkup: Checkup) -> str:
    """As schemas/doctor.schema.json."""
    said, code = checkup_verdict(checkup), checkup.exit_code
    return report_json("doctor", checkup.environment, verdict=said, exit_code=code, findings=checkup.findings)


def checkup_html(checkup: Checkup) -> str:
    """One page, in the dress of a plan's."""
    sections = []
    for verdict in _ORDER:
        items, fine = [], verdict is DoctorVerdict.OK
        for finding in (finding for finding in checkup.findings if finding.verdict is verdict):
            why = [f"why: {finding.why}"] if finding.why and not fine else []
            todo = [f"do: {line}" for line in finding.todo if line and not fine]
            text = f"{finding.subject}, {finding.check}: {finding.text}"
            items.append(SectionItem(text, (*why, *todo)))
        if items:
            title = "In order" if fine else f"{verdict.capitalize()}s"
            urgent = verdict in (DoctorVerdict.PROBLEM, DoctorVerdict.UNKNOWN)
            sections.append(Section(title, _WHYS[verdict], tuple(items), urgent=urgent))
    return report_html(ReportPage("doctor", checkup.environment, checkup_verdict(checkup), tuple(sections)))


# the chains of an audit record

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
