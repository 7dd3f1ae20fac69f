"""The report of ``doctor`` as text or JSON: verdict first, then what needs action, then what is in order."""

from itertools import groupby

from reconciler.model.reports.doctor import Checkup, DoctorVerdict
from reconciler.render.escape import lines_of
from reconciler.render.plan.html import report_html
from reconciler.render.plan.sections import ReportPage, Section, SectionItem
from reconciler.render.report_json import report_json
from reconciler.render.style import PLAIN, Style

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
