"""Two environments side by side as text, Markdown, HTML and JSON: a section for each kind of declaration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from reconciler.model.reports.edit import ItemChange
from reconciler.model.reports.promotion import PromotionReport
from reconciler.render.escape import lines_of
from reconciler.render.plan.formats import report_in
from reconciler.render.plan.sections import ReportPage, Section, SectionItem
from reconciler.render.report_json import report_json
from reconciler.render.reports.edits.edit import folded, section_lines
from reconciler.render.style import PLAIN, Format, Style
from reconciler.text import counted

SECTIONS = {
    "topic": "Topics",
    "flow": "Flows",
    "mirror": "Mirrors",
    "access rule": "Access",
    "user": "Users",
    "quota": "Quotas",
    "cluster": "Clusters",
}
OTHERS = "Defaults, classes and rules"
_PLURALS = {"class": "classes", "defaults": "defaults", "access": "access"}


def promotion_in(report: PromotionReport, form: Format, style: Style = PLAIN) -> str:
    text = partial(promotion_text, report, style)
    return report_in(form, text, partial(promotion_json, report), partial(promotion_page, report))


def promotion_verdict(report: PromotionReport) -> str:
    """``To declare what staging does, prod would change: +1 topic, ~2 flows``."""
    if report.equal:
        return f"{report.target} declares what {report.source} does"
    counts = Counter((item.sign.value, item.kind) for item in report.comparison.items)
    words = (f"{sign}{counted(count, kind, _PLURALS.get(kind, ''))}" for (sign, kind), count in counts.items())
    return f"To declare what {report.source} does, {report.target} would change: {', '.join(words)}"


def promotion_text(report: PromotionReport, style: Style = PLAIN) -> str:
    lines = [style.paint("bold", promotion_verdict(report))]
    lines += [f"  {line}" for line in _notes(report)]
    for section in _sections(report):
        lines += ["", section.heading, *section_lines(section, style)]
    return lines_of(lines, style)


def promotion_page(report: PromotionReport) -> ReportPage:
    notes = tuple(SectionItem(line) for line in _notes(report))
    sections = (*_sections(report), Section("How they were compared", "", notes))
    environment = f"{report.source} and {report.target}"
    return ReportPage("compare", environment, promotion_verdict(report), sections, title="comparison")


def _notes(report: PromotionReport) -> Iterator[str]:
    if not report.equal:
        yield f"+ only in {report.source}; - only in {report.target}; ~ differs: {report.target} -> {report.source}"
    for name, other in report.paired.items():
        yield f"{name} of {report.source} is compared with {other}: nothing else can be meant"
    yield "not compared: addresses, client settings, cluster ids and regions, tombstones"


def _sections(report: PromotionReport) -> Iterator[Section]:
    items: dict[str, list[ItemChange]] = {title: [] for title in (*SECTIONS.values(), OTHERS)}
    for item in report.comparison.items:
        items[SECTIONS.get(item.kind, OTHERS)].append(item)
    for title, members in items.items():
        if members:
            yield Section(title, "", tuple(folded(members)), count=len(members))


def promotion_json(report: PromotionReport) -> str:
    """As schemas/reports/comparison.schema.json."""
    return report_json(
        "comparison",
        report.target,
        compared_with=report.source,
        verdict=promotion_verdict(report),
        exit_code=int(report.exit_code),
        equal=report.equal,
        names=dict(report.names),
        paired=dict(report.paired),
        items=report.comparison.items,
    )
