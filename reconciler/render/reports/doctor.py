"""The report of ``doctor`` as text or JSON: verdict first, then what needs action, then what is in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from reconciler.model.reports.doctor import Checkup, DoctorVerdict, Finding
from reconciler.render.escape import lines_of
from reconciler.render.plan.html import report_html
from reconciler.render.plan.sections import ReportPage, Section, SectionItem
from reconciler.render.report_json import report_json
from reconciler.render.style import PLAIN, Style

_ORDER = (DoctorVerdict.PROBLEM, DoctorVerdict.UNKNOWN, DoctorVerdict.WARNING, DoctorVerdict.OK)
_PAINT = {DoctorVerdict.PROBLEM: "alarm", DoctorVerdict.UNKNOWN: "~", DoctorVerdict.WARNING: "~", DoctorVerdict.OK: "+"}
_COUNTED = (DoctorVerdict.PROBLEM, DoctorVerdict.WARNING)


def checkup_verdict(checkup: Checkup) -> str:
    counts = [(verdict, count) for verdict in _ORDER if (count := checkup.count(verdict))]
    parts = [f"{count} {verdict}{'s' if verdict in _COUNTED and count != 1 else ''}" for verdict, count in counts]
    start = "Not healthy" if checkup.exit_code else "No problem found"
    return f"{start}: {', '.join(parts)}" if parts else start


def checkup_text(checkup: Checkup, style: Style = PLAIN) -> str:
    lines = [style.paint("bold", checkup_verdict(checkup)), f"environment {checkup.environment}"]
    for verdict in _ORDER:
        if findings := [finding for finding in checkup.findings if finding.verdict is verdict]:
            title = "In order" if verdict is DoctorVerdict.OK else verdict.capitalize()
            lines += ["", style.paint(_PAINT[verdict], f"{title} ({len(findings)})")]
            for _, part in groupby(findings, key=lambda finding: (finding.subject, finding.check)):
                lines += _lines(tuple(part))
    return lines_of(lines, style).rstrip() + "\n"


def checkup_json(checkup: Checkup) -> str:
    """As schemas/doctor.schema.json."""
    said, code = checkup_verdict(checkup), checkup.exit_code
    return report_json("doctor", checkup.environment, verdict=said, exit_code=code, findings=checkup.findings)


def checkup_html(checkup: Checkup) -> str:
    """One page, in the dress of a plan's."""
    whys = {
        DoctorVerdict.PROBLEM: "this does not work, or will not",
        DoctorVerdict.UNKNOWN: "nobody answered, so nothing is concluded",
        DoctorVerdict.WARNING: "it works, and somebody should know",
        DoctorVerdict.OK: "",
    }
    sections = []
    for verdict in _ORDER:
        if findings := [finding for finding in checkup.findings if finding.verdict is verdict]:
            title = "In order" if verdict is DoctorVerdict.OK else f"{verdict.capitalize()}s"
            urgent = verdict in (DoctorVerdict.PROBLEM, DoctorVerdict.UNKNOWN)
            items = tuple(_item(finding) for finding in findings)
            sections.append(Section(title, whys[verdict], items, urgent=urgent))
    return report_html(ReportPage("doctor", checkup.environment, checkup_verdict(checkup), tuple(sections)))


def _item(finding: Finding) -> SectionItem:
    fine = finding.verdict is DoctorVerdict.OK
    why = (f"why: {finding.why}",) if finding.why and not fine else ()
    todo = () if fine else tuple(f"do: {line}" for line in finding.todo if line)
    return SectionItem(f"{finding.subject}, {finding.check}: {finding.text}", (*why, *todo))


def _lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Of one check. What several of its findings ask for is one script, to be copied as a whole."""
    script = len(findings) > 1 and all(finding.todo for finding in findings)
    for finding in findings:
        yield f"  {finding.subject}, {finding.check}: {finding.text}"
        if finding.verdict is not DoctorVerdict.OK:
            yield from [f"    why: {finding.why}"] if finding.why else ()
            yield from (f"    do: {line}" for line in finding.todo if line and not script)
    if script:
        todo = dict.fromkeys(line for finding in findings for line in finding.todo if line)
        yield f"    do, all {len(todo)}:" if len(todo) > 1 else "    do:"
        yield from (f"      {line}" for line in todo)
